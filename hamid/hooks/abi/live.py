"""The bytes of the live page: how fast each device of a container may be used at this moment.

It is the part of the control page that changes many times a second, and is written in place: each
rate is one word, stored whole, and so is the heartbeat, by which the library knows that somebody
still decides. Without a fresh heartbeat the control page's caps hold.

The other half is `native/include/hamid_pages.h`; `tests/native/test_page_layout.py` compares.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.errors import AbiMismatch, PageCorrupt
from hamid.hooks.abi.contract import DEVICES_MAX, LIVE_VERSION
from hamid.hooks.abi.pages import UUID_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

LIVE_MAGIC: Final = int.from_bytes(b"HAMIDLIV", "little")
LIVE_HEADER: Final = struct.Struct("<QIIIIIIQQ80s")
LIVE_DEVICE: Final = struct.Struct("<48sQQQ")
LIVE_BYTES_MAX: Final = LIVE_HEADER.size + DEVICES_MAX * LIVE_DEVICE.size

RATE_UNSAID: Final = 0
"""The control page's cap."""
RATE_STOP: Final = 2**64 - 1
"""Nothing starts until it changes."""
RATE_MAX_PERMILLE: Final = 8000
"""The library takes what is above as unsaid."""

CONTENDED: Final = 1
"""Flag: others are busy on the device, and NVML says how busy who is."""

WORD: Final = 8
HEARTBEAT_WORD: Final = 32 // WORD
"""Index of the heartbeat among the page's 64-bit words."""

_HINT = "the daemon writes it anew at its next look; until then the control page's caps hold"


def rate_word(device_index: int) -> int:
    """Return the index of a device's rate among the page's 64-bit words."""
    return (LIVE_HEADER.size + device_index * LIVE_DEVICE.size + UUID_BYTES) // WORD


def flags_word(device_index: int) -> int:
    """Return the index of a device's flags among the page's 64-bit words."""
    return rate_word(device_index) + 1


def uncounted_word(device_index: int) -> int:
    """Return the index of a device's uncounted bytes among the page's 64-bit words."""
    return rate_word(device_index) + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRates:
    """A live page as a value; rates in the order of the control page."""

    generation: int
    """Of the control page that it goes with."""
    heartbeat_ns: int
    rate_by_uuid: tuple[tuple[str, int], ...]
    uncounted_bytes: tuple[int, ...] = ()
    """What is held of each device beyond what is charged; it counts against the limit."""


def encode_live_page(device_uuids: Sequence[str], *, generation: int) -> bytes:
    """Return a page that says nothing yet: no heartbeat, no rates."""
    header = LIVE_HEADER.pack(
        LIVE_MAGIC,
        LIVE_VERSION,
        LIVE_HEADER.size + len(device_uuids) * LIVE_DEVICE.size,
        LIVE_HEADER.size,
        LIVE_DEVICE.size,
        len(device_uuids),
        0,
        0,
        generation,
        b"",
    )
    return header + b"".join(
        LIVE_DEVICE.pack(uuid.encode(), RATE_UNSAID, 0, 0) for uuid in device_uuids
    )


def decode_live_page(page: bytes) -> LiveRates:
    """Return what the page says.

    Raises:
        AbiMismatch: it was written for another version.
        PageCorrupt: it is none.
    """
    if len(page) < LIVE_HEADER.size:
        raise PageCorrupt(f"live page of {len(page)} bytes", hint=_HINT)
    magic, version, size, header_bytes, device_bytes, count, *rest = LIVE_HEADER.unpack_from(page)
    _, heartbeat_ns, generation, _ = rest
    if magic != LIVE_MAGIC:
        raise PageCorrupt(f"live page starts with {magic:#018x}", hint=_HINT)
    if version != LIVE_VERSION:
        raise AbiMismatch(f"live page of version {version}, not {LIVE_VERSION}", hint=_HINT)
    expected = LIVE_HEADER.size + count * LIVE_DEVICE.size
    parts = (header_bytes, device_bytes)
    if parts != (LIVE_HEADER.size, LIVE_DEVICE.size) or not size == len(page) == expected:
        raise PageCorrupt(f"live page of {len(page)} bytes for {count} devices", hint=_HINT)
    devices = tuple(LIVE_DEVICE.iter_unpack(page[LIVE_HEADER.size :]))
    return LiveRates(
        generation=generation,
        heartbeat_ns=heartbeat_ns,
        rate_by_uuid=tuple(
            (uuid.rstrip(b"\0").decode("ascii", "replace"), rate) for uuid, rate, _, _ in devices
        ),
        uncounted_bytes=tuple(uncounted for _, _, _, uncounted in devices),
    )
