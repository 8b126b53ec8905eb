"""How far a change must go at least before a node takes a container that it refuses.

A bound, from the shortfalls alone: nothing is tried here. Each card says how far the change must go
for it to do; so many of them must as are missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.shortfall import Resource
from hamid.sched.placement.change import Amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hamid.model.device import DeviceUuid
    from hamid.model.shortfall import Shortfall
    from hamid.sched.placement.refusal import Refusal

Helped = Callable[["Shortfall"], int | None]
"""How far a change must go at least to heal one shortfall; None where it never does."""


class Distance:
    """How far a node is from taking a container, by why it refuses it card by card.

    Attributes:
        missing_count: how many more cards would have to do.
    """

    __slots__ = ("_cards", "missing_count")

    def __init__(self, refusal: Refusal) -> None:
        self.missing_count = refusal.needed_count - refusal.fitting_count
        cards: dict[DeviceUuid, list[Shortfall]] = {}
        for shortfall in refusal.shortfalls:
            if shortfall.device_uuid is not None:
                cards.setdefault(shortfall.device_uuid, []).append(shortfall)
        self._cards = tuple(cards.values())

    def bound(self, helped: Helped) -> int | None:
        """How far a change must go at least for the node to take it; None if it never does."""
        healed: list[int] = []
        for shortfalls in self._cards:
            most = 1
            for shortfall in shortfalls:
                gap = helped(shortfall)
                if gap is None:
                    break
                most = max(most, gap)
            else:
                healed.append(most)
        missing = self.missing_count
        if not 0 < missing <= len(healed):
            return None
        return min(healed) if missing == 1 else sorted(healed)[missing - 1]


# Which cards share a NUMA node may change with anything: one step heals that.


def _memory_gap(shortfall: Shortfall) -> int | None:
    if shortfall.resource is Resource.MEMORY_MIB:
        return shortfall.requested - (shortfall.capacity - shortfall.used)
    return 1 if shortfall.resource is Resource.NUMA else None


def _percent_gap(shortfall: Shortfall) -> int | None:
    return 1 if shortfall.resource in _MEMORY_OR_NUMA else None


def _cores_gap(shortfall: Shortfall) -> int | None:
    if shortfall.resource is Resource.CORE_PERCENT:
        free = shortfall.capacity - shortfall.used
        return shortfall.requested - free if free > 0 else None
    if shortfall.resource is Resource.EXCLUSIVITY:
        return 1 if shortfall.requested >= WHOLE_DEVICE_PERCENT else None
    return 1 if shortfall.resource is Resource.NUMA else None


def without_cores(helped: Helped) -> Helped:
    """Where no cores are asked for any more."""

    def gap(shortfall: Shortfall) -> int | None:
        if shortfall.resource is Resource.CORE_PERCENT:
            is_all_promised = 0 < shortfall.capacity <= shortfall.used
            return None if is_all_promised else 1
        if shortfall.resource is Resource.EXCLUSIVITY:
            return 1 if shortfall.requested >= WHOLE_DEVICE_PERCENT else None
        return helped(shortfall)

    return gap


def smaller_cores(shortfall: Shortfall) -> int | None:
    """Fewer cores, where less memory is asked for already."""
    return 1 if shortfall.resource is Resource.MEMORY_MIB else _cores_gap(shortfall)


def heals_any(resources: Iterable[Resource]) -> Helped:
    """One step heals any of these; which cards share a NUMA node may change with any."""
    healed = {*resources, Resource.NUMA}
    return lambda shortfall: 1 if shortfall.resource in healed else None


HELPED: Final[Mapping[Amount, Helped]] = {
    Amount.MEMORY_MIB: _memory_gap,
    Amount.MEMORY_PERCENT: _percent_gap,
    Amount.CORES: _cores_gap,
}
"""By what is asked less of; fewer cards heal no card."""
_MEMORY_OR_NUMA: Final = frozenset({Resource.MEMORY_MIB, Resource.NUMA})
