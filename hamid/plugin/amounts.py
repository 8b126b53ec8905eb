"""What the node states of our resources beside slots, and why that refuses no pod. Values only.

Cluster autoscalers try a pod with kube-scheduler's own check of resources against what nodes
state, so that the amounts which pods ask for must be among that: sums over the node's cards. But
once a node states an amount, its kubelet checks it, too, whenever it admits a pod, in the way of
`model.amounts`; where the node states none, it leaves it out. So for each resource

    stated = sum over healthy cards + sum over pods of what they ask beyond what they hold there

where a pod holds what it will after its init phase. A pod that the scheduler placed is then never
too much. Be T what the healthy cards have, r what pods ask, h what they hold of these cards. The
books say h(others) + h(new) <= T, and r(new) <= h(new), for the webhook has written amounts out in
full (`plugin.advertise_amounts`). r(others) <= h(others) + what is beyond. Added up:
r(others) + r(new) <= stated.

Beyond what they hold ask pods that are past an init container that took more, those on cards that
are unhealthy or gone, and those that the scheduler did not place.

A cordoned card counts, since its cordon may be lifted at any moment, and the kubelet told too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hamid.model.amounts import NO_AMOUNTS, amounts_held, amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.model.allocation import PodAllocation
    from hamid.model.amounts import CardAmounts
    from hamid.model.node import NodeInventory


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPod:
    """A pod of the node that is not finished, as the kubelet counts it and as the books do."""

    asked: CardAmounts
    allocation: PodAllocation | None


def stated_amounts(inventory: NodeInventory, pods: Iterable[CountedPod]) -> CardAmounts:
    """What the node states, by the formula above."""
    healthy = {device.device_uuid: device for device in inventory.devices if device.is_healthy}
    stated = NO_AMOUNTS
    for device in healthy.values():
        stated += amounts_of(device)
    for pod in pods:
        held = NO_AMOUNTS
        holds = pod.allocation.holds(is_initialized=True) if pod.allocation is not None else {}
        for uuid, hold in holds.items():
            if uuid in healthy:
                held += amounts_held(hold, healthy[uuid])
        stated += pod.asked.beyond(held)
    return stated
