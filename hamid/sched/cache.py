"""The cluster as the leader knows it: fed by the watches, and the owner of all books.

What pods hold is what pods say (their node and their allocation record); what was decided but
not yet confirmed is a reservation here, in memory, with an end. Invariants:

1. At any moment a pod is booked at most once: by its record if it is bound, else by its
   reservation. Any news that it is bound, has ended or is gone ends the reservation.
2. All methods but the waits run to their end without an await: whoever takes a snapshot and
   reserves on it before the next await has decided alone.
3. A reservation that was sent to the API server outlives the ordinary term: the pod may well be
   bound already.
4. `replace` heals whatever events were lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Gauge

from hamid.model.node import NO_HOST, HostAmount
from hamid.model.quota import charge
from hamid.sched.freed import Freed
from hamid.sched.known_node import KnownNode
from hamid.sched.news import News
from hamid.sched.quotas import QuotaBooks, QuotaCollector
from hamid.sched.records import read_node, read_pod, unless_lost
from hamid.sched.reservations import Reservations, Stage
from hamid.sched.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import CollectorRegistry

    from hamid.kube.port import JsonObject
    from hamid.model.allocation import PodAllocation
    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Bound, Payer
    from hamid.sched.records import NodeNote, PodRecord
    from hamid.sched.reservations import Reservation
    from hamid.sched.settings import SchedSettings

log = structlog.get_logger(__name__)

_Asking = tuple[str, HostAmount]
"""A node, and what a pod asks of its host."""

_SLICE: Final = 50
"""Pods of a list between two pauses: some ten milliseconds."""


class ClusterCache:
    """Nodes, pods and reservations; see the module. The watches feed it through `sinks`.

    Attributes:
        freed: told by the books where room may have become free.
        quotas: what namespaces may take, and take; charged with whatever is booked.
    """

    def __init__(
        self,
        *,
        settings: SchedSettings,
        clock: Callable[[], float],
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._nodes: dict[str, KnownNode] = {}
        self._shown = Shown(self._nodes)
        self._pods: dict[str, PodRecord] = {}
        self._reservations = Reservations(clock=clock)
        self._booked_on: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._strangers: dict[str, tuple[_Asking, int]] = {}  # and what they are given to end
        self._asking_of: dict[str, _Asking] = {}
        self._synced: set[str] = set()
        self.freed = Freed()
        self.quotas = QuotaBooks(names=settings.resources, freed=self.freed.in_namespace)
        self._news = News()
        self._declare_metrics(registry)

    def _declare_metrics(self, registry: CollectorRegistry) -> None:
        nodes, pods, problems = self._nodes, self._pods, self._problems
        for name, text, count in (
            (
                "nodes",
                "Nodes that the scheduler knows.",
                lambda: sum(node.is_listed for node in nodes.values()),
            ),
            ("pods", "Pods that wait for a node or hold devices.", lambda: len(pods)),
            ("reservations", "Decisions not yet confirmed.", lambda: len(self._reservations)),
            ("malformed_nodes", "Nodes whose registration cannot be read.", lambda: len(problems)),
            (
                "malformed_pods",
                "Pods whose record of devices cannot be read, or is that of another.",
                lambda: sum(bool(pod.problem and pod.node_name) for pod in pods.values()),
            ),
        ):
            Gauge(f"hamid_sched_{name}", text, registry=registry).set_function(count)
        QuotaCollector(self.quotas, registry)

    # What is known.

    @property
    def is_synced(self) -> bool:
        """Whether all watches have delivered their first list."""
        return {"nodes", "pods", "quotas"} <= self._synced

    def snapshot(self, node_name: str) -> NodeSnapshot | None:
        """The node as it is now, or None if there is no such node."""
        self._expire()
        return self._shown.get(node_name)

    def known(self, node_names: tuple[str, ...]) -> Mapping[str, NodeSnapshot]:
        """Those of the nodes that there are, as they are now, in the order given."""
        self._expire()
        return self._shown.of(node_names)

    def snapshots(self) -> tuple[NodeSnapshot, ...]:
        """All nodes as they are now, by name."""
        self._expire()
        listed = (node for _, node in sorted(self._nodes.items()) if node.is_listed)
        return tuple(node.book.snapshot() for node in listed)

    def emptied(self, node_name: str) -> NodeSnapshot | None:
        """The node as it would be without any pod, or None if there is no such node."""
        node = self._nodes.get(node_name)
        return node.book.emptied() if node is not None and node.is_listed else None

    def pod(self, pod_uid: str) -> PodRecord | None:
        """The pod, if it waits for a node or holds devices."""
        return self._pods.get(pod_uid)

    def grace_s(self, pod_uid: str) -> int:
        """What the pod is given to end, whether it holds devices or not; 0 if there is none."""
        record, stranger = self._pods.get(pod_uid), self._strangers.get(pod_uid)
        grace_s = stranger[1] if stranger is not None else 0
        return record.grace_s if record is not None else grace_s

    def pod_records(self) -> tuple[PodRecord, ...]:
        """All pods that wait for a node or hold devices."""
        return tuple(self._pods.values())

    def reservation(self, pod_uid: str) -> Reservation | None:
        """The room kept for the pod."""
        self._expire()
        return self._reservations.get(pod_uid)

    def reservations(self) -> tuple[Reservation, ...]:
        """All room that is kept."""
        self._expire()
        return tuple(self._reservations)

    def bounds(self, payer: Payer | None) -> tuple[Bound, ...]:
        """The tightest bound of each resource for a pod of this payer, as quotas are used now."""
        self._expire()
        return self.quotas.bounds(payer) if payer is not None else ()

    def node_problems(self) -> Mapping[str, str]:
        """Why the registrations of some nodes cannot be read."""
        return self._problems

    async def wait_for_pod(self, pod_uid: str) -> PodRecord | None:
        """The pod, as soon as the watch shows it, or None after `pod_wait_s`."""
        await self._news.wait(lambda: pod_uid in self._pods, timeout_s=self._settings.pod_wait_s)
        return self._pods.get(pod_uid)

    async def wait_synced(self) -> bool:
        """Whether all watches have delivered their first list, within `sync_wait_s`."""
        await self._news.wait(lambda: self.is_synced, timeout_s=self._settings.sync_wait_s)
        return self.is_synced

    # Reservations.

    def assume(self, allocation: PodAllocation, payer: Payer | None = None) -> None:
        """Keep room for the pod, instead of what was kept for it, until `reservation_ttl_s`.

        Args:
            allocation: what is kept.
            payer: whose quotas are charged, if the watch does not show the pod.
        """
        self._reserve(allocation, Stage.RESERVED, payer, ttl_s=self._settings.reservation_ttl_s)

    def assume_sent(self, allocation: PodAllocation, payer: Payer | None = None) -> None:
        """Keep room for a pod whose bind is being sent; see `assume`."""
        self._reserve(allocation, Stage.SENT, payer, ttl_s=self._settings.confirmation_ttl_s)

    def confirm(self, pod_uid: str) -> None:
        """The API server has bound the pod as reserved."""
        ttl_s = self._settings.confirmation_ttl_s
        if (kept := self._reservations.get(pod_uid)) is not None:
            self._reserve(kept.allocation, Stage.BOUND, kept.payer, ttl_s=ttl_s)

    def forget(self, pod_uid: str) -> None:
        """Keep no room for the pod any more."""
        if self._reservations.pop(pod_uid) is not None:
            self._rebook(pod_uid)

    def _reserve(
        self, allocation: PodAllocation, stage: Stage, payer: Payer | None, *, ttl_s: float
    ) -> None:
        before = self._reservations.put(allocation, stage, payer, ttl_s=ttl_s)
        if before is None or (before.allocation, before.payer) != (allocation, payer):
            self._rebook(allocation.pod_uid)  # else it is only kept for longer

    def _expire(self) -> None:
        for kept in self._reservations.pop_expired():
            self._rebook(kept.pod_uid)
            log.info(
                "reservation expired",
                pod_uid=kept.pod_uid,
                node=kept.allocation.node_name,
                stage=kept.stage.value,
            )

    # Books.

    def _payer(self, pod_uid: str) -> Payer | None:
        record, kept = self._pods.get(pod_uid), self._reservations.get(pod_uid)
        if record is not None:
            return record.payer
        return kept.payer if kept is not None else None

    def _booking(self, pod_uid: str) -> tuple[PodAllocation, bool] | None:
        record = self._pods.get(pod_uid)
        if record is not None and record.allocation is not None:
            return record.allocation, record.is_initialized
        kept = self._reservations.get(pod_uid)
        return (kept.allocation, False) if kept is not None else None

    def _asking(self, pod_uid: str) -> _Asking | None:
        """What the pod asks of which host: the one it is bound to, else where room is kept."""
        record = self._pods.get(pod_uid)
        if record is not None and record.node_name:
            return record.node_name, record.host
        kept = self._reservations.get(pod_uid)
        if kept is not None:
            return kept.allocation.node_name, record.host if record is not None else NO_HOST
        stranger = self._strangers.get(pod_uid)
        return stranger[0] if stranger is not None else None

    def _ask_anew(self, pod_uid: str) -> None:
        asking = self._asking(pod_uid)
        before = self._asking_of.get(pod_uid)
        if asking == before:
            return
        if before is not None and (asking is None or before[0] != asking[0]):
            del self._asking_of[pod_uid]
            self._nodes[before[0]].book.unask(pod_uid)
            self._drop_unused(before[0])
        if asking is not None:
            self._asking_of[pod_uid] = asking
            self._node(asking[0]).book.ask(pod_uid, asking[1])

    def _rebook(self, pod_uid: str) -> None:
        self._ask_anew(pod_uid)
        booking = self._booking(pod_uid)
        node_name = booking[0].node_name if booking is not None else None
        before = self._booked_on.pop(pod_uid, None)
        if before is not None and before != node_name:
            self._nodes[before].book.release(pod_uid)
            self._drop_unused(before)
        payer = self._payer(pod_uid)
        if booking is None or payer is None:
            self.quotas.release(pod_uid)
        else:
            self.quotas.charge(pod_uid, payer, charge(booking[0], is_initialized=booking[1]))
        if booking is not None:
            allocation, is_initialized = booking
            self._booked_on[pod_uid] = allocation.node_name
            self._node(allocation.node_name).book.hold(
                pod_uid, allocation.holds(is_initialized=is_initialized)
            )

    def _node(self, node_name: str) -> KnownNode:
        node = self._nodes.get(node_name)
        if node is None:
            node = KnownNode(node_name, freed=self.freed.on, changed=self._shown.change)
            self._nodes[node_name] = node
        return node

    def _drop_unused(self, node_name: str) -> None:
        node = self._nodes.get(node_name)
        if node is not None and not node.is_listed and not node.book.is_held:
            del self._nodes[node_name]
            self.freed.drop(node_name)

    # News from the watches, by way of the sinks.

    def reset(self) -> None:
        """Know nothing any more: another replica leads, and what it decides is not seen here."""
        self._nodes.clear()
        self._shown.clear()
        self._pods.clear()
        self._reservations.clear()
        self._booked_on.clear()
        self._problems.clear()
        self._strangers.clear()
        self._asking_of.clear()
        self._synced.clear()
        self.quotas.reset()
        self.freed.forget()

    def take_nodes(self, nodes: Iterable[JsonObject]) -> None:
        """Take these for all nodes there are."""
        listed = {note.node_name: note for note in map(self._read_node, nodes)}
        for name in [name for name in self._nodes if name not in listed]:
            self.drop_node(name)
        for note in listed.values():
            self._take_note(note)
        self._synced.add("nodes")
        self._news.tell()

    def take_node(self, node: JsonObject) -> None:
        """Take the news of one node."""
        self._take_note(self._read_node(node))

    def drop_node(self, node_name: str) -> None:
        """The node is gone; what its pods hold is kept for as long as they are there."""
        node = self._nodes.get(node_name)
        if node is not None:
            node.lose()
            self._problems.pop(node_name, None)
            self._drop_unused(node_name)

    def _take_note(self, note: NodeNote) -> None:
        node = self._node(note.node_name)
        node.take(note)
        if node.problem:
            self._problems[note.node_name] = node.problem
        else:
            self._problems.pop(note.node_name, None)

    def _read_node(self, node: JsonObject) -> NodeNote:
        return read_node(node, names=self._settings.resources)

    def take_pods(self, pods: Iterable[JsonObject]) -> None:
        """Take these for all pods there are."""
        for _ in self.taking_pods(pods):
            pass

    def taking_pods(self, pods: Iterable[JsonObject]) -> Iterator[None]:
        """The same in slices of some milliseconds; after each it is as after single events."""
        known = {*self._pods, *self._strangers}
        for number, pod in enumerate(pods, start=1):
            known.discard(pod["metadata"]["uid"])
            self.take_pod(pod)
            if number % _SLICE == 0:
                yield
        for pod_uid in known:
            self.drop_pod(pod_uid)
        self._synced.add("pods")
        self._news.tell()

    def take_pod(self, pod: JsonObject) -> None:
        """Take the news of one pod."""
        before = self._pods.get(pod["metadata"]["uid"])
        record = unless_lost(self.read(pod), before)
        pod_uid = record.pod_uid
        if before is not None and before.node_name and not record.node_name:
            return  # older than what we know: no pod is ever unbound
        if record.problem and record.node_name and (before is None or not before.problem):
            log.warning("allocation unreadable", pod=record.pod_key, error=record.problem)
        if not record.is_worth_keeping:
            self._let_go(pod_uid, record if record.node_name and not record.is_ended else None)
            return
        self._strangers.pop(pod_uid, None)
        self._pods[pod_uid] = record
        if record.node_name:
            self._reservations.pop(pod_uid)
        elif before is None:
            self._news.tell()
        # Also of a pod that waits: room may be kept for it since before the watch showed it.
        self._rebook(pod_uid)

    def drop_pod(self, pod_uid: str) -> None:
        """The pod is gone."""
        self._let_go(pod_uid, None)

    def _let_go(self, pod_uid: str, left: PodRecord | None) -> None:
        """The pod holds no devices; all that is left of it is what it asks of a host."""
        self._pods.pop(pod_uid, None)
        self._reservations.pop(pod_uid)
        self._strangers.pop(pod_uid, None)
        if left is not None:
            self._strangers[pod_uid] = (left.node_name, left.host), left.grace_s
        self._rebook(pod_uid)

    def take_quotas(self, quotas: Iterable[JsonObject]) -> None:
        """Take these for all quotas there are; single ones go to `quotas`."""
        self.quotas.take_all(quotas)
        self._synced.add("quotas")
        self._news.tell()

    def read(self, pod: JsonObject) -> PodRecord:
        """The record of the pod, not taken into the books."""
        return read_pod(pod, names=self._settings.resources, defaults=self._settings.defaults)
