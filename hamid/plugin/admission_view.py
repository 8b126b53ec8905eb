"""What the kubelet itself says of the pods that an Allocate call may be for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from hamid.errors import KubeletError
from hamid.plugin.matching import KnownPod, under_admission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.kubelet.port import PodDevices, PodResourcesPort, PodsApiPort
    from hamid.plugin.matching import ContainerKey, Match

log = structlog.get_logger(__name__)


FEW: Final = 4
"""Up to so many pods are asked about one by one; of more, the kubelet lists all it knows at once.
It answers a hundred calls a second, from all clients of the node together."""


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
        remaining = tuple(found)
        try:
            async with asyncio.timeout(self.deadline_s):
                remaining = await self._known_by_uid(remaining)
                if remaining:
                    remaining = under_admission(remaining, await self._known_by_name(remaining))
        except (KubeletError, TimeoutError) as error:
            log.warning("kubelet not asked", error=repr(error), matches=len(found))
        return remaining

    async def _known_by_uid(self, found: tuple[Match, ...]) -> tuple[Match, ...]:
        """The matches whose pod the kubelet knows, by the only API that tells UIDs."""
        if not self.pods_api.is_served:
            return found
        try:
            uids = {pod.uid for pod in await self.pods_api.list_pods()}
        except KubeletError as error:
            log.debug("pods api not asked", error=repr(error))
            return found
        return tuple(match for match in found if match.pod.pod_uid in uids)

    async def _known_by_name(self, found: tuple[Match, ...]) -> dict[ContainerKey, KnownPod | None]:
        keys = [(match.pod.namespace, match.pod.name) for match in found]
        if len(keys) <= FEW and self.pod_resources.can_get:
            return {key: _known(await self.pod_resources.get(*key)) for key in keys}
        listed = {(pod.namespace, pod.name): pod for pod in await self.pod_resources.list()}
        return {key: _known(listed.get(key)) for key in keys}


def _known(pod: PodDevices | None) -> KnownPod | None:
    if pod is None:
        return None
    return KnownPod(
        namespace=pod.namespace,
        name=pod.name,
        containers_with_slots=frozenset(c.container_name for c in pod.containers if c.slot_ids),
    )
