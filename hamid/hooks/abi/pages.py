"""The bytes of the control page ↔ values, and what all pages have in common.

The page is ours: written whole, and read back strictly.

The other half is `native/include/hamid_pages.h`; `tests/native/test_page_layout.py` compares.

1. Little-endian, fixed width, padding zero.
2. "Unlimited" is the largest 64-bit number on the page and `None` in values.
3. No I/O: callers read and write files, the control page by a new file and a rename.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from hamid.errors import AbiMismatch, HookError, PageCorrupt
from hamid.hooks.abi.contract import ABI_VERSION, DEVICES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROL_MAGIC: Final = int.from_bytes(b"HAMIDCTL", "little")
UUID_BYTES: Final = 48
UNLIMITED: Final = 2**64 - 1
CORE_PERCENT_MAX: Final = 100

CONTROL_HEADER: Final = struct.Struct("<QIIIIIIQQIII68s")
CONTROL_DEVICE: Final = struct.Struct("<48sQIIQQ48s")
CONTROL_CRC_OFFSET: Final = 52
CONTROL_HAS_FLAGS: Final = 1
"""Feature bit: the control page's flags are in use."""
FLAG_TRUST_MPS: Final = 1

CONTROL_HAS_MEMORY_TERMS: Final = 2
"""Feature bit: what a device costs a context, and how much of it need not be managed memory."""
_REWRITE = "it is written anew when the pod is deleted and made again"
_UPGRADE = "library and daemon are of different versions; delete the pod, so that it gets today's"


