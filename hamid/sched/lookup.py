"""Which pod a call speaks of: from our own watch by UID, never from the call's body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hamid.kube.errors import NotFound
from hamid.kube.port import PODS

if TYPE_CHECKING:
    from hamid.kube.port import KubePort
    from hamid.sched.cache import ClusterCache
    from hamid.sched.records import PodRecord


class PodRef(Protocol):
    """The part of a call that says which pod it means."""

    @property
    def pod_uid(self) -> str:
        """The identity."""
        ...

    @property
    def namespace(self) -> str:
        """Where to read it, if the watch does not show it."""
        ...

    @property
    def pod_name(self) -> str:
        """What to read, if the watch does not show it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLookup:
    """Finds pods; kube-scheduler's watch may be ahead of ours."""

    kube: KubePort
    cache: ClusterCache

    async def find(self, ref: PodRef) -> PodRecord:
        """The pod: known already, or as soon as the watch shows it, or read directly.

        Raises:
            NotFound: there is no such pod, or one of that name with another UID.
            KubeError: it could not be read.
        """
        if (known := self.cache.pod(ref.pod_uid)) is not None:
            return known
        if (shown := await self.cache.wait_for_pod(ref.pod_uid)) is not None:
            return shown
        return await self.read(ref)

    async def read(self, ref: PodRef) -> PodRecord:
        """The pod as the API server has it now; the books do not learn of it."""
        pod = await self.kube.get(PODS, ref.pod_name, namespace=ref.namespace)
        record = self.cache.read(pod)
        if record.pod_uid != ref.pod_uid:
            raise NotFound(
                f"pod {record.pod_key} has UID {record.pod_uid}, not {ref.pod_uid}",
                hint="it was made anew; kube-scheduler will ask for the new one",
            )
        return record
