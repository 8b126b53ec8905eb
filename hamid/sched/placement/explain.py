"""Refusals as sentences, with numbers and units, for events and the extender's replies.

kube-scheduler shows a pod's author the replies of all nodes as one event, and merges those with
equal texts: `0/900 nodes are available: 700 no card of 5600 on 700 nodes fits: 5600 lack memory
(need 3000 MiB, most free 1200 MiB), 200 …`. So nodes that refuse for the same kinds of reason
get one text that counts all their cards: a handful of texts, however many nodes there are.

A card is counted under what must change first: what it is (health, cordon, model, uuid, mode),
then its size, then that it would have to be free of others; only then under each amount it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.fit import OF_THE_DEVICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hamid.model.request import PodRequest

NOT_REGISTERED: Final = "the node registers no card"
MAX_NAMES_SHOWN: Final = 3
"""Models or UUIDs named in a sentence; the event has room for about a thousand characters."""

Refusal = tuple[Shortfall, ...]


class _Kind(StrEnum):
    """What is said of a card; in the order in which it is said."""

    MEMORY = "memory"
    SIZE = "size"
    CORES = "cores"
    CORES_PROMISED = "cores-promised"
    SLOTS = "slots"
    IN_USE = "in-use"
    HELD_WHOLE = "held-whole"
    MODEL = "model"
    UUID = "uuid"
    MODE = "mode"
    HEALTH = "health"
    CORDON = "cordon"


@dataclass(slots=True)
class _Reason:
    """One reason over many cards: how many, on how many nodes, and the card that comes nearest."""

    nearest: Shortfall
    card_count: int = 0
    node_count: int = 0

    def count(self, shortfall: Shortfall) -> None:
        self.card_count += 1
        if _gap(shortfall) < _gap(self.nearest):
            self.nearest = shortfall


@dataclass(slots=True)
class _Tally:
    """The refusals of some nodes, added up.

    Attributes:
        fitting_count: the most cards that would do on any one of the nodes.
    """

    request: PodRequest
    node_count: int = 0
    card_count: int = 0
    needed_count: int = 0
    fitting_count: int = 0
    reasons: dict[_Kind, _Reason] = field(default_factory=dict)

    def add(self, refusal: Refusal) -> None:
        self.node_count += 1
        for shortfall in refusal:
            if shortfall.resource is Resource.DEVICE_COUNT:
                self.card_count += shortfall.capacity
                self.needed_count = max(self.needed_count, shortfall.requested)
                self.fitting_count = max(self.fitting_count, shortfall.capacity - shortfall.used)
        kinds = set()
        for shortfall in _counted(refusal):
            kind = _kind(shortfall)
            kinds.add(kind)
            self.reasons.setdefault(kind, _Reason(shortfall)).count(shortfall)
        for kind in kinds:
            self.reasons[kind].node_count += 1

    def sentence(self) -> str:
        if not self.card_count:
            return NOT_REGISTERED
        where = "" if self.node_count == 1 else f" on {self.node_count} nodes"
        lacking = ", ".join(
            self._clause(kind, self.reasons[kind]) for kind in _Kind if kind in self.reasons
        )
        if self.needed_count <= 1:
            return f"no card of {self.card_count}{where} fits: {lacking}"
        found = f"only {self.fitting_count}" if self.node_count == 1 else "too few on each node"
        verb = "fits" if self.fitting_count == 1 and self.node_count == 1 else "fit"
        sentence = f"{self.needed_count} cards needed, {found} {verb} (of {self.card_count}{where})"
        return f"{sentence}: {lacking}" if lacking else sentence

    def _clause(self, kind: _Kind, reason: _Reason) -> str:
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
    for node_name, refusal in refusals.items():
        key = _group_key(refusal)
        key_by_node[node_name] = key
        tallies.setdefault(key, _Tally(request)).add(refusal)
    sentences = {key: tally.sentence() for key, tally in tallies.items()}
    return {node_name: sentences[key] for node_name, key in key_by_node.items()}


def node_sentence(request: PodRequest, refusal: Refusal) -> str:
    """Why this one node refuses."""
    return _sentence(request, (refusal,))


def cluster_sentence(request: PodRequest, refusals: Mapping[str, Refusal]) -> str:
    """Why no node takes the pod: per reason, how many cards on how many nodes, and by how much."""
    if not refusals:
        return "no node was offered"
    registered = [r for r in refusals.values() if not _is_unregistered(r)]
    silent_count = len(refusals) - len(registered)
    if not registered:
        return _sentence(request, refusals.values())
    sentence = _sentence(request, registered)
    if silent_count:
        sentence += f"; {silent_count} node{_s(silent_count)} without registered cards"
    return sentence


def _sentence(request: PodRequest, refusals: Iterable[Refusal]) -> str:
    tally = _Tally(request)
    for refusal in refusals:
        tally.add(refusal)
    return tally.sentence()


def _is_unregistered(refusal: Refusal) -> bool:
    return any(s.resource is Resource.REGISTRATION for s in refusal)


def _group_key(refusal: Refusal) -> tuple[int, frozenset[_Kind]]:
    needed = sum(s.requested for s in refusal if s.resource is Resource.DEVICE_COUNT)
    return needed, frozenset(_kind(s) for s in _counted(refusal))


def _counted(refusal: Refusal) -> Iterable[Shortfall]:
    """The shortfalls under which each card counts; see the module."""
    by_device: dict[str, list[Shortfall]] = {}
    for shortfall in refusal:
        if shortfall.device_uuid is not None:
            by_device.setdefault(shortfall.device_uuid, []).append(shortfall)
    for found in by_device.values():
        yield from _first_to_change(found)


def _first_to_change(found: Sequence[Shortfall]) -> Sequence[Shortfall]:
    for comes_first in (
        lambda s: s.resource in OF_THE_DEVICE,
        lambda s: s.resource is Resource.MEMORY_MIB and s.requested > s.capacity,
        lambda s: s.resource is Resource.EXCLUSIVITY,
    ):
        if first := [s for s in found if comes_first(s)]:
            return first[:1]
    return found


def _gap(shortfall: Shortfall) -> int:
    return shortfall.requested - (shortfall.capacity - shortfall.used)


_KIND_BY_RESOURCE: Final = {
    Resource.SLOTS: _Kind.SLOTS,
    Resource.MODEL: _Kind.MODEL,
    Resource.UUID: _Kind.UUID,
    Resource.MODE: _Kind.MODE,
    Resource.HEALTH: _Kind.HEALTH,
    Resource.CORDON: _Kind.CORDON,
}


def _kind(shortfall: Shortfall) -> _Kind:
    match shortfall.resource:
        case Resource.MEMORY_MIB:
            return _Kind.SIZE if shortfall.requested > shortfall.capacity else _Kind.MEMORY
        case Resource.CORE_PERCENT:
            return _Kind.CORES if shortfall.requested else _Kind.CORES_PROMISED
        case Resource.EXCLUSIVITY:
            is_whole = shortfall.requested >= WHOLE_DEVICE_PERCENT
            return _Kind.IN_USE if is_whole else _Kind.HELD_WHOLE
        case resource:
            return _KIND_BY_RESOURCE[resource]


_PHRASES: Final = {
    _Kind.MEMORY: "{lack} memory (need {need} MiB, most free {free} MiB)",
    _Kind.SIZE: "{are} too small (need {need} MiB, largest has {capacity} MiB)",
    _Kind.CORES: "{lack} cores (need {need} %, most free {free} %)",
    _Kind.CORES_PROMISED: "{have} all cores promised",
    _Kind.SLOTS: "{have} no free slot ({used} of {capacity} taken)",
    _Kind.IN_USE: "{are} in use (a whole card is asked)",
    _Kind.HELD_WHOLE: "{are} held whole by another container",
    _Kind.MODEL: "{are} of another model ({models})",
    _Kind.UUID: "{are} excluded by UUID ({uuids})",
    _Kind.MODE: "{are} in another mode ({modes})",
    _Kind.HEALTH: "{are} unhealthy",
    _Kind.CORDON: "{are} cordoned",
}


def _phrase(kind: _Kind, nearest: Shortfall, request: PodRequest, *, is_one: bool) -> str:
    """What is said of the cards: `lack memory (need 3000 MiB, most free 1200 MiB)`."""
    lack, are, have = ("lacks", "is", "has") if is_one else ("lack", "are", "have")
    selection = request.selection
    return _PHRASES[kind].format(
        lack=lack,
        are=are,
        have=have,
        need=nearest.requested,
        used=nearest.used,
        free=max(nearest.capacity - nearest.used, 0),
        capacity=nearest.capacity,
        models=_wishes(selection.use_models, selection.avoid_models),
        uuids=_wishes(selection.use_uuids, selection.avoid_uuids),
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
