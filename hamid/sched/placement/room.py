"""What is free on the cards of a node, taken together: a quick bound of what could fit there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hamid.model.quantities import resolve_memory_mib
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.model.device import DeviceUsage
    from hamid.model.request import PodRequest


class Room(NamedTuple):
    """What is free on those cards of a node that take anything at all.

    Attributes:
        memory_mib, core_percent: card by card, the most first.
        slots: on all of them.
        unused: so many are nobody's.
        smallest_mib: the memory of the smallest, used or not.
    """

    memory_mib: tuple[int, ...]
    core_percent: tuple[int, ...]
    slots: int
    unused: int
    smallest_mib: int


def room_of(usages: Iterable[DeviceUsage]) -> Room:
    """The room on these cards."""
    usable = [
        usage
        for usage in usages
        if usage.device.is_healthy
        and usage.slots_free > 0
        and usage.memory_free_mib > 0
        and usage.core_free_percent >= 0
        and not usage.exclusive_count
        and not 0 < usage.device.core_percent <= usage.core_used_percent
    ]
    return Room(
        memory_mib=tuple(sorted((usage.memory_free_mib for usage in usable), reverse=True)),
        core_percent=tuple(sorted((usage.core_free_percent for usage in usable), reverse=True)),
        slots=sum(usage.slots_free for usage in usable),
        unused=sum(not usage.slots_used for usage in usable),
        smallest_mib=min((usage.device.memory_mib for usage in usable), default=0),
    )


def has_room(request: PodRequest, room: Room) -> bool:
    """Whether each container alone, and all together, would find as much free as they ask for.

    A bound: where they do not, no search has to find that out.
    """
    memory_mib = core_percent = slots = 0
    for each in request.requests:
        count = each.device_count
        per_card_mib = resolve_memory_mib(each.memory, device_memory_mib=room.smallest_mib)
        if (
            count > len(room.memory_mib)
            or per_card_mib > room.memory_mib[count - 1]
            or each.core_percent > room.core_percent[count - 1]
            or (each.is_exclusive and count > room.unused)
        ):
            return False
        if each.kind is not ContainerKind.INIT:
            memory_mib += count * per_card_mib
            core_percent += count * each.core_percent
            slots += count
    return (
        slots <= room.slots
        and memory_mib <= sum(room.memory_mib)
        and core_percent <= sum(room.core_percent)
    )
