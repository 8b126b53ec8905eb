"""Compares four books, says where they differ, and frees what nobody holds any more.

| book        | says                                                               |
|-------------|--------------------------------------------------------------------|
| annotations | what was decided for each container                                |
| journal     | what each container was granted                                    |
| checkpoint  | which slots the kubelet holds for each container                   |
| kubelet     | (pod resources) the same, as monitoring tools see it               |

The books do not change at the same moment. So a difference counts once two comparisons in a row
have found it; then it is reported as a metric, a log line and an event on the node, once when it
appears. Nothing of a running container is ever changed here: what the kubelet's checkpoint names,
and what it may name where our answer in it cannot be read, is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.ticker import every
from hamid.errors import KubeletError, StateError
from hamid.hooks.abi.contract import ENV_GRANT_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hamid.kubelet.port import CheckpointEntry, CheckpointPort, PodDevices, PodResourcesPort
    from hamid.plugin.events import NodeEvents
    from hamid.plugin.grants import GrantFiles
    from hamid.plugin.journal import Grant, Journal
    from hamid.plugin.matching import ContainerKey, PodOnNode
    from hamid.plugin.metrics import PluginMetrics
    from hamid.plugin.pods import NodePods

log = structlog.get_logger(__name__)

MISSES_BEFORE_FREE: Final = 3
"""A grant is freed when so many comparisons in a row found it held by nobody."""

EVENTS_AT_ONCE: Final = 5
"""Of more new differences than that, one event says how many there are beside."""


class DriftKind(StrEnum):
    """How two books differ."""

    SHARES_DIFFER = "shares_differ"
    """A container was granted other shares than were decided."""
    NOT_GRANTED = "not_granted"
    """The kubelet holds slots for a container that the journal does not know."""
    UNLIMITED = "unlimited"
    """A container runs that asks for slots, and neither kubelet nor journal knows of any: a kubelet that
    lost its books, and where nobody had registered yet, starts such containers with nothing of ours."""
    NOT_HELD = "not_held"
    """A container's grant is final, and the kubelet holds no slots for it: it may give them away."""
    SLOTS_DIFFER = "slots_differ"
    """The kubelet holds other slots for a container than its final grant says."""
    KUBELET_DIFFERS = "kubelet_differs"
    """Pod resources shows other slots of a container than the kubelet's checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Drift:
    """One difference, about one container."""

    kind: DriftKind
    pod_key: str
    container_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The journal and the kubelet's books at one moment, by container.

    Attributes:
        slots: by pod UID and container name, from the checkpoint.
        shown: by pod key and container name, from pod resources; empty where it was not asked.
    """

    grants: Mapping[ContainerKey, Grant]
    slots: Mapping[ContainerKey, frozenset[str]]
    shown: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)


def books(
    grants: Sequence[Grant],
    entries: Sequence[CheckpointEntry],
    known: Sequence[PodDevices] = (),
) -> Books:
    """The books, put in order to be compared. Pure."""
    return Books(
        grants={grant.key: grant for grant in grants},
        slots={(e.pod_uid, e.container_name): frozenset(e.slot_ids) for e in entries},
        shown={
            (f"{pod.namespace}/{pod.name}", container.container_name): frozenset(container.slot_ids)
            for pod in known
            for container in pod.containers
        },
    )


def drifts(pods: Sequence[PodOnNode], compared: Books) -> frozenset[Drift]:
    """Where the books differ, for pods that are on the node and not finished. Pure."""
    return frozenset(
        Drift(kind=kind, pod_key=pod.pod_key, container_name=container.name)
        for pod in pods
        if not pod.is_terminal
        for container in pod.asking
        for kind in _drift_kinds(pod, container.name, compared)
    )


def _urgency(drift: Drift) -> tuple[bool, Drift]:
    return drift.kind is not DriftKind.UNLIMITED, drift


