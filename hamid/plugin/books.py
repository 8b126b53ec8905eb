"""What one node knows of its cards at a moment, and what follows from it for metrics. Values only.

Two views, which differ while a pod is on its way:

- what is *allocated* is what was decided for the pods of the node, as the scheduler counts it;
- what is *granted* is what containers were given at Allocate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hamid.hooks.abi.usage import UsageReport
    from hamid.hooks.lending import DeviceTerms
    from hamid.model.device import DeviceShare, DeviceUuid
    from hamid.model.node import NodeInventory
    from hamid.nvml.port import DeviceSample
    from hamid.plugin.health import DeviceView
    from hamid.plugin.journal import Grant
    from hamid.plugin.matching import AskingContainer, PodOnNode


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedShare:
    """One share of a grant; `position` counts the container's devices from 0."""

    grant: Grant
    position: int
    share: DeviceShare
    used_bytes: int
    terms: DeviceTerms | None = None

    @property
    def limit_bytes(self) -> int:
        """What the container may use of the device."""
        return self.share.memory_mib * MIB

    @property
    def used_percent(self) -> float | None:
        """What it uses of the device's time; None where nobody knows, for there is no limit."""
        if self.terms is None or self.terms.rate_percent is None:
            return None
        return self.terms.used_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedShare:
    """One share of what was decided for a container."""

    pod: PodOnNode
    container: AskingContainer
    share: DeviceShare


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBooks:
    """What one node knows of its cards at this moment."""

    inventory: NodeInventory
    view: DeviceView
    pods: tuple[PodOnNode, ...]
    grants: tuple[Grant, ...]
    usage_by_grant: Mapping[str, UsageReport]
    terms: Mapping[tuple[str, str], DeviceTerms] = field(default_factory=dict)

    @property
    def node_name(self) -> str:
        """The node's name."""
        return self.inventory.node_name

    def samples(self) -> dict[DeviceUuid, DeviceSample]:
        """How each card fares; a card with a fault has nothing in its sample."""
        return {sample.device_uuid: sample for sample in self.view.samples}

    def usages(self) -> tuple[DeviceUsage, ...]:
        """What is allocated of each device of the inventory, in its order."""
        return tuple(device_usages(self.inventory, self.pods).values())

    def allocated(self) -> Iterator[AllocatedShare]:
        """What was decided for the containers of pods that are not finished."""
        for pod in self.pods:
            if not pod.is_terminal:
                for container in pod.asking:
                    decided = pod.decided(container.name)
                    for share in decided.shares if decided is not None else ():
                        yield AllocatedShare(pod=pod, container=container, share=share)

    def granted(self) -> Iterator[GrantedShare]:
        """What containers were given, of pods that are there and not finished.

        A grant outlives its pod until the kubelet, too, has forgotten it; it must not be shown
        beside that of a pod made anew under the same name.
        """
        living = {pod.pod_uid for pod in self.pods if not pod.is_terminal}
        for grant in self.grants:
            for position, share in enumerate(grant.shares if grant.pod_uid in living else ()):
                yield GrantedShare(
                    grant=grant,
                    position=position,
                    share=share,
                    used_bytes=self._used(grant, share),
                    terms=self.terms.get((grant.grant_id, share.device_uuid)),
                )

    def _used(self, grant: Grant, share: DeviceShare) -> int:
        """What the container's processes report, but never more than they could have."""
        report = self.usage_by_grant.get(grant.grant_id)
        used_bytes = 0 if report is None else report.used_bytes(share.device_uuid)
        return min(used_bytes, share.memory_mib * MIB)


def device_usages(
    inventory: NodeInventory, pods: tuple[PodOnNode, ...]
) -> dict[DeviceUuid, DeviceUsage]:
    """What the pods that are not finished hold of each device of the inventory."""
    usages = {d.device_uuid: DeviceUsage(device=d) for d in inventory.devices}
    for pod in pods:
        if pod.allocation is None or pod.is_terminal:
            continue
        for uuid, hold in pod.allocation.holds(is_initialized=pod.is_initialized).items():
            if uuid in usages:
                usages[uuid] = usages[uuid].with_hold(hold)
    return usages
