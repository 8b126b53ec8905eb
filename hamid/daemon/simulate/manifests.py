"""Reads the YAML files that a person gives, and says where what is wrong stands.

Everything here ends in a value or a `SettingsError`; nothing is guessed, nothing skipped unsaid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hamid.daemon.yaml_text import load_yaml
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


def load_documents(path: Path) -> list[Any]:
    """The documents of a file that must hold one at least."""
    documents = load_yaml(path)
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
        # The API server's own lists say what they hold once, for all.
        head = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
        for entry in document["items"]:
            is_bare = head["kind"] and isinstance(entry, dict) and "kind" not in entry
            yield from _manifests(path, {**head, **entry} if is_bare else entry)
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
