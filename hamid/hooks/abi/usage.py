"""The bytes of the usage page → values: what a container's processes say they hold.

The page is the container's: nothing in it is trusted. One that cannot be one of ours is refused; a
figure that cannot be true is clamped, so that one lying process hides neither the others nor the
truth about the limit.

The other half is `native/include/hamid_pages.h`; `tests/native/test_page_layout.py` compares. What
its header says of time is in `budgets`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from hamid.hooks.abi.contract import DEVICES_MAX, SHARES_MAX, SLOTS_MAX, USAGE_VERSION
from hamid.hooks.abi.pages import UUID_BYTES, check_head, corrupt, uuid_text

USAGE_MAGIC: Final = int.from_bytes(b"HAMIDUSE", "little")
USAGE_HEADER: Final = struct.Struct("<QIIIIIIQIII76s")
USAGE_HEADER_BYTES: Final = 8192
USAGE_SLOT: Final = struct.Struct("<IIQQQI28s")
USAGE_CELL: Final = struct.Struct("<QQ")
USAGE_SLOT_BYTES: Final = USAGE_SLOT.size + DEVICES_MAX * USAGE_CELL.size
USAGE_SHARE: Final = struct.Struct(f"<QQIHH40s{SLOTS_MAX // 8}s")
"""Shares stand behind the slots; only the library reads them."""

_SLOTS_BYTES: Final = SLOTS_MAX * USAGE_SLOT_BYTES
USAGE_PAGE_BYTES: Final = USAGE_HEADER_BYTES + _SLOTS_BYTES + SHARES_MAX * USAGE_SHARE.size

_HEADER_BYTES_BY_USAGE_VERSION: Final = {
    1: 4096,
    2: 4096,
    3: USAGE_HEADER_BYTES,
    USAGE_VERSION: USAGE_HEADER_BYTES,
}
_PAGE_BYTES_BY_USAGE_VERSION: Final = {
    version: header + _SLOTS_BYTES for version, header in _HEADER_BYTES_BY_USAGE_VERSION.items()
} | {USAGE_VERSION: USAGE_PAGE_BYTES}
USAGE_PAGE_SIZES: Final = frozenset(_PAGE_BYTES_BY_USAGE_VERSION.values())
"""Of all versions that are read."""

FIXED_SUFFIX: Final = "/fixed"
"""Of names in the usage page: what of a device's bytes cannot leave an oversubscribed card."""

SLOT_FREE: Final = 0
SLOT_ACTIVE: Final = 1
SLOT_EXITING: Final = 2
SLOT_LEFT: Final = 3
"""No process's: what some have open and none is charged for."""

_ENFORCED_KNOWN: Final = 0xF


class Enforced(IntFlag):
    """What else holds a process to its share, as it says."""

    NONE = 0
    MIG = 1
    MPS = 2
    DMEM = 4
    MPS_CLAIMED = 8
    """The environment claims MPS, which the host did not say it runs; the cap holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """What one process of the container says it holds."""

    slot_index: int
    pid: int
    """In the container's pid namespace."""
    start_time_ticks: int
    pid_namespace: int
    used_bytes_by_uuid: tuple[tuple[str, int], ...]
    """Sorted; only devices of which it holds something."""
    enforced: Enforced = Enforced.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """What a container's processes say they hold; those that said good-bye are left out."""

    processes: tuple[ProcessUsage, ...] = ()
    left_bytes_by_uuid: tuple[tuple[str, int], ...] = ()
    """Memory that they have open of one that ended, or of another container; as of a process."""

    def used_bytes(self, device_uuid: str) -> int:
        """Return what all processes together say they hold of a device."""
        parts = (self.left_bytes_by_uuid, *(p.used_bytes_by_uuid for p in self.processes))
        return sum(used for part in parts for uuid, used in part if uuid == device_uuid)


