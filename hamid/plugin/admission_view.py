"""What the kubelet itself says of the pods that an Allocate call may be for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from hamid.errors import KubeletError
from hamid.plugin.matching import KnownPod, under_admission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.kubelet.port import PodDevices, PodResourcesPort, PodsApiPort
    from hamid.plugin.matching import ContainerKey, Match

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class AdmissionView:
    """Asks the kubelet which pod it is admitting.

    Args:
        deadline_s: for all questions of one call together: the kubelet admits no pod while we ask.
    """

    pod_resources: PodResourcesPort
    pods_api: PodsApiPort
    deadline_s: float = 1.0

    async def under_admission(self, found: Sequence[Match]) -> tuple[Match, ...]:
        """Those of the matches that the kubelet may be asking for now.

        A kubelet that does not answer leaves all of them in question.
        """
        known: dict[ContainerKey, KnownPod | None] = {}
        try:
            async with asyncio.timeout(self.deadline_s):
                known |= await self._replaced(found)
                for match in found:
                    key = (match.pod.namespace, match.pod.name)
                    if key not in known:
                        known[key] = _known(await self.pod_resources.get(*key))
        except (KubeletError, TimeoutError) as error:
            log.warning("kubelet not asked", error=repr(error), matches=len(found))
        return under_admission(found, known)

    async def _replaced(self, found: Sequence[Match]) -> dict[ContainerKey, KnownPod | None]:
        """Pods that the kubelet knows under another UID: ours are not the ones it has.

        Pod resources name pods without their UID; only the Pods API tells a pod from its
        successor of the same name.
        """
        if not self.pods_api.is_served:
            return {}
        try:
            uids = {pod.uid for pod in await self.pods_api.list_pods()}
        except KubeletError as error:
            log.debug("pods api not asked", error=repr(error))
            return {}
        return {
            (match.pod.namespace, match.pod.name): None
            for match in found
            if match.pod.pod_uid not in uids
        }


def _known(pod: PodDevices | None) -> KnownPod | None:
    if pod is None:
        return None
    return KnownPod(
        namespace=pod.namespace,
        name=pod.name,
        containers_with_slots=frozenset(c.container_name for c in pod.containers if c.slot_ids),
    )
