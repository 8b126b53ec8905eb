"""All settings as a page of Markdown: from the classes that hold them, so that it is never out of date.

The meaning of a setting is its entry under `Attributes:` in the docstring of its class; an entry
may speak of several.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from hamid.daemon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEAD: Final = """\
# Settings

`hamid run --config FILE` reads them from a YAML file, in which `log.level` is `level` under `log:`.
What is left out has its default. This page is the output of `hamid settings`.

| key | default | meaning |
|---|---|---|
"""
_ENTRY: Final = re.compile(r"(?P<names>[a-z_0-9]+(?:, [a-z_0-9]+)*): (?P<text>.+)")


def settings_page() -> str:
    """The whole page."""
    return _HEAD + "".join(f"| `{key}` | {default} | {text} |\n" for key, default, text in rows())


def rows(kind: type = Settings, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, default and meaning of each setting, in the order of the classes."""
    types, texts = get_type_hints(kind), meanings(kind)
    for each in fields(kind):
        key, hint = f"{prefix}{each.name}", types[each.name]
        nested = _section_of(hint)
        if nested is None or each.default is None:
            yield key, _default(each.default), _meaning(hint, texts.get(each.name, ""))
        if nested is not None:
            yield from rows(nested, f"{key}.")


def meanings(kind: type) -> Mapping[str, str]:
    """What the docstring of the class says of each attribute."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \S)", section.partition("\n\n")[0]):
        match = _ENTRY.fullmatch(" ".join(entry.split()))
        if match is not None:
            found |= dict.fromkeys(match["names"].split(", "), match["text"])
    return found


def _section_of(hint: Any) -> type | None:
    """The class of settings that the hint names, alone or with None."""
    candidates = get_args(hint) or (hint,)
    return next((c for c in candidates if isinstance(c, type) and is_dataclass(c)), None)


def _meaning(hint: Any, text: str) -> str:
    """The text, and the words to choose from, if there are any."""
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        text += f" One of {', '.join(f'`{word}`' for word in hint)}."
    return text.replace("|", "\\|")


def _default(value: Any) -> str:
    if value is MISSING:
        return "must be given"
    if isinstance(value, tuple):
        return ", ".join(_default(item) for item in value)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    return "" if value in (None, "") else f"`{value}`"