def used_part_bytes(header: bytes) -> int:
    """Return how much of a usage page is in use, from its first `USAGE_HEADER_BYTES`.

    Most of a page's thousand slots were never taken; a reader of many pages reads this much.
    """
    if len(header) < USAGE_HEADER_BYTES:
        return len(header)
    fields: tuple[int, ...] = USAGE_HEADER.unpack_from(header)
    version, slots_end = fields[1], fields[9]
    start = _HEADER_BYTES_BY_USAGE_VERSION.get(version, USAGE_HEADER_BYTES)
    return start + min(slots_end, SLOTS_MAX) * USAGE_SLOT_BYTES


def decode_usage_page(page: bytes) -> UsageReport:
    """Return what the container's processes say; an empty file is a page that nobody joined yet.

    The part in use is enough of a page (see `used_part_bytes`). Figures are clamped, never trusted: names that are no text are left out, as is a process
    without a pid.

    Raises:
        AbiMismatch: it was written by another version of the library.
        PageCorrupt: it is no usage page.
    """
    if not page:
        return UsageReport()
    if not min(_HEADER_BYTES_BY_USAGE_VERSION.values()) <= len(page) <= USAGE_PAGE_BYTES:
        raise corrupt("usage", f"{len(page)} bytes, not {USAGE_PAGE_BYTES}")
    fields = USAGE_HEADER.unpack_from(page)
    magic, abi_version, *sizes = fields[:7]
    features, device_count, slots_end = fields[7:10]
    if magic == 0:
        return UsageReport()  # made, not yet filled in
    versions = tuple(_HEADER_BYTES_BY_USAGE_VERSION)
    check_head("usage", magic, USAGE_MAGIC, (abi_version, features), versions)
    start = _HEADER_BYTES_BY_USAGE_VERSION[abi_version]
    page_bytes = _PAGE_BYTES_BY_USAGE_VERSION[abi_version]
    expected = [page_bytes, start, USAGE_SLOT_BYTES, SLOTS_MAX, DEVICES_MAX]
    if sizes != expected:
        raise corrupt("usage", f"sizes {sizes}, not {expected}")
    if len(page) < used_part_bytes(page):
        raise corrupt("usage", f"{len(page)} bytes, cut off within its slots")

    uuids = [usage_uuid(page, index) for index in range(min(device_count, DEVICES_MAX))]
    indices = range(min(slots_end, SLOTS_MAX))
    slots = [(index, start + index * USAGE_SLOT_BYTES) for index in indices]
    processes = (_usage_process(page, at, index, uuids) for index, at in slots)
    left = (at for _, at in slots if USAGE_SLOT.unpack_from(page, at)[:2] == (SLOT_LEFT, 0))
    return UsageReport(
        processes=tuple(process for process in processes if process is not None),
        left_bytes_by_uuid=next((_used_bytes(page, at, uuids) for at in left), ()),
    )


def usage_uuid(page: bytes, index: int) -> str | None:
    """Return the device of this index in a usage page's header, or None if it is no text."""
    start = USAGE_HEADER.size + index * UUID_BYTES
    return uuid_text(page[start : start + UUID_BYTES])


def _usage_process(
    page: bytes, start: int, index: int, uuids: list[str | None]
) -> ProcessUsage | None:
    state, pid, start_time_ticks, pid_namespace, _, enforced, _ = USAGE_SLOT.unpack_from(
        page, start
    )
    if state != SLOT_ACTIVE or not 0 < pid < 2**31:
        return None
    return ProcessUsage(
        slot_index=index,
        pid=pid,
        start_time_ticks=start_time_ticks,
        pid_namespace=pid_namespace,
        used_bytes_by_uuid=_used_bytes(page, start, uuids),
        enforced=Enforced(enforced & _ENFORCED_KNOWN),
    )


def _used_bytes(page: bytes, start: int, uuids: list[str | None]) -> tuple[tuple[str, int], ...]:
    used: dict[str, int] = {}
    for device_index, uuid in enumerate(uuids):
        at = start + USAGE_SLOT.size + device_index * USAGE_CELL.size
        used_bytes, _ = USAGE_CELL.unpack_from(page, at)
        if uuid is not None and used_bytes and not uuid.endswith(FIXED_SUFFIX):
            used[uuid] = min(used.get(uuid, 0) + used_bytes, 2**63 - 1)
    return tuple(sorted(used.items()))
