"""Reads the YAML files that a person gives, and says where what is wrong stands.

Everything here ends in a value or a `SettingsError`; nothing is guessed, nothing skipped unsaid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from hamid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hamid.kube.port import JsonObject

DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One Kubernetes object as a file has it."""

    path: Path
    object: JsonObject

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.object["kind"])

    @property
    def name(self) -> str:
        """Its name, or what a name is to be generated from."""
        metadata = self.object["metadata"]
        return str(metadata.get("name") or metadata["generateName"])

    @property
    def where(self) -> str:
        """For messages: the file and the object."""
        return f"{self.path}: {self.kind} {self.name!r}"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # fast or plain
    """Safe YAML in which a key given twice is an error, as it is for kubectl."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [child.value for child, _ in node.value if isinstance(child, yaml.ScalarNode)]
    doubled = sorted({key for key in keys if key != "<<" and keys.count(key) > 1})
    if doubled:
        raise yaml.constructor.ConstructorError(
            None, None, f"the key {doubled[0]!r} is there twice", node.start_mark
        )
    loader.flatten_mapping(node)
    return {
        loader.construct_object(key, deep=True): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_documents(path: Path) -> list[Any]:
    """The documents of a YAML file, empty ones left out."""
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
            f"{path} is not YAML: {_yaml_problem(error)}", hint="mend the file"
        ) from error
    documents = [document for document in documents if document is not None]
    if not documents:
        raise SettingsError(f"{path} is empty", hint="leave it out, or write something into it")
    return documents


def load_manifests(paths: Iterable[Path]) -> tuple[Manifest, ...]:
    """The Kubernetes objects in the files, lists taken apart, in their order."""
    return tuple(
        manifest
        for path in paths
        for document in load_documents(path)
        for manifest in _manifests(path, document)
    )


def _manifests(path: Path, document: Any) -> Iterator[Manifest]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        found = type(document).__name__ if not isinstance(document, dict) else "object without kind"
        raise SettingsError(
            f"{path} holds a document that is no Kubernetes object (found: {found})",
            hint="each document needs apiVersion, kind and metadata.name",
        )
    kind = document["kind"]
    if kind.endswith("List") and isinstance(document.get("items"), list):
        for entry in document["items"]:
            yield from _manifests(path, entry)
        return
    if not isinstance(document.get("apiVersion"), str):
        raise SettingsError(f"{path} holds a {kind} without apiVersion", hint="add it, such as v1")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise SettingsError(f"{path} holds a {kind} without metadata.name", hint="name the object")
    for key in ("name", "generateName", "namespace"):
        if not isinstance(metadata.get(key, ""), str):
            raise SettingsError(
                f"{path}: {kind}: metadata.{key} is {metadata[key]!r}, which YAML takes for no text",
                hint="put it in quotes",
            )
    yield Manifest(path=path, object=document)


def _yaml_problem(error: Exception) -> str:
    """The problem and its line, counted from 1, without PyYAML's drawing."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f"{error.context}: " if error.context else ""
        return f"line {error.problem_mark.line + 1}: {context}{error.problem}"
    return " ".join(str(error).split()) or type(error).__name__
