"""What was granted, on local disk before the kubelet is answered.

One JSON file per grant, `<grant id>.json`. A new grant goes into an empty file that was prepared:
its name is on disk already, so that Allocate, on which all pods of the node wait, has to wait for
the disk once. Others are written beside their place, flushed to disk and renamed. A file that
cannot be read, or that a newer release wrote, is set aside with a log line, never deleted unseen,
and never stops the daemon: at its next start the container's grant is written anew, from the
kubelet's books and the pod's allocation. What the disk does not take leaves nothing behind.

Invariants:

1. A grant is on disk before the Allocate that made it returns.
2. There is at most one grant per pod UID and container; a new one takes the place of the old.
   A crash in between leaves both on disk: the newer file counts.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson
import structlog

from hamid.codec.jsontext import (
    ShapeError,
    as_bool,
    as_int,
    as_list,
    as_object,
    as_text,
    loads_object,
)
from hamid.errors import StateError
from hamid.hooks.files import flush_names, replace_file
from hamid.model.device import DeviceShare, DeviceUuid
from hamid.model.sharing import Sharing, SharingMode
from hamid.plugin.disk import needing_the_disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from hamid.aiokit.blocking import OneThread
    from hamid.plugin.matching import ContainerKey

log = structlog.get_logger(__name__)

_VERSION = 1
_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one container was given.

    Attributes:
        grant_id: random; names the container's private directory and its CDI spec.
        slot_ids: what the kubelet has on its books for it.
        shares: what it really gets.
        sharing: what its pod said of how it shares their time.
        is_final: the owner was confirmed at a container start.
    """

    grant_id: str
    pod_uid: str
    namespace: str
    pod_name: str
    container_name: str
    slot_ids: tuple[str, ...]
    shares: tuple[DeviceShare, ...]
    priority: int | None = None
    sharing: Sharing = Sharing()  # noqa: RUF009 - frozen
    is_final: bool = False

    @property
    def key(self) -> ContainerKey:
        """Pod UID and container name."""
        return (self.pod_uid, self.container_name)

    @property
    def pod_key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.pod_name}"

    def finalized(self) -> Grant:
        """This grant with its owner confirmed."""
        return replace(self, is_final=True)


