"""Compares four books, says where they differ, and frees what nobody holds any more.

| book        | says                                                   |
|-------------|--------------------------------------------------------|
| annotations | what was decided for each container                    |
| journal     | what each container was granted                        |
| checkpoint  | which slots the kubelet holds for each container       |
| kubelet     | (pod resources) the same, for monitoring tools         |

Drift is reported as a metric, a log line and an event on the node, once when it appears. Nothing
of a running container is ever changed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from hamid.aiokit.ticker import every
from hamid.errors import KubeletError
from hamid.hooks.abi.contract import ENV_GRANT_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.kubelet.port import CheckpointEntry, CheckpointPort
    from hamid.plugin.events import NodeEvents
    from hamid.plugin.grants import GrantFiles
    from hamid.plugin.journal import Grant, Journal
    from hamid.plugin.matching import ContainerKey, PodOnNode
    from hamid.plugin.metrics import PluginMetrics
    from hamid.plugin.pods import NodePods

log = structlog.get_logger(__name__)

MISSES_BEFORE_FREE = 3
"""A grant is freed when so many comparisons in a row found it held by nobody: the watch, the
kubelet and its checkpoint do not change at the same moment."""


class DriftKind(StrEnum):
    """How two books differ."""

    SHARES_DIFFER = "shares_differ"
    """A container was granted other shares than were decided."""
    NOT_GRANTED = "not_granted"
    """The kubelet holds slots for a container that the journal does not know."""
    SLOTS_DIFFER = "slots_differ"
    """The kubelet holds other slots for a container than the journal says."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Drift:
    """One difference, about one container."""

    kind: DriftKind
    pod_key: str
    container_name: str


def drifts(
    pods: Sequence[PodOnNode], grants: Sequence[Grant], entries: Sequence[CheckpointEntry]
) -> tuple[Drift, ...]:
    """Where the books differ, for pods that are on the node and not finished. Pure."""
    by_container = {grant.key: grant for grant in grants}
    slots_by_container = {(e.pod_uid, e.container_name): frozenset(e.slot_ids) for e in entries}
    found = []
    for pod in pods:
        if pod.is_terminal:
            continue
        for container in pod.asking:
            kind = _drift(pod, container.name, by_container, slots_by_container)
            if kind is not None:
                found.append(Drift(kind=kind, pod_key=pod.pod_key, container_name=container.name))
    return tuple(sorted(found))


def _drift(
    pod: PodOnNode,
    name: str,
    grants: dict[ContainerKey, Grant],
    slots: dict[ContainerKey, frozenset[str]],
) -> DriftKind | None:
    key = (pod.pod_uid, name)
    grant = grants.get(key)
    if grant is None:
        return DriftKind.NOT_GRANTED if key in slots else None
    decided = pod.decided(name)
    if decided is not None and decided.shares != grant.shares:
        return DriftKind.SHARES_DIFFER
    if key in slots and slots[key] != frozenset(grant.slot_ids):
        return DriftKind.SLOTS_DIFFER
    return None


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Compares the books at an interval; a service."""

    resource_name: str
    pods: NodePods
    journal: Journal
    files: GrantFiles
    checkpoint: CheckpointPort
    metrics: PluginMetrics
    events: NodeEvents
    interval_s: float
    name: str = "reconciler"
    known: frozenset[Drift] = frozenset()
    _misses: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Compare until cancelled."""
        async for _ in every(self.interval_s):
            await self.step()

    async def step(self) -> None:
        """Compare once."""
        try:
            entries = [
                entry
                for entry in await self.checkpoint.read()
                if entry.resource_name == self.resource_name
            ]
        except KubeletError as error:
            log.warning("books not compared", error=repr(error))
            return
        found = frozenset(drifts(self.pods.pods(), self.journal.grants(), entries))
        for kind in DriftKind:
            self.metrics.drift.labels(kind=kind).set(sum(d.kind is kind for d in found))
        for drift in sorted(found - self.known):
            log.warning(
                "books differ", kind=drift.kind, pod=drift.pod_key, container=drift.container_name
            )
            await self.events.warn(
                "AllocationDrift",
                f"container {drift.container_name} of pod {drift.pod_key}: {drift.kind}",
            )
        self.known = found
        await self._free(entries)

    async def _free(self, entries: Sequence[CheckpointEntry]) -> None:
        """Forget grants whose pod is gone from the node and from the kubelet's books."""
        on_record = {(entry.pod_uid, entry.container_name) for entry in entries}
        held = {entry.envs.get(ENV_GRANT_ID) for entry in entries}
        live = {pod.pod_uid for pod in self.pods.pods() if not pod.is_terminal}
        misses = {}
        for grant in self.journal.grants():
            if grant.pod_uid in live or grant.key in on_record or grant.grant_id in held:
                continue
            misses[grant.grant_id] = self._misses.get(grant.grant_id, 0) + 1
            if misses[grant.grant_id] >= MISSES_BEFORE_FREE:
                del misses[grant.grant_id]
                await self.journal.remove(grant.grant_id)
                log.info("grant freed", pod=grant.pod_key, grant_id=grant.grant_id)
        self._misses = misses
        kept = {grant.grant_id for grant in self.journal.grants()} | {h for h in held if h}
        await self.files.remove_others(kept)
