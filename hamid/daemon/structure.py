"""A parsed YAML document as a value of a settings class; nothing is guessed.

A value of another type is an error, not converted: YAML knows types, and `"false"` is no boolean.
Errors name the place, what was found and what is expected; all of a document are told at once.
A section with nothing in it is one with the defaults.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_origin

import cattrs
from cattrs.cols import homogenous_tuple_structure_factory
from cattrs.gen import make_dict_structure_fn

from hamid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

HINT: Final = "`hamid settings` shows all settings, their defaults and what they mean"

_WORDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a whole number, 0 or more",
    float: "a number, 0 or more",
    str: "text",
}


def structure(document: object, kind: type[T], *, where: str) -> T:
    """The document as a value of this kind.

    Args:
        document: what the YAML parser made of it.
        kind: a dataclass whose fields are words, paths, enums, tuples, and such dataclasses.
        where: the file, for errors.
    """
    try:
        return _converter().structure(document, kind)
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        found = cattrs.transform_error(error, path="", format_exception=_sentence)
        raise SettingsError("; ".join(_placed(text, where) for text in found), hint=HINT) from error


def _placed(text: str, where: str) -> str:
    """The sentence with its place in front instead of behind."""
    sentence, _, place = text.rpartition(" @ ")
    return f"{where}: {place.lstrip('.')}: {sentence}" if place else f"{where}: {sentence}"


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (bool, int, float):
        converter.register_structure_hook(kind, _word)
    converter.register_structure_hook(str, _text)  # taken for all enums, too: they are text
    converter.register_structure_hook(Path, lambda value, _: Path(_word(value, str)))
    converter.register_structure_hook_factory(is_dataclass, lambda kind: _section(kind, converter))
    converter.register_structure_hook_factory(_is_list, lambda kind: _list(kind, converter))
    return converter


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _word(value: Any, kind: type[T]) -> T:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    is_of_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    is_amount = kind in {int, float}
    if not is_of_kind or (is_amount and not (value >= 0 and math.isfinite(value))):
        raise ValueError(f"found {value!r}, expected {_WORDS[kind]}")
    word: T = value
    return word


def _text(value: Any, kind: type[str]) -> str:
    if not issubclass(kind, StrEnum):
        return _word(value, kind)
    if not isinstance(value, str) or value not in {*kind}:
        raise ValueError(f"found {value!r}, expected one of {', '.join(kind)}")
    return kind(value)


def _section(kind: type[T], converter: cattrs.Converter) -> Callable[[Any, Any], T]:
    read: Callable[[Any, Any], T] = make_dict_structure_fn(kind, converter)

    def section(value: Any, _: Any) -> T:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise ValueError(f"found {value!r}, expected names with values")  # noqa: TRY004 - told as all others
        return read(value, kind)

    return section


def _list(kind: type[T], converter: cattrs.Converter) -> Callable[[Any, Any], T]:
    read = homogenous_tuple_structure_factory(kind, converter)

    def items(value: Any, _: Any) -> T:
        if not isinstance(value, list | tuple):
            raise ValueError(f"found {value!r}, expected a list")  # noqa: TRY004 - told as all others
        result: T = read(value, kind)
        return result

    return items


def _sentence(error: BaseException, _: object) -> str:
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = ", ".join(sorted(f.name for f in fields(error.cl)))
        unknown = ", ".join(sorted(map(str, error.extra_fields)))
        return f"unknown is {unknown}; known are {known}"
    if isinstance(error, KeyError):
        return "not given, and it has no default"
    return str(error) or type(error).__name__