@dataclass(slots=True, kw_only=True)
class Journal:
    """The grants of this node, in memory and on disk.

    Args:
        prepared_most: for how many grants to come there are to be empty files.
    """

    directory: Path
    thread: OneThread
    prepared_most: int = 0
    _prepared: list[str] = field(default_factory=list)
    _is_preparing: bool = False
    _by_id: dict[str, Grant] = field(default_factory=dict)
    _id_by_key: dict[ContainerKey, str] = field(default_factory=dict)
    # Memory and disk change together: two containers that swap their grants at the same time must
    # not remove what the other has just written.
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load(self) -> None:
        """Read what an earlier run of the daemon granted, the oldest file first.

        Raises:
            StateError: there is no such directory and it cannot be made, or nothing can be added
                to it: who offers cards must be able to write down who gets them.
        """
        with needing_the_disk(f"the journal of grants in {self.directory} cannot be opened"):
            grants = await self.thread.call(_read_all, self.directory)
        for grant in grants:
            await self._keep(grant)
        log.info("journal read", grants=len(self._by_id))
        with needing_the_disk(f"the journal of grants in {self.directory} takes none"):
            await self._prepare_missing()

    async def prepare(self) -> None:
        """Make empty files where less than half are left; not while somebody waits for a grant."""
        try:
            await self._prepare_missing()
        except OSError as error:  # whoever writes a grant will say so
            log.debug("no files prepared", error=repr(error))

    async def _prepare_missing(self) -> None:
        missing = self.prepared_most - len(self._prepared)
        # Containers start side by side, and each would make as many.
        if self._is_preparing or 2 * missing <= self.prepared_most:
            return
        fresh = [_random_grant_id() for _ in range(missing)]
        self._is_preparing = True
        try:
            await self.thread.call(_prepare, self.directory, fresh)
            self._prepared += fresh
        finally:
            self._is_preparing = False

    def new_grant_id(self) -> str:
        """An id that no grant has."""
        return self._prepared.pop() if self._prepared else _random_grant_id()

    async def write(self, grant: Grant) -> None:
        """Put the grant on disk, then in memory; raises `StateError` if the disk does not take it."""
        async with self._changing:
            with needing_the_disk(
                f"grant for container {grant.container_name!r} of pod {grant.pod_key} cannot be "
                f"written to {self.directory}",
                then="delete the pod",
            ):
                await self.thread.call(_write, self.directory, grant)
            await self._keep(grant)

    async def remove(self, grant_id: str) -> None:
        """Forget the grant; raises `StateError` if its file stays, and it is known again later."""
        async with self._changing:
            await self._remove(grant_id)

    def grants(self) -> tuple[Grant, ...]:
        """All grants."""
        return tuple(self._by_id.values())

    def served(self) -> frozenset[ContainerKey]:
        """The containers that have a grant."""
        return frozenset(self._id_by_key)

    def by_id(self, grant_id: str) -> Grant | None:
        """The grant of this id."""
        return self._by_id.get(grant_id)

    def by_container(self, key: ContainerKey) -> Grant | None:
        """The container's grant."""
        grant_id = self._id_by_key.get(key)
        return None if grant_id is None else self._by_id[grant_id]

    def by_slots(self, slot_ids: tuple[str, ...]) -> tuple[Grant, ...]:
        """The grants for just these slots: several when containers of a pod share them."""
        wanted = frozenset(slot_ids)
        return tuple(g for g in self._by_id.values() if frozenset(g.slot_ids) == wanted)

    async def _keep(self, grant: Grant) -> None:
        """Take the grant into memory; one that its container had before goes."""
        previous = self._by_id.get(grant.grant_id)
        if previous is not None and self._id_by_key.get(previous.key) == grant.grant_id:
            del self._id_by_key[previous.key]
        replaced = self._id_by_key.get(grant.key)
        self._by_id[grant.grant_id] = grant
        self._id_by_key[grant.key] = grant.grant_id
        if replaced is not None and replaced != grant.grant_id:
            try:
                await self._remove(replaced)
            except StateError as error:  # of both on disk, the newer counts
                log.warning("old grant stays on disk", grant_id=replaced, error=str(error))

    async def _remove(self, grant_id: str) -> None:
        # Not flushed: a file that comes back after a power cut is older than its successor, or
        # belongs to a pod that is gone, and is removed again.
        grant = self._by_id.pop(grant_id, None)
        if grant is not None and self._id_by_key.get(grant.key) == grant_id:
            del self._id_by_key[grant.key]
        with needing_the_disk(f"grant {grant_id} cannot be removed from {self.directory}"):
            await self.thread.call((self.directory / f"{grant_id}.json").unlink, missing_ok=True)


def _random_grant_id() -> str:
    return secrets.token_hex(8)


def encode_grant(grant: Grant) -> bytes:
    """The file's content."""
    shares = [
        {"uuid": s.device_uuid, "memory_mib": s.memory_mib, "core_percent": s.core_percent}
        for s in grant.shares
    ]
    return orjson.dumps(
        {
            "version": _VERSION,
            "grant_id": grant.grant_id,
            "pod_uid": grant.pod_uid,
            "namespace": grant.namespace,
            "pod_name": grant.pod_name,
            "container_name": grant.container_name,
            "slot_ids": grant.slot_ids,
            "shares": shares,
            "priority": grant.priority,
            "sharing": {"mode": grant.sharing.mode, "weight": grant.sharing.weight},
            "is_final": grant.is_final,
        },
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )


