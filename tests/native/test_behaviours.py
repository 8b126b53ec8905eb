"""native/README.md names a test for each behaviour that the library has to get right: they exist."""

import ast
import re

import pytest

from tests.native.container import NATIVE

TESTS = NATIVE.parent / "tests"
UNITS = NATIVE / "tests" / "unit"
COUNT = 25

ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| (`[^|]+`) \|$", re.MULTILINE)
ROWS = [
    (int(number), re.findall(r"`([^`]+)`", named))
    for number, _, named in ROW.findall((NATIVE / "README.md").read_text())
]


def is_there(named: str) -> bool:
    """`folder/test_file.py::test_name` below tests/, or `test_file.c: what is checked`."""
    if ".c: " in named:
        file, check = named.split(": ", 1)
        return f'CHECK("{check}")' in (UNITS / file).read_text()
    file, name = named.split("::")
    tree = ast.parse((TESTS / file).read_text())
    return name in {getattr(node, "name", None) for node in tree.body}


def test_every_behaviour_has_a_row():
    assert [number for number, _ in ROWS] == list(range(1, COUNT + 1))


@pytest.mark.parametrize(("number", "named"), ROWS)
def test_the_tests_of_a_behaviour_exist(number, named):
    assert named, number
    assert [name for name in named if not is_there(name)] == []