def _drift_kinds(pod: PodOnNode, container_name: str, compared: Books) -> Iterator[DriftKind]:
    key = (pod.pod_uid, container_name)
    grant, slots = compared.grants.get(key), compared.slots.get(key)
    shown = compared.shown.get((pod.pod_key, container_name))
    decided = pod.decided(container_name)
    if grant is None and slots is not None:
        yield DriftKind.NOT_GRANTED
    if grant is None and slots is None and container_name in pod.running:
        yield DriftKind.UNLIMITED
    if grant is not None and decided is not None and decided.shares != grant.shares:
        yield DriftKind.SHARES_DIFFER
    # One that is not final is a guess, which the container's start confirms or mends.
    if grant is not None and grant.is_final and slots != frozenset(grant.slot_ids):
        yield DriftKind.NOT_HELD if slots is None else DriftKind.SLOTS_DIFFER
    if slots is not None and shown and shown != slots:
        yield DriftKind.KUBELET_DIFFERS


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Compares the books at an interval; a service.

    Attributes:
        known: the differences of now.
    """

    resource_name: str
    pods: NodePods
    journal: Journal
    files: GrantFiles
    checkpoint: CheckpointPort
    pod_resources: PodResourcesPort
    metrics: PluginMetrics
    events: NodeEvents
    interval_s: float
    name: str = "reconciler"
    known: frozenset[Drift] = frozenset()
    _suspected: frozenset[Drift] = frozenset()
    _misses: dict[str, int] = field(default_factory=dict)
    _is_blind: bool = False
    _is_stuck: bool = False

    async def run(self) -> None:
        """Compare until cancelled."""
        async for _ in every(self.interval_s):
            await self.step()

    async def step(self) -> None:
        """Compare once; without the checkpoint nothing is said, and nothing freed."""
        try:
            entries = [
                entry
                for entry in await self.checkpoint.read()
                if entry.resource_name == self.resource_name
            ]
        except KubeletError as error:
            if not self._is_blind:
                log.warning("books not compared", error=str(error))
            self._is_blind = True
            return
        if self._is_blind:
            log.info("books compared again")
        self._is_blind = False
        compared = books(self.journal.grants(), entries, await self._known_to_kubelet())
        await self._report(drifts(self.pods.pods(), compared))
        try:
            await self._free(entries)
        except StateError as error:
            if not self._is_stuck:
                log.warning("grants not freed", error=error.message, hint=error.hint)
            self._is_stuck = True
        else:
            self._is_stuck = False

    async def _known_to_kubelet(self) -> tuple[PodDevices, ...]:
        try:
            return await self.pod_resources.list()
        except KubeletError as error:
            log.debug("pod resources not compared", error=repr(error))
            return ()

    async def _report(self, found: frozenset[Drift]) -> None:
        confirmed, self._suspected = found & self._suspected, found
        for kind in DriftKind:
            self.metrics.drift.labels(kind=kind).set(sum(d.kind is kind for d in confirmed))
        new, self.known = sorted(confirmed - self.known, key=_urgency), confirmed
        for drift in new:
            log.warning(
                "books differ", kind=drift.kind, pod=drift.pod_key, container=drift.container_name
            )
        messages = [f"container {d.container_name} of pod {d.pod_key}: {d.kind}" for d in new]
        if len(messages) > EVENTS_AT_ONCE:
            rest = len(messages) - EVENTS_AT_ONCE
            messages[EVENTS_AT_ONCE:] = [f"and {rest} more; see /debug/drift of hamid on this node"]
        for message in messages:
            await self.events.warn("AllocationDrift", message)

    async def _free(self, entries: Sequence[CheckpointEntry]) -> None:
        """Forget grants, and files of grants, that nobody was seen to hold for a while.

        Raises:
            StateError: some are still there, of which the first is named.
        """
        on_disk = await self.files.grant_ids()
        grants = {grant.grant_id: grant for grant in self.journal.grants()}
        on_record = {(entry.pod_uid, entry.container_name) for entry in entries}
        live = {pod.pod_uid for pod in self.pods.pods() if not pod.is_terminal}
        held = {entry.envs.get(ENV_GRANT_ID) for entry in entries}
        held |= {g.grant_id for g in grants.values() if g.pod_uid in live or g.key in on_record}
        if None in held:
            # Some answer of ours is not understood: any directory may be what it mounts.
            held |= on_disk - grants.keys()
        free = (on_disk | grants.keys()) - held
        self._misses = {grant_id: self._misses.get(grant_id, 0) + 1 for grant_id in free}
        errors = []
        for grant_id in sorted(g for g, n in self._misses.items() if n >= MISSES_BEFORE_FREE):
            try:
                await self.journal.remove(grant_id)
                await self.files.remove(grant_id)
            except StateError as error:
                errors.append(error)
                continue
            pod_key = grants[grant_id].pod_key if grant_id in grants else None
            log.info("grant freed", pod=pod_key, grant_id=grant_id)
        if errors:
            raise errors[0]
