"""Reads the YAML files that a person gives: manifests, and simulated nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from hamid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hamid.kube.port import JsonObject


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
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise SettingsError(
            f"{path} is not YAML: {' '.join(str(error).split())}", hint="mend the file"
        ) from error


def load_manifests(paths: Iterable[Path]) -> list[JsonObject]:
    """The Kubernetes objects in the files, lists taken apart, in their order."""
    return [
        item
        for path in paths
        for document in load_documents(path)
        for item in _items(path, document)
    ]


def _items(path: Path, document: Any) -> list[JsonObject]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise SettingsError(
            f"{path} holds a document that is no Kubernetes object: it has no kind",
            hint="each document needs apiVersion, kind and metadata.name",
        )
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        return [item for entry in document["items"] for item in _items(path, entry)]
    if not isinstance(document.get("apiVersion"), str):
        raise SettingsError(
            f"{path} holds a {document['kind']} without apiVersion", hint="add it, such as v1"
        )
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise SettingsError(
            f"{path} holds a {document['kind']} without metadata.name", hint="name the object"
        )
    return [document]
