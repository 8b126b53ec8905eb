"""Pods that reached the node without a decision: refused, or given a slice of what is free.

Free is what the pods bound to this node leave. A pod that the scheduler has placed, but not yet
bound, is not among them: for that moment a card may be promised twice, which the scheduler sees
as soon as the slice is on record. Who cannot have that refuses such pods.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hamid.codec.allocation_record import encode_allocation
from hamid.errors import KubeError, KubeletError
from hamid.kube.port import PODS, PatchKind
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import DeviceShare
from hamid.model.names import POD_ALLOCATION
from hamid.plugin.books import device_usages
from hamid.plugin.settings import UndecidedPods
from hamid.plugin.slots import slot_device

if TYPE_CHECKING:
    from hamid.aiokit.latest import Latest
    from hamid.kube.port import KubePort
    from hamid.model.node import NodeInventory
    from hamid.plugin.matching import Match
    from hamid.plugin.pods import NodePods
    from hamid.plugin.settings import PluginSettings

_PATCH_DEADLINE_S = 1.5


@dataclass(slots=True, kw_only=True)
class UndecidedPolicy:
    """Decides for containers for which the scheduler decided nothing."""

    settings: PluginSettings
    node_name: str
    inventory: Latest[NodeInventory]
    pods: NodePods
    kube: KubePort

    async def shares(self, match: Match, slot_ids: tuple[str, ...]) -> tuple[DeviceShare, ...]:
        """A default slice of the cards that the slots name, or a refusal that says why."""
        if match.pod.problem is not None:
            raise KubeletError(
                f"the allocation of pod {match.pod.pod_key} cannot be read: {match.pod.problem}",
                hint="delete the pod, it is placed anew when its controller makes another",
            )
        if self.settings.undecided_pods is UndecidedPods.REFUSE:
            raise KubeletError(
                f"pod {match.pod.pod_key} was not placed by hamid's scheduler",
                hint="leave spec.nodeName empty and let the webhook set schedulerName; or set "
                "plugin.undecided_pods: slice to give such pods a default slice",
            )
        shares = tuple(
            DeviceShare(
                device_uuid=slot_device(slot_id),
                memory_mib=self.settings.default_slice_memory_mib,
                core_percent=0,
            )
            for slot_id in slot_ids
        )
        self._require_free(match, shares)
        await self._record(match, shares)
        return shares

    def _require_free(self, match: Match, shares: tuple[DeviceShare, ...]) -> None:
        usage = device_usages(self.inventory.get(), self.pods.pods())
        for share in shares:
            used = usage.get(share.device_uuid)
            if used is None or used.memory_free_mib < share.memory_mib or used.exclusive_count:
                free_mib = 0 if used is None or used.exclusive_count else used.memory_free_mib
                raise KubeletError(
                    f"no slice of {share.memory_mib} MiB is free on {share.device_uuid} for pod "
                    f"{match.pod.pod_key}, which was not placed by hamid's scheduler "
                    f"(free are {free_mib} MiB)",
                    hint="let hamid's scheduler place the pod",
                )
            usage[share.device_uuid] = used.with_share(share)

    async def _record(self, match: Match, shares: tuple[DeviceShare, ...]) -> None:
        """Write the decision to the pod, so that the scheduler's books count it, before it counts."""
        earlier = match.pod.allocation.containers if match.pod.allocation else ()
        own = ContainerAllocation(
            container_name=match.container_name, kind=match.container.kind, shares=shares
        )
        allocation = PodAllocation(
            pod_uid=match.pod.pod_uid, node_name=self.node_name, containers=(*earlier, own)
        )
        patch = {
            "metadata": {
                "uid": match.pod.pod_uid,
                "annotations": {POD_ALLOCATION: encode_allocation(allocation)},
            }
        }
        try:
            async with asyncio.timeout(_PATCH_DEADLINE_S):
                written = await self.kube.patch(
                    PODS, match.pod.name, patch, kind=PatchKind.MERGE, namespace=match.pod.namespace
                )
        except (KubeError, TimeoutError) as error:
            raise KubeletError(
                f"the slice of pod {match.pod.pod_key} could not be recorded: {error!r}",
                hint="the API server must be reachable for pods that hamid did not place",
            ) from error
        self.pods.keep(written)
