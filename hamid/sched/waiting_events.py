"""Leader-only service: tells the authors of waiting pods, by an event, what would make them fit.

kube-scheduler writes events of its own with our reasons in them, node by node and merged by its
rules. What it cannot say is in ours: the reasons over the whole cluster, and the smallest changes.
A pod has one event, `WaitingForCards`, whose text is the newest.

When it is written:

- once the pod was refused and has waited for `event_after_s`: most pods never come to that;
- again when the reasons, or what would help, are of other kinds than was told;
- again when only amounts are others, `event_interval_s` after the last time at the earliest;
- again, unchanged, before the API server forgets it.

Who was never told anything comes first, then who was told of other kinds, and of these the longest ago.

Pods of one namespace that ask for the same of the same nodes, are as important and have the same quotas
share one text, worked out once. That is some tenths of a second at a thousand nodes: it happens in a
thread beside the loop, and takes up at most 1/`_REST` of the time; so does finding out who waits. What
would help is told as far as it concerns the pod's own namespace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from hamid.aiokit.ticker import every
from hamid.kube.events import Subject
from hamid.sched.placement.change import ChangeKind
from hamid.sched.placement.explain import card_reasons
from hamid.sched.placement.place import Unplaceable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hamid.kube.events import EventWriter
    from hamid.model.quota import Payer
    from hamid.model.request import PodRequest
    from hamid.sched.cache import ClusterCache
    from hamid.sched.explainer import Explainer
    from hamid.sched.outlook import Outlook
    from hamid.sched.records import PodRecord
    from hamid.sched.settings import SchedSettings

log = structlog.get_logger(__name__)

REASON: Final = "WaitingForCards"
_TICK_S: Final = 1.0
_REST: Final = 20
_WRITES_A_TICK: Final = 20
_REPEAT_S: Final = 3_000.0
"""Less than the hour for which API servers keep events unless told otherwise."""
_NAME_LENGTH: Final = 200
_OTHERS: Final = "It would fit if one pod of another namespace ended"


class _Text(NamedTuple):
    """What is told of one shape.

    Attributes:
        kinds: of its reasons and of what would help: what changes when more than amounts change.
    """

    message: str
    kinds: frozenset[str]
    at_s: float


class _Shape(NamedTuple):
    """Pods that are told the same; a pod for which room is being made is one of its own."""

    request: PodRequest
    priority: int
    payer: Payer | None
    node_rules: str


class _Known(NamedTuple):
    """The shape of a pod as it was."""

    record: PodRecord
    is_alone: bool
    shape: _Shape


class _Told(NamedTuple):
    text: _Text
    at_s: float


_Urgency = tuple[int, float]
"""The smaller the more urgent: what has changed, and when the pod was told last."""


@dataclass(slots=True, kw_only=True)
class WaitingEvents:
    """Keeps one event of each pod that waits; a service.

    Attributes:
        clock: monotonic seconds.
    """

    explainer: Explainer
    cache: ClusterCache
    writer: EventWriter
    settings: SchedSettings
    clock: Callable[[], float]
    name: str = "waiting-events"
    _since: dict[str, float] = field(default_factory=dict)
    _told: dict[str, _Told] = field(default_factory=dict)
    _texts: dict[_Shape, _Text] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)
    _rest_until: float = 0.0
    _looks_again_at: float = 0.0

    async def run(self) -> None:
        """Tell until cancelled."""
        async for _ in every(_TICK_S):
            await self.step()

    async def step(self) -> None:
        """Work out one text at most, and write some events."""
        began_at = self.clock()
        if began_at < self._looks_again_at:
            return
        shapes = self._shapes()
        self._looks_again_at = began_at + _REST * (self.clock() - began_at)
        await self._work_out(shapes)
        written = 0
        for record, text in self._due(shapes):
            if written >= _WRITES_A_TICK or not self.explainer.leadership.may_act():
                return
            if self._is_waiting(record.pod_uid):
                await self._tell(record, text)
                written += 1

    def _due(self, shapes: dict[_Shape, list[PodRecord]]) -> list[tuple[PodRecord, _Text]]:
        """Those that have to be told something, the most urgent first."""
        found: list[tuple[_Urgency, PodRecord, _Text]] = []
        for shape, records in shapes.items():
            text = self._texts.get(shape)
            if text is not None:
                for record in records:
                    urgency = self._urgency(record.pod_uid, text)
                    if urgency is not None:
                        found.append((urgency, record, text))
        found.sort(key=itemgetter(0))
        return [(record, text) for _, record, text in found]

    def _shapes(self) -> dict[_Shape, list[PodRecord]]:
        """The pods that have waited long enough, by what they ask for; forgets all others."""
        now = self.clock()
        since: dict[str, float] = {}
        shapes: dict[_Shape, list[PodRecord]] = {}
        for record, request in self._waiting():
            began_at = since[record.pod_uid] = self._since.get(record.pod_uid, now)
            if now - began_at >= self.settings.event_after_s:
                shapes.setdefault(self._shape(record, request), []).append(record)
        self._since = since
        self._told = {uid: told for uid, told in self._told.items() if uid in since}
        self._texts = {shape: text for shape, text in self._texts.items() if shape in shapes}
        self._known = {uid: known for uid, known in self._known.items() if uid in since}
        return shapes

    def _shape(self, record: PodRecord, request: PodRequest) -> _Shape:
        nominations, pod_uid = self.explainer.nominations, record.pod_uid
        is_alone = nominations is not None and nominations.get(pod_uid) is not None
        known = self._known.get(pod_uid)
        if known is None or known.record is not record or known.is_alone is not is_alone:
            asked = request if is_alone else replace(request, pod_uid="", pod_name="")
            shape = _Shape(asked, record.priority, record.payer, record.node_rules)
            known = self._known[pod_uid] = _Known(record, is_alone, shape)
        return known.shape

    def _waiting(self) -> Iterator[tuple[PodRecord, PodRequest]]:
        """Pods that were refused at their last try."""
        if not self.cache.is_synced:
            return
        for pod_uid in self.explainer.refused.tries():
            record = self.cache.pod(pod_uid)
            if record is not None and record.request is not None:
                yield record, record.request

    def _is_waiting(self, pod_uid: str) -> bool:
        """Whether it does even now: a text takes time to be worked out, and others to be written."""
        record = self.cache.pod(pod_uid)
        is_refused = pod_uid in self.explainer.refused.tries()
        return is_refused and record is not None and record.request is not None

    async def _work_out(self, shapes: dict[_Shape, list[PodRecord]]) -> None:
        """The text of the shape whose is missing, or the oldest."""
        began_at = self.clock()
        if began_at < self._rest_until:
            return
        due = [shape for shape in shapes if self._is_stale(shape, began_at)]
        if not due:
            return
        shape = min(due, key=lambda each: self._texts[each].at_s if each in self._texts else -1.0)
        record = shapes[shape][0]
        found = await self.explainer.outlook(record, shape.request)
        ended_at = self.clock()
        self._rest_until = ended_at + (_REST - 1) * (ended_at - began_at)
        if found.sentence:
            kinds, message = _kinds(found), message_of(found, record.namespace)
            self._texts[shape] = _Text(message, kinds, ended_at)
        else:
            self._texts.pop(shape, None)  # it fits now: kube-scheduler is about to find out

    def _is_stale(self, shape: _Shape, now: float) -> bool:
        text = self._texts.get(shape)
        return text is None or now - text.at_s >= self.settings.event_interval_s / 2

    def _urgency(self, pod_uid: str, text: _Text) -> _Urgency | None:
        """How urgent it is to tell the pod this; None where it is not to be told now."""
        told = self._told.get(pod_uid)
        if told is None:
            return 0, 0.0
        if told.text.kinds != text.kinds:
            return 1, told.at_s
        is_other = told.text.message != text.message
        stays_s = self.settings.event_interval_s if is_other else _REPEAT_S
        return (2, told.at_s) if self.clock() - told.at_s >= stays_s else None

    async def _tell(self, record: PodRecord, text: _Text) -> None:
        pod = Subject(
            kind="Pod", name=record.pod_name, uid=record.pod_uid, namespace=record.namespace
        )
        # What cannot be written is not tried again before something changes: it is only telling.
        is_first = record.pod_uid not in self._told
        self._told[record.pod_uid] = _Told(text, self.clock())
        await self.writer.keep(
            pod, name=event_name(record), reason=REASON, message=text.message, is_first=is_first
        )
        log.debug("waiting pod told", pod=record.pod_key, message=text.message)


def event_name(record: PodRecord) -> str:
    """The same from every replica, so that a new leader goes on with the event of the last."""
    return f"{record.pod_name[:_NAME_LENGTH].rstrip('-.')}.{record.pod_uid[:8]}.cards"


def message_of(found: Outlook, namespace: str) -> str:
    """The text of the event: why the pod waits, and what would help.

    Args:
        found: of the pod.
        namespace: of the pod; pods of others are not named to its author.
    """
    told = [
        change.sentence
        for change in found.changes
        if change.kind is not ChangeKind.DEPARTURE or change.pod_key.startswith(f"{namespace}/")
    ]
    if not told:
        why = _OTHERS if found.changes else found.remark
        return f"{found.sentence}. {why}" if why else found.sentence
    helps = "It would fit if you" if len(told) == 1 else "It would fit if you do one of these:"
    return f"{found.sentence}. {helps} {'; or '.join(told)}"


def _kinds(found: Outlook) -> frozenset[str]:
    changes = {f"change {change.kind}" for change in found.changes}
    if found.over_quota is not None:
        changes.add("quota")
    if found.room_made is not None:
        changes.add(f"room {bool(found.room_made.leaving)}")
    if isinstance(found.outcome, Unplaceable):
        reasons = card_reasons(found.request, found.outcome.refusals)
        changes |= {f"reason {reason.kind}" for reason in reasons}
    return frozenset(changes)
