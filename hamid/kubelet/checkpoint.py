"""Reader of the kubelet's device checkpoint: who holds which slots, by pod UID, all containers.

The format is the kubelet's own business. It is read to verify, and what is not understood is an
error, never an empty answer: "no allocation" must not be concluded from a format that changed.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

from hamid.kubelet import v1beta1
from hamid.kubelet.constants import CHECKPOINT_NAME, DEVICE_PLUGIN_DIRECTORY
from hamid.kubelet.errors import CheckpointUnreadable
from hamid.kubelet.port import CheckpointEntry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ANSWERS_KEPT: Final = 512
"""More than a kubelet's pods, so that a pass over all of them finds each again."""
_HINT = "the kubelet's format changed; report it with the kubelet's version"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """`CheckpointPort` on the kubelet's file."""

    path: Path = DEVICE_PLUGIN_DIRECTORY / CHECKPOINT_NAME

    async def read(self) -> tuple[CheckpointEntry, ...]:
        """Return all entries; empty when there is no file yet."""
        return await read_checkpoint(self.path)


async def read_checkpoint(path: Path) -> tuple[CheckpointEntry, ...]:
    """Return the entries of the file; empty when it is not there."""
    try:
        content = await asyncio.to_thread(path.read_bytes)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CheckpointUnreadable(
            f"cannot read {path}: {error.strerror or error}",
            hint="the daemon must run as root and see the kubelet's directory",
        ) from error
    return decode_checkpoint(content)


def decode_checkpoint(content: bytes) -> tuple[CheckpointEntry, ...]:
    """Return the entries of a checkpoint's bytes; raises `CheckpointUnreadable`.

    Slots come as a map from NUMA node to ids, and before 1.20 as a plain list; both are read.
    What is unknown beside is ignored, the checksum too: it is over a Go dump of the data.
    """
    try:
        document: Any = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise CheckpointUnreadable(
            f"the kubelet's checkpoint is not JSON: {error}",
            hint="it is written while it is read, or damaged; read it again",
        ) from error
    data = document.get("Data") if isinstance(document, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("PodDeviceEntries"), list | None):
        raise CheckpointUnreadable(
            "the kubelet's checkpoint has no Data.PodDeviceEntries list", hint=_HINT
        )
    entries = data.get("PodDeviceEntries") or ()
    return tuple(_entry(entry, index) for index, entry in enumerate(entries))


def _entry(entry: Any, index: int) -> CheckpointEntry:
    if not isinstance(entry, dict):
        raise _malformed(index, "entry", entry)
    return CheckpointEntry(
        pod_uid=_text(entry, "PodUID", index),
        container_name=_text(entry, "ContainerName", index),
        resource_name=_text(entry, "ResourceName", index),
        slot_ids=_slot_ids(entry.get("DeviceIDs"), index),
        envs=_envs(entry.get("AllocResp")),
    )


def _text(entry: dict[str, Any], field: str, index: int) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value:
        raise _malformed(index, field, value)
    return value


def _slot_ids(value: Any, index: int) -> tuple[str, ...]:
    lists = value.values() if isinstance(value, dict) else (value,)
    ids: list[str] = []
    for part in lists:
        if part is not None and not isinstance(part, list):
            raise _malformed(index, "DeviceIDs", value)
        ids += part or ()
    if not all(isinstance(slot_id, str) for slot_id in ids):
        raise _malformed(index, "DeviceIDs", value)
    return tuple(dict.fromkeys(ids))  # an id is listed once per NUMA node that it is near to


def _envs(answer: Any) -> Mapping[str, str]:
    """The environment in the recorded answer: base64 of the message; a help, so never an error."""
    return _decoded_envs(answer) if isinstance(answer, str) else MappingProxyType({})


# An answer never changes, and all of the node's are read at each start of a container: to parse
# one takes longer than all the rest of its entry.
@lru_cache(maxsize=_ANSWERS_KEPT)
def _decoded_envs(answer: str) -> Mapping[str, str]:
    try:
        envs = v1beta1.ContainerAllocateResponse.parse(base64.b64decode(answer)).envs
    except Exception:  # noqa: BLE001 - a parser of arbitrary bytes may raise anything
        return MappingProxyType({})
    return MappingProxyType(dict(envs))


def _malformed(index: int, field: str, value: Any) -> CheckpointUnreadable:
    found = f"{value!r}"[:80]
    return CheckpointUnreadable(
        f"entry {index} of the kubelet's checkpoint has an unknown {field}: {found}", hint=_HINT
    )
