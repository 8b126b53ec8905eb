"""Secret and webhook configuration ↔ bytes: what is base64 in them, and the patch of a bundle."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from hamid.codec.jsontext import ShapeError, as_list, as_object, as_text
from hamid.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.codec.jsontext import JsonObject


def decode_secret(secret: JsonObject) -> dict[str, bytes]:
    """The values of the Secret by key. Errors name the key and never quote the value."""
    try:
        data = secret.get("data")
        entries = {} if data is None else as_object(data, what="data")
        return {key: _decoded(key, value) for key, value in entries.items()}
    except ShapeError as error:
        raise WireError(
            f"the Secret cannot be read: {error}",
            hint="delete it, and it is made anew",
        ) from error


def encode_secret(
    values: Mapping[str, bytes], *, namespace: str, name: str, base: JsonObject | None = None
) -> JsonObject:
    """The Secret with exactly these values; labels and versions of the base are kept."""
    meta = (base or {}).get("metadata") or {"name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": (base or {}).get("type") or "Opaque",
        "data": {key: _encoded(value) for key, value in sorted(values.items())},
    }


def bundle_patch(configuration: JsonObject, bundle_pem: bytes) -> list[JsonObject]:
    """The JSON Patch that gives each webhook this CA bundle; empty where each has it.

    Each change is guarded by a test of the webhook's name: its place may have changed meanwhile.
    """
    wanted = _encoded(bundle_pem)
    ops: list[JsonObject] = []
    try:
        webhooks = as_list(configuration.get("webhooks") or [], what="webhooks")
        for index, entry in enumerate(webhooks):
            webhook = as_object(entry, what=f"webhooks[{index}]")
            client = as_object(webhook.get("clientConfig"), what=f"webhooks[{index}].clientConfig")
            if client.get("caBundle") == wanted:
                continue
            name = as_text(webhook.get("name"), what=f"webhooks[{index}].name")
            path = f"/webhooks/{index}"
            ops += [
                {"op": "test", "path": f"{path}/name", "value": name},
                {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": wanted},
            ]
    except ShapeError as error:
        raise WireError(
            f"the webhook configuration cannot be read: {error}",
            hint="install the chart anew",
        ) from error
    return ops


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _decoded(key: str, value: object) -> bytes:
    if value in (None, ""):
        return b""
    text = as_text(value, what=f"data.{key}")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ShapeError(f"data.{key} is no base64") from error
