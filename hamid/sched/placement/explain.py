"""Refusals as sentences, with numbers and units, for events and the extender's replies.

kube-scheduler shows a pod's author the replies of all nodes as one event, and merges those with
equal texts: `0/900 nodes are available: 700 no card of 5600 on 700 nodes fits: 5600 lack memory
(need 3000 MiB, most free 1200 MiB), 200 …`. So nodes that refuse for the same kinds of reason
get one text that counts all their cards: a handful of texts, however many nodes there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hamid.model.quantities import WHOLE_CARD
from hamid.sched.placement.over_quota import QuotaRefusal
from hamid.sched.placement.refusal import Kind, gap, grouped, kind_of, nearness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hamid.model.request import PodRequest
    from hamid.model.shortfall import Shortfall
    from hamid.sched.placement.refusal import CardCount, Refusal

NOT_REGISTERED: Final = "the node registers no card"
_LOOK_AT_DAEMON: Final = "see where hamid's DaemonSet runs (nodes need its label), and its log"
MAX_NAMES_SHOWN: Final = 3
"""Models or UUIDs named in a sentence; the event has room for about a thousand characters."""


@dataclass(slots=True)
class _Reason:
    """One reason over many cards: how many, on how many nodes, and the card that comes nearest."""

    nearest: Shortfall
    card_count: int = 0
    node_count: int = 0

    def add(self, count: CardCount, node_count: int) -> None:
        self.card_count += count.card_count * node_count
        self.node_count += node_count
        if nearness(count.nearest) < nearness(self.nearest):
            self.nearest = count.nearest


@dataclass(slots=True)
class _Tally:
    """The refusals of some nodes, added up.

    Attributes:
        fitting_count: the most cards that would do on any one of the nodes.
        largest_count: the most cards that any one of the nodes has.
    """

    request: PodRequest
    node_count: int = 0
    card_count: int = 0
    needed_count: int = 0
    fitting_count: int = 0
    largest_count: int = 0
    reasons: dict[Kind, _Reason] = field(default_factory=dict)

    def add(self, refusal: Refusal, node_count: int) -> None:
        self.node_count += node_count
        self.card_count += refusal.card_count * node_count
        self.needed_count = max(self.needed_count, refusal.needed_count)
        self.fitting_count = max(self.fitting_count, refusal.fitting_count)
        self.largest_count = max(self.largest_count, refusal.card_count)
        for kind, count in refusal.counts.items():
            reason = self.reasons.get(kind)
            if reason is None:
                reason = self.reasons[kind] = _Reason(count.nearest)
            reason.add(count, node_count)

    def sentence(self) -> str:
        if not self.card_count:
            return NOT_REGISTERED
        where = "" if self.node_count == 1 else f" on {self.node_count} nodes"
        lacking = ", ".join(
            self._clause(kind, self.reasons[kind]) for kind in Kind if kind in self.reasons
        )
        if self.needed_count <= 1:
            return f"no card of {self.card_count}{where} fits: {lacking}"
        # Words come first: kube-scheduler puts a number of nodes in front.
        fit = "fits" if self.fitting_count == 1 else "fit"
        found = f"{self.fitting_count} of {self.card_count} {fit}"
        on_any = ""
        if self.node_count > 1:
            on_any, found = " on any node", f"{self.card_count}{where}"
            if self.fitting_count:
                found += f", at most {self.fitting_count} {fit} on one"
        # Who asks for more cards than there are may have slices of one card in mind.
        of_what = " different ones" if self.needed_count > self.largest_count else ""
        sentence = f"too few cards{on_any}, {self.needed_count}{of_what} needed ({found})"
        return f"{sentence}: {lacking}" if lacking else sentence

    def _clause(self, kind: Kind, reason: _Reason) -> str:
        on = ""
        if reason.node_count != self.node_count:
            on = f" on {reason.node_count} node{_s(reason.node_count)}"
        is_one = reason.card_count == 1
        return (
            f"{reason.card_count}{on} {_phrase(kind, reason.nearest, self.request, is_one=is_one)}"
        )


def node_sentences(request: PodRequest, refusals: Mapping[str, Refusal]) -> Mapping[str, str]:
    """Why each node refuses; nodes with the same kinds of reason share one sentence."""
    tallies: dict[object, _Tally] = {}
    key_by_node: dict[str, object] = {}
    over_quota: dict[str, str] = {}
    for refusal, node_names in grouped(refusals):
        if isinstance(refusal, QuotaRefusal):
            over_quota.update(dict.fromkeys(node_names, refusal.sentence))
            continue
        key = (refusal.needed_count, tuple(refusal.counts))
        key_by_node.update(dict.fromkeys(node_names, key))
        tally = tallies.get(key)
        if tally is None:
            tally = tallies[key] = _Tally(request)
        tally.add(refusal, len(node_names))
    sentences = {key: tally.sentence() for key, tally in tallies.items()}
    return {node_name: sentences[key] for node_name, key in key_by_node.items()} | over_quota


def node_sentence(request: PodRequest, refusal: Refusal) -> str:
    """Why this one node refuses."""
    if isinstance(refusal, QuotaRefusal):
        return refusal.sentence
    return _sentence(request, [(refusal, 1)])


def cluster_sentence(request: PodRequest, refusals: Mapping[str, Refusal]) -> str:
    """Why no node takes the pod: per reason, how many cards on how many nodes, and by how much."""
    if not refusals:
        return "no node was offered"
    said = [(refusal, len(node_names)) for refusal, node_names in grouped(refusals)]
    over_quota = next((r for r, _ in said if isinstance(r, QuotaRefusal)), None)
    others = [each for each in said if not isinstance(each[0], QuotaRefusal)]
    if over_quota is None:
        return _cards_sentence(request, others)
    if not others:
        return over_quota.sentence
    return f"{over_quota.sentence}. Besides, {_cards_sentence(request, others)}"


def _cards_sentence(request: PodRequest, said: Sequence[tuple[Refusal, int]]) -> str:
    registered = [each for each in said if each[0].is_registered]
    silent_count = sum(count for refusal, count in said if not refusal.is_registered)
    if not registered:
        none = NOT_REGISTERED
        if silent_count > 1:
            none = f"none of {silent_count} nodes registers a card"
        return f"{none}: {_LOOK_AT_DAEMON}"
    sentence = _sentence(request, registered)
    if silent_count:
        sentence += f"; {silent_count} node{_s(silent_count)} without registered cards"
    return sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReason:
    """One reason for which cards do not do, over all nodes.

    Attributes:
        asked, free, capacity: of the card that comes nearest, in `unit`; 0 where there is none.
        lacking: by how much that card falls short.
        text: the same for people.
    """

    kind: Kind
    card_count: int
    node_count: int
    asked: int
    free: int
    capacity: int
    lacking: int
    unit: str
    text: str


def card_reasons(request: PodRequest, refusals: Mapping[str, Refusal]) -> tuple[CardReason, ...]:
    """Why cards do not do, each reason with how many cards on how many nodes, and by how much."""
    tally = _Tally(request)
    for refusal, node_names in grouped(refusals):
        tally.add(refusal, len(node_names))
    return tuple(
        _card_reason(kind, tally.reasons[kind], request) for kind in Kind if kind in tally.reasons
    )


def _card_reason(kind: Kind, reason: _Reason, request: PodRequest) -> CardReason:
    nearest, unit = reason.nearest, _UNITS.get(kind, "")
    phrase = _phrase(kind, nearest, request, is_one=reason.card_count == 1)
    cards = f"{reason.card_count} card{_s(reason.card_count)}"
    return CardReason(
        kind=kind,
        card_count=reason.card_count,
        node_count=reason.node_count,
        asked=nearest.requested if unit else 0,
        free=max(nearest.capacity - nearest.used, 0) if unit else 0,
        capacity=nearest.capacity if unit else 0,
        lacking=gap(nearest) if unit else 0,
        unit=unit,
        text=f"{cards} on {reason.node_count} node{_s(reason.node_count)} {phrase}",
    )


def card_sentence(request: PodRequest, shortfall: Shortfall) -> str:
    """What is said of one card alone: `lacks memory (need 3000 MiB, free 1200 MiB)`."""
    return _phrase(kind_of(shortfall), shortfall, request, is_one=True, is_alone=True)


_UNITS: Final = {
    Kind.MEMORY: "MiB",
    Kind.SIZE: "MiB",
    Kind.CORES: "%",
    Kind.CORES_PROMISED: "%",
    Kind.SLOTS: "slots",
}


def _sentence(request: PodRequest, said: Iterable[tuple[Refusal, int]]) -> str:
    tally = _Tally(request)
    for refusal, node_count in said:
        tally.add(refusal, node_count)
    return tally.sentence()


_PHRASES: Final = {
    Kind.MEMORY: "{lack} memory (need {need} MiB{whole}, {most}free {free} MiB)",
    Kind.SIZE: "{are} too small (need {need} MiB, {largest}has {capacity} MiB)",
    Kind.CORES: "{lack} cores (need {need} %, {most}free {free} %)",
    Kind.CORES_PROMISED: "{have} all cores promised",
    Kind.SLOTS: "{have} no free slot ({used} of {capacity} taken)",
    Kind.IN_USE: "{are} in use (a whole card is asked)",
    Kind.HELD_WHOLE: "{are} held whole by another container",
    Kind.MODEL: "{are} of another model ({models})",
    Kind.UUID: "{are} excluded by UUID ({uuids})",
    Kind.INDEX: "{have} another index ({indices} asked)",
    Kind.NUMA: "{have} too few others on the same NUMA node",
    Kind.NODE_IN_USE: "{are} on a node that others use (one to itself is asked)",
    Kind.MODE: "{are} in another mode ({modes})",
    Kind.HEALTH: "{are} unhealthy",
    Kind.CORDON: "{are} cordoned",
}


def _phrase(
    kind: Kind, nearest: Shortfall, request: PodRequest, *, is_one: bool, is_alone: bool = False
) -> str:
    """What is said of the cards: `lack memory (need 3000 MiB, most free 1200 MiB)`."""
    lack, are, have = ("lacks", "is", "has") if is_one else ("lack", "are", "have")
    selection = request.selection
    # Who asks for no memory asks for all of it, and may not know.
    is_all = nearest.requested == nearest.capacity and any(
        container.memory == WHOLE_CARD for container in request.requests
    )
    return _PHRASES[kind].format(
        lack=lack,
        are=are,
        have=have,
        most="" if is_alone else "most ",
        largest="" if is_alone else "largest ",
        need=nearest.requested,
        whole=", the whole card" if is_all else "",
        used=nearest.used,
        free=max(nearest.capacity - nearest.used, 0),
        capacity=nearest.capacity,
        models=_wishes(selection.use_models, selection.avoid_models),
        uuids=_wishes(selection.use_uuids, selection.avoid_uuids),
        indices=_some(tuple(map(str, selection.use_indices))),
        modes=_wishes(request.allowed_modes, ()),
    )


def _wishes(used: tuple[str, ...], avoided: tuple[str, ...]) -> str:
    """What was asked, in words: `A100 or H100 asked, T4 avoided`."""
    said = []
    if used:
        said.append(f"{_some(used)} asked")
    if avoided:
        said.append(f"{_some(avoided)} avoided")
    return ", ".join(said)


def _some(names: tuple[str, ...]) -> str:
    shown = " or ".join(names[:MAX_NAMES_SHOWN])
    more = len(names) - MAX_NAMES_SHOWN
    return f"{shown} or {more} more" if more > 0 else shown


def _s(count: int) -> str:
    return "" if count == 1 else "s"
