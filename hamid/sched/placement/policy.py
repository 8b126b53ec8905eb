"""The preferences by which a node, or a device on it, is chosen.

`fragmentation` has a module of its own. The others order by load: an ordering turns the load that a place would have, with the newcomer on it, into a key; the
smallest key wins. Load is counted in parts per million of three capacities, summed:

    load = slots used / slots + memory used / memory + cores used / cores

A pod may give each of them a weight. The cards of a node are taken together, as if they were one; a
pod may have the node's host count, too:

    load of a host = CPU asked for / CPU + memory asked for / memory

Of nodes that all policies find equal, the host decides in any case, in the direction of the policy.

Integers throughout, so that equal states compare equal on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.model.request import EVEN_WEIGHTS, LoadWeights, PolicyName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hamid.model.device import DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest

PPM: Final = 1_000_000
_EVEN_HOST: Final = LoadWeights(cpu=1, host_memory=1)


def _fullest_first(load_ppm: int) -> int:
    return -load_ppm


def _emptiest_first(load_ppm: int) -> int:
    return load_ppm


LOAD_ORDERINGS: Final[Mapping[PolicyName, Callable[[int], int]]] = {
    PolicyName.BINPACK: _fullest_first,
    PolicyName.SPREAD: _emptiest_first,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What counts for nodes, and what for the devices of one.

    Each is a chain: the first policy decides, the next among what it finds equal, and so on. So
    NUMA or links never outrank what was asked before them.
    """

    node: tuple[PolicyName, ...] = (PolicyName.FRAGMENTATION,)
    device: tuple[PolicyName, ...] = (PolicyName.FRAGMENTATION,)

    def for_request(self, request: PodRequest) -> Policies:
        """These policies, but where the pod asks for others, those."""
        if not request.node_policies and not request.device_policies:
            return self
        return Policies(
            node=request.node_policies or self.node,
            device=request.device_policies or self.device,
        )

    @property
    def conditions(self) -> Policies:
        """Those alone that forbid places; the others only prefer some."""

        def only(names: tuple[PolicyName, ...]) -> tuple[PolicyName, ...]:
            return tuple(name for name in names if name is PolicyName.MUTEX)

        return Policies(node=only(self.node), device=only(self.device))


def host_cost(policies: Sequence[PolicyName], node: NodeSnapshot) -> tuple[int, ...]:
    """What decides between nodes that all policies find equal; the smaller the better.

    Nothing more where `fragmentation` is among them: it has weighed the host already.

    Args:
        policies: of the node, in the order in which they count.
        node: with the newcomer on it.
    """
    if PolicyName.FRAGMENTATION in policies:
        return ()
    ordering = next((LOAD_ORDERINGS[p] for p in policies if p in LOAD_ORDERINGS), _fullest_first)
    return (ordering(host_load_ppm(node)),)


def host_load_ppm(node: NodeSnapshot, weights: LoadWeights = _EVEN_HOST) -> int:
    """The load of a node's host: an idle one is 0, one full in both 2,000,000; more with weights."""
    free, capacity = node.host_free, node.host_capacity
    if free is None or capacity is None:
        return 0
    asked = capacity - free
    return weights.cpu * _ratio_ppm(
        asked.cpu_milli, capacity.cpu_milli
    ) + weights.host_memory * _ratio_ppm(asked.memory_mib, capacity.memory_mib)


def node_load_ppm(node: NodeSnapshot, weights: LoadWeights) -> int:
    """The load of a node, as far as these say that its cards and its host count."""
    return load_ppm(node.usages, weights) + host_load_ppm(node, weights)


BY_FRAGMENTATION: Final = Policies()


def device_load_ppm(usage: DeviceUsage, weights: LoadWeights = EVEN_WEIGHTS) -> int:
    """The load of one device: an empty device is 0, one full in all is 3,000,000.

    With other weights than 1 each, the three ratios count that much.
    """
    device = usage.device
    return (
        weights.slots * _ratio_ppm(usage.slots_used, device.slot_count)
        + weights.memory * _ratio_ppm(usage.memory_used_mib, device.memory_mib)
        + weights.cores * _ratio_ppm(usage.core_used_percent, device.core_percent)
    )


def load_ppm(usages: Iterable[DeviceUsage], weights: LoadWeights = EVEN_WEIGHTS) -> int:
    """The load of several devices taken together, as if they were one."""
    slots = memory_mib = core_percent = 0
    slots_used = memory_used_mib = core_used_percent = 0
    for usage in usages:
        device = usage.device
        slots += device.slot_count
        memory_mib += device.memory_mib
        core_percent += device.core_percent
        slots_used += usage.slots_used
        memory_used_mib += usage.memory_used_mib
        core_used_percent += usage.core_used_percent
    return (
        weights.slots * _ratio_ppm(slots_used, slots)
        + weights.memory * _ratio_ppm(memory_used_mib, memory_mib)
        + weights.cores * _ratio_ppm(core_used_percent, core_percent)
    )


def _ratio_ppm(used: int, capacity: int) -> int:
    return used * PPM // capacity if capacity > 0 else 0