class CoreMode(IntEnum):
    """How core limits act."""

    HARD = 0
    LEND = 1
    PRIORITY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimit:
    """What a container may use of one device."""

    device_uuid: str
    memory_bytes: int | None
    """None: no limit of ours."""
    core_percent: int = 0
    """0: no cap; 100: the whole device."""
    weight: int = 1
    """Share of what is lent, in proportion to others."""
    context_bytes: int = 0
    """What each CUDA context, with its code, is charged; 0: contexts take no part of the limit."""
    fixed_bytes: int | None = None
    """Of an oversubscribed card: how much need not be managed memory. None: all of the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    """All that the host has decided for one container."""

    devices: tuple[DeviceLimit, ...]
    priority: int
    """0 is the highest."""
    generation: int
    """Grows with every change."""
    mode: CoreMode = CoreMode.HARD
    trusts_mps: bool = False
    """The host runs MPS: the library does not cap whom MPS holds to his share of threads."""


def encode_control_page(limits: ContainerLimits) -> bytes:
    """Return the page's bytes.

    Raises:
        HookError: a value does not fit the page.
    """
    _check_limits(limits)
    has_terms = any(d.context_bytes or d.fixed_bytes is not None for d in limits.devices)
    devices = b"".join(
        CONTROL_DEVICE.pack(
            device.device_uuid.encode(),
            UNLIMITED if device.memory_bytes is None else device.memory_bytes,
            device.core_percent,
            device.weight,
            *_memory_terms(device, has_terms=has_terms),
            b"",
        )
        for device in limits.devices
    )
    header = CONTROL_HEADER.pack(
        CONTROL_MAGIC,
        ABI_VERSION,
        CONTROL_HEADER.size + len(devices),
        CONTROL_HEADER.size,
        CONTROL_DEVICE.size,
        len(limits.devices),
        limits.mode,
        limits.generation,
        (CONTROL_HAS_FLAGS if limits.trusts_mps else 0)
        | (CONTROL_HAS_MEMORY_TERMS if has_terms else 0),
        limits.priority,
        0,
        FLAG_TRUST_MPS if limits.trusts_mps else 0,
        b"",
    )
    return _with_crc(header + devices)


def decode_control_page(page: bytes) -> ContainerLimits:
    """Return what the page says.

    Raises:
        AbiMismatch: it was written for another version.
        PageCorrupt: it is not in every respect what `encode_control_page` writes.
    """
    if len(page) < CONTROL_HEADER.size:
        raise corrupt("control", f"{len(page)} bytes, not at least {CONTROL_HEADER.size}")
    fields = CONTROL_HEADER.unpack_from(page)
    magic, abi_version, size, header_bytes, device_bytes, device_count = fields[:6]
    mode, generation, features, priority, crc, flags, reserved = fields[6:]
    unknown = features & ~(CONTROL_HAS_FLAGS | CONTROL_HAS_MEMORY_TERMS)
    check_head("control", magic, CONTROL_MAGIC, (abi_version, unknown), (ABI_VERSION,))
    if (header_bytes, device_bytes) != (CONTROL_HEADER.size, CONTROL_DEVICE.size):
        raise corrupt("control", f"parts of {header_bytes} and {device_bytes} bytes")
    expected = CONTROL_HEADER.size + device_count * CONTROL_DEVICE.size
    if device_count > DEVICES_MAX or size != len(page) or size != expected:
        raise corrupt("control", f"{len(page)} bytes for {device_count} devices, says {size}")
    are_flags_known = not flags & ~(FLAG_TRUST_MPS if features & CONTROL_HAS_FLAGS else 0)
    if any(reserved) or mode not in list(CoreMode) or not are_flags_known:
        raise corrupt("control", f"mode {mode}, flags {flags}, reserved {reserved[:8].hex()}…")
    if _with_crc(page) != page:
        raise corrupt("control", f"checksum {crc:#010x} is not that of its bytes")

    limits = ContainerLimits(
        devices=tuple(_decode_devices(page, has_terms=bool(features & CONTROL_HAS_MEMORY_TERMS))),
        priority=priority,
        generation=generation,
        mode=CoreMode(mode),
        trusts_mps=bool(flags & FLAG_TRUST_MPS),
    )
    try:
        _check_limits(limits)
    except HookError as error:
        raise corrupt("control", error.message) from error
    return limits


def _check_limits(limits: ContainerLimits) -> None:
    uuids = [device.device_uuid for device in limits.devices]
    if len(uuids) > DEVICES_MAX or len(set(uuids)) < len(uuids):
        raise HookError(
            f"limits for {len(uuids)} devices, {len(set(uuids))} of them different",
            hint=f"a container has at most {DEVICES_MAX} devices, each named once",
        )
    _check_range("priority", limits.priority, 2**32 - 1)
    _check_range("generation", limits.generation, 2**64 - 1)
    for device in limits.devices:
        _check_uuid(device.device_uuid)
        if device.memory_bytes is not None:
            _check_range("memory_bytes", device.memory_bytes, UNLIMITED - 1)
        _check_range("context_bytes", device.context_bytes, UNLIMITED)
        if device.fixed_bytes is not None:
            _check_range("fixed_bytes", device.fixed_bytes, UNLIMITED - 1)
        _check_range("core_percent", device.core_percent, CORE_PERCENT_MAX)
        _check_range("weight", device.weight, 2**32 - 1)


def _check_range(field: str, value: int, largest: int) -> None:
    if not 0 <= value <= largest:
        raise HookError(
            f"{field} is {value}, not between 0 and {largest}",
            hint="the request should have been refused before it got here; report it",
        )


def _check_uuid(uuid: str) -> None:
    if not _is_uuid_text(uuid):
        raise HookError(
            f"device UUID {uuid!r} is not 1 to {UUID_BYTES - 1} printable characters",
            hint="use the UUID that NVML gives",
        )


def _is_uuid_text(uuid: str) -> bool:
    return 0 < len(uuid) < UUID_BYTES and all("!" <= char <= "~" for char in uuid)


def check_head(
    page: str, magic: int, expected: int, found: tuple[int, int], versions: tuple[int, ...]
) -> None:
    """Refuse a page that begins otherwise than one of its kind, or is of another version."""
    abi_version, features = found
    if magic != expected:
        raise corrupt(page, f"starts with {magic:#018x}, not {expected:#018x}")
    if abi_version not in versions or features:
        raise AbiMismatch(
            f"{page} page of ABI version {abi_version}, features {features:#x}, "
            f"not version {versions[-1]}",
            hint=_UPGRADE,
        )


def corrupt(page: str, found: str) -> PageCorrupt:
    """Return what to raise of this kind of page."""
    return PageCorrupt(f"{page} page cannot be read: {found}", hint=_REWRITE)


def _with_crc(page: bytes) -> bytes:
    """Return the page with the checksum of its bytes, the checksum's own taken as zero."""
    end = CONTROL_CRC_OFFSET + 4
    blank = page[:CONTROL_CRC_OFFSET] + bytes(4) + page[end:]
    return page[:CONTROL_CRC_OFFSET] + zlib.crc32(blank).to_bytes(4, "little") + page[end:]


def _memory_terms(device: DeviceLimit, *, has_terms: bool) -> tuple[int, int]:
    if not has_terms:
        return 0, 0
    return device.context_bytes, UNLIMITED if device.fixed_bytes is None else device.fixed_bytes


def _decode_devices(page: bytes, *, has_terms: bool) -> Iterator[DeviceLimit]:
    for fields in CONTROL_DEVICE.iter_unpack(page[CONTROL_HEADER.size :]):
        uuid, memory, core_percent, weight, context, fixed, reserved = fields
        text = uuid_text(uuid)
        if not has_terms and (context or fixed):
            raise corrupt("control", f"memory terms {context}, {fixed} that it says it lacks")
        if text is None or any(reserved):
            raise corrupt("control", f"device {uuid!r}, reserved bytes {reserved[:8].hex()}…")
        yield DeviceLimit(
            device_uuid=text,
            memory_bytes=None if memory == UNLIMITED else memory,
            core_percent=core_percent,
            weight=weight,
            context_bytes=context,
            fixed_bytes=None if fixed == UNLIMITED or not has_terms else fixed,
        )


def uuid_text(field: bytes) -> str | None:
    """Return the NUL-padded text of a UUID field, or None if it is no such text."""
    text, _, padding = field.partition(b"\0")
    if any(padding) or len(text) == len(field):
        return None
    decoded = text.decode("ascii", errors="replace")
    return decoded if _is_uuid_text(decoded) else None
