"""Who really holds some slots, once the kubelet has it on record.

The kubelet's checkpoint names pod UID and container of every allocation, plain init containers
included, and keeps our Allocate answer, in which the grant's id stands. Where it cannot be read
(it is an internal format), pod resources name app containers and sidecars; where these fail,
too, the journal's own guess is all there is.

What was decided for a pod never changes. So a grant that is final counts, and not what the pod's
annotations say now: whoever may change those must not get more at the next start. And while the API
server has not told of this node's pods yet (after a reboot, say), a container whose slots and grant
are on record both with the kubelet and in the journal is its owner all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from hamid.errors import KubeletError
from hamid.hooks.abi.contract import ENV_GRANT_ID
from hamid.model.names import ENV_VISIBLE_DEVICES, NOT_VISIBLE

if TYPE_CHECKING:
    from hamid.kubelet.port import CheckpointEntry, CheckpointPort, PodResourcesPort
    from hamid.model.device import DeviceShare
    from hamid.model.sharing import Sharing
    from hamid.plugin.journal import Grant, Journal
    from hamid.plugin.matching import PodOnNode
    from hamid.plugin.pods import NodePods

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A container that holds the slots, the grant it was answered with, and its due shares.

    Attributes:
        has_cards_in_answer: it is known to have been answered with the cards themselves, and not
            with a CDI name.
    """

    pod_uid: str
    namespace: str
    pod_name: str
    container_name: str
    grant_id: str
    shares: tuple[DeviceShare, ...]
    priority: int | None
    sharing: Sharing
    has_cards_in_answer: bool = False


@dataclass(slots=True, kw_only=True)
class Owners:
    """Finds the owners of slots."""

    resource_name: str
    checkpoint: CheckpointPort
    pod_resources: PodResourcesPort
    pods: NodePods
    journal: Journal

    async def of(self, slot_ids: tuple[str, ...]) -> tuple[Owner, ...]:
        """The containers that hold just these slots: several where an app reuses its init's."""
        owners = await self._from_checkpoint(frozenset(slot_ids))
        if not owners:
            owners = await self._from_pod_resources(frozenset(slot_ids))
        if not owners:
            owners = self._from_journal(slot_ids)
        if not owners:
            raise KubeletError(
                f"nobody is on record for the slots {', '.join(sorted(slot_ids))}",
                hint="the kubelet tries again; if this stays, restart the pod",
            )
        return owners

    async def _from_checkpoint(self, slots: frozenset[str]) -> tuple[Owner, ...]:
        try:
            entries = await self.checkpoint.read()
        except KubeletError as error:
            log.warning("checkpoint not read", error=repr(error))
            return ()
        owners = []
        for entry in entries:
            if entry.resource_name != self.resource_name or frozenset(entry.slot_ids) != slots:
                continue
            pod = await self.pods.find(entry.pod_uid)
            if pod is None and not self.pods.is_listed:
                owners.append(self._remembered(entry))
            elif pod is not None and not pod.is_terminal:
                _require_answer_of_ours(entry, pod)
                grant = self._grant(entry.envs.get(ENV_GRANT_ID), pod, entry.container_name, slots)
                found = self._owner(pod, entry.container_name, grant)
                has_cards = entry.envs.get(ENV_VISIBLE_DEVICES, NOT_VISIBLE) != NOT_VISIBLE
                owners += [replace(owner, has_cards_in_answer=has_cards) for owner in found]
        return tuple(owners)

    def _remembered(self, entry: CheckpointEntry) -> Owner:
        """The owner by the kubelet's and our own record alone; raises where they do not agree."""
        key = (entry.pod_uid, entry.container_name)
        grant_id = entry.envs.get(ENV_GRANT_ID)
        grant = (
            self.journal.by_id(grant_id) if grant_id is not None else self.journal.by_container(key)
        )
        if grant is None or grant.key != key or set(grant.slot_ids) != set(entry.slot_ids):
            raise KubeletError(
                f"what was decided for container {entry.container_name!r} of the pod with UID "
                f"{entry.pod_uid} is not known, for the API server did not tell of this node's "
                f"pods: {self.pods.refresh_failure}",
                hint="the kubelet tries again, and the container starts once the API server answers",
            )
        return Owner(
            pod_uid=grant.pod_uid,
            namespace=grant.namespace,
            pod_name=grant.pod_name,
            container_name=grant.container_name,
            grant_id=grant.grant_id,
            shares=grant.shares,
            priority=grant.priority,
            sharing=grant.sharing,
        )

    async def _from_pod_resources(self, slots: frozenset[str]) -> tuple[Owner, ...]:
        try:
            known = await self.pod_resources.list()
        except KubeletError as error:
            log.warning("pod resources not read", error=repr(error))
            return ()
        owners = []
        for record in known:
            for container in record.containers:
                pod = self.pods.by_name(record.namespace, record.name)
                if frozenset(container.slot_ids) == slots and pod is not None:
                    grant = self._grant(None, pod, container.container_name, slots)
                    owners += self._owner(pod, container.container_name, grant)
        return tuple(owners)

    def _from_journal(self, slot_ids: tuple[str, ...]) -> tuple[Owner, ...]:
        owners = []
        for grant in self.journal.by_slots(slot_ids):
            pod = self.pods.pod(grant.pod_uid)
            if pod is not None and not pod.is_terminal:
                owners += self._owner(pod, grant.container_name, (grant.grant_id, grant))
        return tuple(owners)

    def _grant(
        self, grant_id: str | None, pod: PodOnNode, container_name: str, slots: frozenset[str]
    ) -> tuple[str, Grant | None] | None:
        """The id of the grant that the container was answered with, and the grant if journalled."""
        if grant_id is not None:
            return grant_id, self.journal.by_id(grant_id)
        own = self.journal.by_container((pod.pod_uid, container_name))
        if own is not None and frozenset(own.slot_ids) == slots:
            return own.grant_id, own
        others = self.journal.by_slots(tuple(slots))
        return (others[-1].grant_id, others[-1]) if others else None

    def _owner(
        self, pod: PodOnNode, container_name: str, grant: tuple[str, Grant | None] | None
    ) -> list[Owner]:
        if grant is None:
            return []
        grant_id, journalled = grant
        decided = None if pod.is_by_hami else pod.decided(container_name)
        own = journalled if journalled and journalled.key == (pod.pod_uid, container_name) else None
        # Of a pod without a decision, served with a slice, the journal is the only record.
        if own is not None and (own.is_final or decided is None):
            shares, priority = own.shares, own.priority
        elif decided is not None:
            shares, priority = decided.shares, decided.priority
        else:
            raise KubeletError(
                f"nothing was decided for container {container_name!r} of pod {pod.pod_key}, "
                f"which is about to start",
                hint=pod.problem or "it was not placed by hamid's scheduler; delete it",
            )
        return [
            Owner(
                pod_uid=pod.pod_uid,
                namespace=pod.namespace,
                pod_name=pod.name,
                container_name=container_name,
                grant_id=grant_id,
                shares=shares,
                priority=priority,
                sharing=pod.sharing(container_name),
            )
        ]


def _require_answer_of_ours(entry: CheckpointEntry, pod: PodOnNode) -> None:
    """Refuse a container that another device plugin has served; what cannot be read may be ours."""
    if entry.envs and ENV_GRANT_ID not in entry.envs:
        raise KubeletError(
            f"container {entry.container_name!r} of pod {pod.pod_key} was given its devices by "
            f"another device plugin, and mounts what that one gave it",
            hint="delete the pod, its controller makes a new one; if hamid was here before, see "
            "that no other plugin registers the resource on this node",
        )
