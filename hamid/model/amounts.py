"""Amounts of our resources as the kubelet and kube-scheduler add them up, who know of no cards.

To them a container asks for one number of each resource, whatever the number of its cards, and a
node has one. So these sums are no measure of what fits: that is for the books.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.model.device import Device, DeviceHold
    from hamid.model.names import ResourceNames

PERCENT_PPM: Final = 10_000
_WHOLE_PPM: Final = 100 * PERCENT_PPM


@dataclass(frozen=True, slots=True, kw_only=True)
class CardAmounts:
    """What is asked for, or there is, of each resource but the count of cards, which is slots.

    Attributes:
        memory_ppm: memory in percent, in millionths of a card: it seldom is whole percents.
        priority: the priorities asked for, summed up; a slot holds 1 at most.
    """

    memory_mib: int = 0
    memory_ppm: int = 0
    core_percent: int = 0
    priority: int = 0

    def __add__(self, other: CardAmounts) -> CardAmounts:
        return self._each(other, lambda one, another: one + another)

    def most(self, other: CardAmounts) -> CardAmounts:
        """The greater of both, amount by amount."""
        return self._each(other, max)

    def beyond(self, other: CardAmounts) -> CardAmounts:
        """What is more than the other has, amount by amount."""
        return self._each(other, lambda one, another: max(one - another, 0))

    def by_name(self, names: ResourceNames) -> dict[str, int]:
        """By the names of the resources, percents rounded up."""
        return {
            names.memory: self.memory_mib,
            names.memory_percentage: -(-self.memory_ppm // PERCENT_PPM),
            names.cores: self.core_percent,
            names.priority: self.priority,
        }

    def _each(self, other: CardAmounts, of_both: Callable[[int, int], int]) -> CardAmounts:
        return CardAmounts(
            memory_mib=of_both(self.memory_mib, other.memory_mib),
            memory_ppm=of_both(self.memory_ppm, other.memory_ppm),
            core_percent=of_both(self.core_percent, other.core_percent),
            priority=of_both(self.priority, other.priority),
        )


NO_AMOUNTS: Final = CardAmounts()


def amounts_of(device: Device) -> CardAmounts:
    """All that may be promised on the device."""
    return CardAmounts(
        memory_mib=device.memory_mib,
        memory_ppm=_WHOLE_PPM,
        core_percent=device.core_percent,
        priority=device.slot_count,
    )


def amounts_held(hold: DeviceHold, device: Device) -> CardAmounts:
    """What a hold takes of the device; its memory in both units, however it was asked for."""
    return CardAmounts(
        memory_mib=hold.memory_mib,
        memory_ppm=_WHOLE_PPM * hold.memory_mib // max(device.memory_mib, 1),
        core_percent=hold.core_percent,
        priority=hold.slots,
    )
