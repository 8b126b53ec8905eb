"""Simulated nodes: what a person writes of them, and the cards that they become.

The file is a list of nodes, or an object with that list under `nodes`:

    - name: node-a            # required
      cpu: 64                 # as Kubernetes writes it; default 64
      memory: 256Gi           # default 256Gi
      numa: 2                 # so many NUMA nodes; default 2, 0 for none
      labels: {zone: a}
      cards:
        - {model: A100-80GB, count: 4, numa: 0}   # count: default 1; numa: of all, or a list

Cards without a `numa` of their own are spread over the node's NUMA nodes, in blocks. Names of
fields may be written in capitals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from hamid.daemon.simulate.manifests import load_documents
from hamid.errors import SettingsError
from hamid.model.quantities import MIB, QuantityError, parse_quantity
from hamid.nvml.profiles import MAX_CARDS, card_model, simulated_cards

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hamid.nvml.profiles import SimulatedCard

_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST_NAME: Final = 63
_NODE_FIELDS: Final = ("name", "cpu", "memory", "numa", "labels", "cards")
_CARD_FIELDS: Final = ("model", "count", "numa")
_HINT: Final = "a node has name, cpu, memory, numa, labels, and cards: [{model, count, numa}]"
MAX_NODES: Final = 200
MAX_NUMA: Final = 63
DEFAULT_CPU: Final = "64"
DEFAULT_MEMORY: Final = "256Gi"
DEFAULT_NUMA: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCards:
    """Some equal cards of a node; `numa` has the NUMA node of each, or is None."""

    model: str
    count: int = 1
    numa: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """A node as the file describes it; amounts as Kubernetes writes them."""

    name: str
    cpu: str = DEFAULT_CPU
    memory: str = DEFAULT_MEMORY
    numa_count: int = DEFAULT_NUMA
    labels: Mapping[str, str] = field(default_factory=dict)
    cards: tuple[SimulatedCards, ...] = ()

    @property
    def card_count(self) -> int:
        """How many cards it has."""
        return sum(cards.count for cards in self.cards)

    def simulated_cards(self) -> tuple[SimulatedCard, ...]:
        """Its cards, for the simulated driver."""
        groups = [(cards.model, cards.count) for cards in self.cards]
        numa_nodes: list[int | None] = []
        for cards in self.cards:
            numa_nodes += cards.numa if cards.numa is not None else [None] * cards.count
        made = simulated_cards(groups, node_name=self.name, numa_nodes=self.numa_count)
        return tuple(
            card if numa is None else replace(card, device=replace(card.device, numa_node=numa))
            for card, numa in zip(made, numa_nodes, strict=True)
        )


DEFAULT_NODES: Final = (
    SimulatedNode(name="node-a", cards=(SimulatedCards(model="A100-80GB", count=4),)),
    SimulatedNode(name="node-b", cards=(SimulatedCards(model="V100-32GB", count=2),)),
    SimulatedNode(
        name="node-c",
        cpu="32",
        memory="128Gi",
        cards=(SimulatedCards(model="T4"), SimulatedCards(model="L40S")),
    ),
    SimulatedNode(name="node-d", cpu="16", memory="64Gi"),
)
"""Four nodes of mixed cards, one of them without any."""


def load_nodes(path: Path) -> tuple[SimulatedNode, ...]:
    """The nodes that the file describes. Raises `SettingsError` for anything it cannot mean."""
    entries: list[Any] = []
    for document in load_documents(path):
        if isinstance(document, dict) and set(document) == {"nodes"}:
            entries += _list(document["nodes"], f"{path}: nodes")
        else:
            entries += document if isinstance(document, list) else [document]
    if not 1 <= len(entries) <= MAX_NODES:
        raise SettingsError(f"{path} has {len(entries)} nodes, not 1 to {MAX_NODES}", hint=_HINT)
    nodes = tuple(_node(entry, f"{path}: nodes[{at}]") for at, entry in enumerate(entries))
    names = [node.name for node in nodes]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise SettingsError(
            f"{path} names the node {doubled[0]!r} twice", hint="give each node a name of its own"
        )
    return nodes


def _node(entry: Any, where: str) -> SimulatedNode:
    found = _object(entry, where, _NODE_FIELDS)
    name = found.get("name")
    if not isinstance(name, str) or not _DOMAIN.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise _wrong(f"{where}.name", name, "a name of lower-case letters, digits, - and .")
    numa_count = found.get("numa", DEFAULT_NUMA)
    if not _is_whole(numa_count) or not 0 <= numa_count <= MAX_NUMA:
        raise _wrong(f"{where}.numa", numa_count, f"a number of NUMA nodes from 0 to {MAX_NUMA}")
    cards = tuple(
        _cards(card, f"{where}.cards[{at}]")
        for at, card in enumerate(_list(found.get("cards"), f"{where}.cards"))
    )
    for at, group in enumerate(cards if "numa" in found else ()):
        if group.numa and max(group.numa) >= numa_count:
            raise _wrong(
                f"{where}.cards[{at}].numa", max(group.numa), f"less than the node's {numa_count}"
            )
    node = SimulatedNode(
        name=name,
        cpu=_amount(found.get("cpu", DEFAULT_CPU), f"{where}.cpu", at_least=0),
        memory=_amount(found.get("memory", DEFAULT_MEMORY), f"{where}.memory", at_least=MIB),
        numa_count=numa_count,
        labels=_labels(found.get("labels") or {}, f"{where}.labels"),
        cards=cards,
    )
    if node.card_count > MAX_CARDS:
        raise _wrong(f"{where}.cards", f"{node.card_count} cards", f"at most {MAX_CARDS}")
    return node


def _labels(found: Any, where: str) -> dict[str, str]:
    if not isinstance(found, dict):
        raise _wrong(where, found, "an object")
    for key, value in found.items():
        place = f"{where}[{key}]"
        if not isinstance(key, str) or not isinstance(value, str):
            raise _wrong(place, value, "a text; put it in quotes")
        domain, slash, name = key.rpartition("/")
        if not _LABEL.fullmatch(name) or (slash and not _DOMAIN.fullmatch(domain)):
            raise _wrong(f"{where}: the key", key, "a label's, such as zone or example.com/zone")
        if value and not _LABEL.fullmatch(value):
            raise _wrong(place, value, "a label's value: letters, digits, -, _ and ., at most 63")
    return found


def _cards(entry: Any, where: str) -> SimulatedCards:
    found = _object(entry, where, _CARD_FIELDS)
    model, count, numa = found.get("model"), found.get("count", 1), found.get("numa")
    if not isinstance(model, str):
        raise _wrong(f"{where}.model", model, "the name of a card, such as T4")
    try:
        card_model(model)
    except SettingsError as error:
        raise SettingsError(f"{where}.model: {error.message}", hint=error.hint) from error
    if not _is_whole(count) or not 0 <= count <= MAX_CARDS:
        raise _wrong(f"{where}.count", count, f"a whole number from 0 to {MAX_CARDS}")
    if numa is None:
        return SimulatedCards(model=model, count=count)
    nodes = numa if isinstance(numa, list) else [numa] * count
    if len(nodes) != count or not all(_is_whole(n) and 0 <= n <= MAX_NUMA for n in nodes):
        raise _wrong(
            f"{where}.numa", numa, f"a number from 0 to {MAX_NUMA}, or a list of {count} of them"
        )
    return SimulatedCards(model=model, count=count, numa=tuple(nodes))


def _amount(found: Any, where: str, *, at_least: int) -> str:
    text = str(found)
    try:
        value = Fraction(0) if isinstance(found, bool) else parse_quantity(text).value
    except QuantityError:
        value = Fraction(0)
    if value <= 0 or value < at_least:
        what = "memory in bytes, such as 256Gi" if at_least else "a number of cores, such as 64"
        raise _wrong(where, found, what)
    return text


def _object(entry: Any, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise _wrong(where, entry, "an object")
    found = {str(key).lower(): value for key, value in entry.items()}
    unknown = [key for key in found if key not in known]
    if unknown or len(found) < len(entry):
        problem = f"the unknown field {unknown[0]!r}" if unknown else "a field twice"
        raise SettingsError(f"{where} has {problem}; known are {', '.join(known)}", hint=_HINT)
    return found


def _list(found: Any, where: str) -> list[Any]:
    if not isinstance(found, list | None):
        raise _wrong(where, found, "a list")
    return found or []


def _is_whole(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _wrong(where: str, found: object, expected: str) -> SettingsError:
    shown = "missing" if found is None else f"{found!r}"
    return SettingsError(f"{where} is {shown}, expected {expected}", hint=_HINT)
