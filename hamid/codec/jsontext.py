"""JSON ↔ plain values, and strict looks into objects whose shape others decided.

The one place that knows the JSON library. Readers here raise `ShapeError`, which is no
`HamidError`: only the caller knows which object and which class of error to name.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import orjson

JsonObject: TypeAlias = dict[str, Any]

INT32_MAX: Final = 2**31 - 1
QUOTE_LIMIT: Final = 256
"""Characters of foreign text that a message quotes at most."""


class ShapeError(ValueError):
    """JSON that cannot be read, or a value that is not of the type its place asks for."""


def loads(text: str | bytes) -> Any:
    """Return the value that the JSON text denotes."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ShapeError(f"it is no JSON ({error})") from error


def loads_object(text: str | bytes) -> JsonObject:
    """Return the object that the JSON text denotes; anything but an object is refused."""
    return as_object(loads(text), what="the JSON")


def dumps(value: object) -> bytes:
    """Return compact JSON, keys in the order of the mapping."""
    return orjson.dumps(value)


def as_object(value: object, *, what: str) -> JsonObject:
    """Return the value if it is an object."""
    if not isinstance(value, dict):
        raise ShapeError(f"{what} is {kind_of(value)}, not an object")
    return value


def as_list(value: object, *, what: str) -> list[Any]:
    """Return the value if it is a list."""
    if not isinstance(value, list):
        raise ShapeError(f"{what} is {kind_of(value)}, not a list")
    return value


def as_text(value: object, *, what: str) -> str:
    """Return the value if it is a string that is not empty."""
    if not isinstance(value, str):
        raise ShapeError(f"{what} is {kind_of(value)}, not a string")
    if not value:
        raise ShapeError(f"{what} is empty")
    return value


def as_int(value: object, *, what: str, minimum: int = 0, maximum: int = INT32_MAX) -> int:
    """Return the value if it is a whole number within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ShapeError(f"{what} is {kind_of(value)}, not a whole number")
    if not minimum <= value <= maximum:
        raise ShapeError(f"{what} is {value}; allowed is {minimum} to {maximum}")
    return value


def as_bool(value: object, *, what: str) -> bool:
    """Return the value if it is true or false."""
    if not isinstance(value, bool):
        raise ShapeError(f"{what} is {kind_of(value)}, not true or false")
    return value


def is_number(text: str, maximum: int) -> bool:
    """Whether the text is a whole number from 0 to this, of plain digits and no more than it needs."""
    return (
        text.isascii()
        and text.isdigit()
        and len(text) <= len(str(maximum))  # `int` refuses thousands of digits in its own way
        and int(text) <= maximum
    )


def kind_of(value: object) -> str:
    """What a value is, in the words of JSON, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def quoted(text: str | bytes) -> str:
    """Foreign text for a message: cut short, and unprintable characters escaped."""
    if isinstance(text, bytes):
        text = text[: QUOTE_LIMIT * 4].decode(errors="replace")
    return repr(text if len(text) <= QUOTE_LIMIT else text[:QUOTE_LIMIT] + "…")
