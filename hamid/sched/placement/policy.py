"""The preferences by which a node, or a device on it, is chosen.

`fragmentation` has a module of its own. The others order by load: an ordering turns the load that a place would have, with the newcomer on it, into a key; the
smallest key wins. Load is counted in parts per million of three capacities, summed:

    load = slots used / slots + memory used / memory + cores used / cores

Integers throughout, so that equal states compare equal on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.model.request import PolicyName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hamid.model.device import DeviceUsage
    from hamid.model.request import PodRequest

PPM: Final = 1_000_000


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
    """Which ordering counts for nodes, and which for the devices of one."""

    node: PolicyName = PolicyName.FRAGMENTATION
    device: PolicyName = PolicyName.FRAGMENTATION

    def for_request(self, request: PodRequest) -> Policies:
        """These policies, but where the pod asks for others, those."""
        return Policies(
            node=request.node_policy or self.node, device=request.device_policy or self.device
        )


BY_FRAGMENTATION: Final = Policies(node=PolicyName.FRAGMENTATION, device=PolicyName.FRAGMENTATION)


def device_load_ppm(usage: DeviceUsage) -> int:
    """The load of one device, 0 to 3,000,000: an empty device is 0, one full in all is 3,000,000."""
    return load_ppm((usage,))


def load_ppm(usages: Iterable[DeviceUsage]) -> int:
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
        _ratio_ppm(slots_used, slots)
        + _ratio_ppm(memory_used_mib, memory_mib)
        + _ratio_ppm(core_used_percent, core_percent)
    )


def _ratio_ppm(used: int, capacity: int) -> int:
    return used * PPM // capacity if capacity > 0 else 0
