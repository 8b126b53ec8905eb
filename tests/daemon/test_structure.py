from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

from hamid.daemon.structure import structure
from hamid.errors import SettingsError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = 1
    ratio: float = 0.5
    names: tuple[str, ...] = ("a",)

    def __post_init__(self):
        if self.size > 100:
            raise SettingsError(f"size is {self.size}, not up to 100", hint="make it smaller")


@dataclass(frozen=True, kw_only=True)
class Address:
    host: str


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    is_on: bool = False
    colour: Colour = Colour.RED
    path: Path = Path("/a")
    other: Path | None = None
    address: Address | None = None


def read(document):
    return structure(document, Outer, where="my.yaml")


def refusal(document):
    with pytest.raises(SettingsError) as caught:
        read(document)
    assert caught.value.hint
    return caught.value.message


def test_what_is_given_is_taken_and_the_rest_has_its_default():
    found = read(
        {
            "inner": {"size": 3, "ratio": 2, "names": ["x", "y"]},
            "is_on": True,
            "colour": "blue",
            "path": "/b",
            "other": "/c",
            "address": {"host": "here"},
        }
    )

    assert found == Outer(
        inner=Inner(size=3, ratio=2.0, names=("x", "y")),
        is_on=True,
        colour=Colour.BLUE,
        path=Path("/b"),
        other=Path("/c"),
        address=Address(host="here"),
    )
    assert isinstance(found.inner.ratio, float)


@pytest.mark.parametrize("document", [{}, None, {"inner": None}, {"inner": {}}, {"other": None}])
def test_a_section_without_anything_in_it_has_the_defaults(document):
    assert read(document) == Outer()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"inner": {"size": "3"}}, "inner.size: found '3', expected a whole number, 0 or more"),
        ({"inner": {"size": 1.0}}, "inner.size: found 1.0, expected a whole number, 0 or more"),
        ({"inner": {"size": True}}, "inner.size: found True, expected a whole number, 0 or more"),
        ({"inner": {"size": -1}}, "inner.size: found -1, expected a whole number, 0 or more"),
        ({"inner": {"size": None}}, "inner.size: found None, expected a whole number, 0 or more"),
        ({"inner": {"ratio": "2"}}, "inner.ratio: found '2', expected a number, 0 or more"),
        (
            {"inner": {"ratio": float("nan")}},
            "inner.ratio: found nan, expected a number, 0 or more",
        ),
        (
            {"inner": {"ratio": float("inf")}},
            "inner.ratio: found inf, expected a number, 0 or more",
        ),
        ({"inner": {"names": "a"}}, "inner.names: found 'a', expected a list"),
        ({"inner": {"names": ["a", 5]}}, "inner.names[1]: found 5, expected text"),
        ({"inner": []}, "inner: found [], expected names with values"),
        ({"inner": "x"}, "inner: found 'x', expected names with values"),
        ({"is_on": "false"}, "is_on: found 'false', expected true or false"),
        ({"is_on": 0}, "is_on: found 0, expected true or false"),
        ({"colour": "green"}, "colour: found 'green', expected one of red, blue"),
        ({"colour": False}, "colour: found False, expected one of red, blue"),
        ({"path": 5}, "path: found 5, expected text"),
        ({"other": 5}, "other: found 5, expected text"),
        ({"address": {}}, "address.host: not given, and it has no default"),
        ({"shape": 1}, "unknown is shape; known are address, colour, inner, is_on, other, path"),
        ({1: 2}, "unknown is 1; known are address, colour, inner, is_on, other, path"),
        ({"inner": {"x": 1}}, "inner: unknown is x; known are names, ratio, size"),
        ({"inner": {"size": 101}}, "inner: size is 101, not up to 100 (make it smaller)"),
        ([], "found [], expected names with values"),
    ],
)
def test_an_error_says_where_what_and_what_instead(document, message):
    assert refusal(document) == f"my.yaml: {message}"


def test_all_errors_of_a_document_are_told_at_once():
    message = refusal({"inner": {"size": "x", "ratio": "y"}, "colour": "green"})

    assert message.split("; ") == [
        "my.yaml: inner.size: found 'x', expected a whole number, 0 or more",
        "my.yaml: inner.ratio: found 'y', expected a number, 0 or more",
        "my.yaml: colour: found 'green', expected one of red, blue",
    ]