def decode_grant(content: bytes) -> Grant:
    """The grant in the file; `ShapeError` if it is none of ours."""
    record = loads_object(content)
    version = as_int(record.get("version"), what="version")
    if version != _VERSION:
        raise ShapeError(f"it is of version {version}; this release reads version {_VERSION}")

    def text(name: str) -> str:
        return as_text(record.get(name), what=name)

    slot_ids = as_list(record.get("slot_ids"), what="slot_ids")
    priority = record.get("priority")
    return Grant(
        grant_id=text("grant_id"),
        pod_uid=text("pod_uid"),
        namespace=text("namespace"),
        pod_name=text("pod_name"),
        container_name=text("container_name"),
        slot_ids=tuple(as_text(slot_id, what="a slot id") for slot_id in slot_ids),
        shares=tuple(map(_decode_share, as_list(record.get("shares"), what="shares"))),
        priority=None if priority is None else as_int(priority, what="priority"),
        sharing=_decode_sharing(record.get("sharing")),
        is_final=as_bool(record.get("is_final"), what="is_final"),
    )


def _decode_sharing(value: object) -> Sharing:
    """Nothing in the files of earlier releases; a mode of a later one is a hard cap."""
    record = {} if value is None else as_object(value, what="sharing")
    mode, weight = record.get("mode"), record.get("weight")
    is_known = mode is None or mode in list(SharingMode)
    return Sharing(
        mode=None if mode is None else SharingMode(mode) if is_known else SharingMode.HARD,
        weight=None if weight is None else as_int(weight, what="weight"),
    )


def _decode_share(value: object) -> DeviceShare:
    share = as_object(value, what="a share")
    return DeviceShare(
        device_uuid=DeviceUuid(as_text(share.get("uuid"), what="uuid")),
        memory_mib=as_int(share.get("memory_mib"), what="memory_mib"),
        core_percent=as_int(share.get("core_percent"), what="core_percent"),
    )


def _read_all(directory: Path) -> list[Grant]:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for unfinished in directory.glob(".*.tmp"):
        # Its Allocate was never answered.
        unfinished.unlink()
    grants = []
    for path in sorted(directory.glob("*.json"), key=lambda p: p.stat().st_mtime_ns):
        if path.is_file() and path.stat().st_size == 0:
            path.unlink()  # prepared, and not used
            continue
        try:
            grants.append(_read(path))
        except (ShapeError, OSError) as error:
            path.rename(path.with_suffix(".unreadable"))
            log.error(  # noqa: TRY400 - the file is at fault, not this code
                "grant unreadable",
                path=str(path),
                reason=str(error),
                hint="the file was set aside as *.unreadable; its container keeps its limits",
            )
    return grants


def _read(path: Path) -> Grant:
    grant = decode_grant(path.read_bytes())
    if grant.grant_id != path.stem:
        raise ShapeError(f"it is of grant {grant.grant_id!r}")
    return grant


def _write(directory: Path, grant: Grant) -> None:
    path, content = directory / f"{grant.grant_id}.json", encode_grant(grant)
    if not _fill(path, content):
        replace_file(path, content, mode=_MODE, is_flushed=True)


def _fill(path: Path, content: bytes) -> bool:
    """Write into a file that was prepared; returns whether it was."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return False
    try:
        with file:
            if os.fstat(file.fileno()).st_size:
                return False
            file.write(content)
            file.flush()
            os.fdatasync(file.fileno())
    except OSError:
        _discard([path])  # half a grant is none
        raise
    return True


def _prepare(directory: Path, grant_ids: Sequence[str]) -> None:
    paths = [directory / f"{grant_id}.json" for grant_id in grant_ids]
    try:
        for path in paths:
            path.touch(mode=_MODE, exist_ok=False)
        flush_names(directory)
    except OSError:
        _discard(paths)  # nobody knows of them, and each try would make more
        raise


def _discard(paths: Iterable[Path]) -> None:
    with suppress(OSError):
        for path in paths:
            path.unlink(missing_ok=True)
