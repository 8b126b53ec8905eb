"""What a usage page's header says of the time of devices: used, wanted, waited for. Pure.

Containers write it, so whoever decides by it bounds what a lie can bring: an owner never gets less
than its share for what others claim, and nobody more than is idle.

The other half is `struct hamid_budget` of `native/include/hamid_pages.h`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from hamid.hooks.abi.contract import DEVICES_MAX, USAGE_VERSION
from hamid.hooks.abi.pages import UUID_BYTES
from hamid.hooks.abi.usage import USAGE_HEADER, USAGE_HEADER_BYTES, USAGE_MAGIC, usage_uuid

USAGE_BUDGET: Final = struct.Struct("<QQQQ32s")
USAGE_COUNT_OFFSET: Final = 40
USAGE_COUNT_BYTES: Final = 4
"""How many devices the header names; it only grows."""
USAGE_BUDGETS_OFFSET: Final = USAGE_HEADER.size + DEVICES_MAX * UUID_BYTES
_SINCE_USAGE_VERSION: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """What a container's processes say of one device's time; moments are CLOCK_MONOTONIC."""

    charged_ns: int
    """GPU time charged since the page was made, as the library measured it."""
    due_ns: int
    """When all of it is paid for at the cap's rate."""
    wanted_ns: int
    """When somebody last had something to launch."""
    waited_ns: int
    """When somebody last had to wait."""


def decode_places(header: bytes) -> dict[str, int]:
    """Return where in a usage page the budget of each device is; nothing if it is no such header."""
    if len(header) < USAGE_HEADER_BYTES:
        return {}
    magic, abi_version, *_ = fields = USAGE_HEADER.unpack_from(header)
    if magic != USAGE_MAGIC or not _SINCE_USAGE_VERSION <= abi_version <= USAGE_VERSION:
        return {}
    places = {}
    for index in range(min(fields[8], DEVICES_MAX)):
        uuid = usage_uuid(header, index)
        if uuid is not None:
            places[uuid] = USAGE_BUDGETS_OFFSET + index * USAGE_BUDGET.size
    return places


def decode_budget(content: bytes) -> BudgetUse | None:
    """Return what these bytes of a usage page say; None if the device was never wanted."""
    if len(content) != USAGE_BUDGET.size:
        return None
    due_ns, charged_ns, wanted_ns, waited_ns, _ = USAGE_BUDGET.unpack(content)
    if not wanted_ns:
        return None
    return BudgetUse(charged_ns=charged_ns, due_ns=due_ns, wanted_ns=wanted_ns, waited_ns=waited_ns)
