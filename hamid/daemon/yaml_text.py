"""YAML as kubectl reads it: every value can be JSON, and nothing is guessed or left out unsaid.

A key given twice is an error. Numbers and truths as keys are texts, and so are dates and what
PyYAML would take for a number of base 60, such as a mapping of ports 22:22.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

import yaml

from hamid.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

_TAG: Final = "tag:yaml.org,2002:"
_REPLACED_TAGS: Final = tuple(f"{_TAG}{name}" for name in ("int", "float", "timestamp"))
_MERGE_TAG: Final = f"{_TAG}merge"
_LONGEST_WHOLE: Final = 80
"""More than any number of 64 bits needs, in whatever base."""
_WHOLE: Final = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FRACTION: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # fast or plain
    """Safe YAML, read as the module says."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in known if tag not in _REPLACED_TAGS]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _key(loader: Any, node: yaml.Node) -> str:
    """What kubectl makes of a key."""
    match loader.construct_object(node, deep=True):
        case str(key):
            return key
        case bool(truth):
            return "true" if truth else "false"
        case int() | float() as number:
            return str(number)
    raise _wrong(node, "a key must be a text")


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    own = [key for key, _ in node.value if key.tag != _MERGE_TAG]
    keys = [_key(loader, key) for key in own]
    doubled = sorted({key for key in keys if keys.count(key) > 1})
    if doubled:
        raise _wrong(node, f"the key {doubled[0]!r} is there twice")
    loader.flatten_mapping(node)
    return {
        _key(loader, key): loader.construct_object(value, deep=True) for key, value in node.value
    }


def _whole(loader: Any, node: yaml.ScalarNode) -> int:
    if len(node.value) <= _LONGEST_WHOLE:
        number: int = yaml.SafeLoader.construct_yaml_int(loader, node)
        if -(2**63) <= number < 2**64:
            return number
    raise _wrong(node, f"{node.value[:_LONGEST_WHOLE]} has more than 64 bits")


def _fraction(loader: Any, node: yaml.ScalarNode) -> float:
    number: float = yaml.SafeLoader.construct_yaml_float(loader, node)
    if not math.isfinite(number):
        raise _wrong(node, f"{node.value[:_LONGEST_WHOLE]} is no number that JSON has")
    return number


def _wrong(node: yaml.Node, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_constructor(f"{_TAG}int", _whole)
_Loader.add_constructor(f"{_TAG}float", _fraction)
for _only_yaml in ("set", "binary", "omap", "pairs", "timestamp"):
    _Loader.add_constructor(f"{_TAG}{_only_yaml}", yaml.SafeLoader.construct_undefined)
_Loader.add_implicit_resolver(f"{_TAG}int", _WHOLE, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FRACTION, list("-+0123456789."))


def load_yaml(path: Path) -> list[Any]:
    """The documents of the file, empty ones left out. Raises `SettingsError` if it is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror}", hint="give the path of a YAML file"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise SettingsError(
            f"{path} is not YAML: {_problem(error)}", hint="mend the file"
        ) from error
    return [document for document in documents if document is not None]


def _problem(error: Exception) -> str:
    """The problem and its line, counted from 1, without PyYAML's drawing."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f"{error.context}: " if error.context else ""
        return f"line {error.problem_mark.line + 1}: {context}{error.problem}"
    return " ".join(str(error).split()) or type(error).__name__
