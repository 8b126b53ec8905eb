"""What may stand in for each other in a search: containers, devices, and sets of devices."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from hamid.model.device import DeviceUuid

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest

_Item = TypeVar("_Item")


def row_ends(request: PodRequest) -> tuple[int, ...]:
    """For each container the number of the next one that asks for something else."""
    asks = [(c.kind, c.device_count, c.memory, c.core_percent) for c in request.requests]
    ends: list[int] = []
    for _, row in groupby(asks):
        count = len(list(row))
        ends += [len(ends) + count] * count
    return tuple(ends)


def kinds_of_devices(request: PodRequest, node: NodeSnapshot, *, are_sets: bool) -> tuple[int, ...]:
    """A number for each device, the same for those that may stand in for each other.

    Args:
        request: which devices it allows.
        node: theirs.
        are_sets: it matters which devices are together.
    """
    usages = node.usages
    if are_sets or request.is_numa_bound or request.selection.names_single_devices:
        return tuple(range(len(usages)))
    numbers: dict[Hashable, int] = {}
    found = []
    for device in (usage.device for usage in usages):
        like = replace(device, device_uuid=DeviceUuid(""), device_index=0, numa_node=None)
        key = like, device.device_uuid in node.cordoned
        found.append(numbers.setdefault(key, len(numbers)))
    return tuple(found)


def unlike(
    items: Sequence[_Item],
    states: Sequence[Hashable],
    count: int,
    start: int = 0,
    passed: frozenset[Hashable] = frozenset(),
) -> Iterator[tuple[_Item, ...]]:
    """Combinations in the order of `itertools`, each multiset of states once: the first of them.

    Where an item was passed over, so is each later one in its state.
    """
    if not count:
        yield ()
        return
    for index in range(start, len(items) - count + 1):
        if states[index] not in passed:
            for rest in unlike(items, states, count - 1, index + 1, passed):
                yield (items[index], *rest)
            passed |= {states[index]}
