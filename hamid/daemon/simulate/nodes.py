"""Simulated nodes: what a person writes of them, and the objects and cards that they become."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import cattrs
from cattrs.gen import make_dict_structure_fn

from hamid.daemon.simulate.manifests import load_documents
from hamid.errors import SettingsError
from hamid.nvml.profiles import card_model, simulated_cards

if TYPE_CHECKING:
    from pathlib import Path

    from hamid.kube.port import JsonObject
    from hamid.model.names import ResourceNames
    from hamid.nvml.profiles import SimulatedCard


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCards:
    """Some equal cards of a node; `numa` is the NUMA node of all of them."""

    model: str
    count: int = 1
    numa: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """A node as nodes.yaml describes it."""

    name: str
    cpu: str = "64"
    memory: str = "256Gi"
    labels: dict[str, str] = field(default_factory=dict)
    cards: list[SimulatedCards] = field(default_factory=list)

    def simulated_cards(self) -> tuple[SimulatedCard, ...]:
        """Its cards, for the simulated driver; without `numa` they are spread over two nodes."""
        groups = [(cards.model, cards.count) for cards in self.cards]
        numa_nodes = [cards.numa for cards in self.cards for _ in range(cards.count)]
        made = simulated_cards(groups, node_name=self.name)
        return tuple(
            card if numa is None else replace(card, device=replace(card.device, numa_node=numa))
            for card, numa in zip(made, numa_nodes, strict=True)
        )

    def node_object(self, *, slot_count: int, names: ResourceNames) -> JsonObject:
        """The Node object, as its kubelet would keep it once the device plugin registered."""
        cards = sum(entry.count for entry in self.cards)
        amounts = {"cpu": self.cpu, "memory": self.memory, "pods": "250"}
        if cards:
            amounts[names.count] = str(cards * slot_count)
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {"kubernetes.io/hostname": self.name, "gpu": "on", **self.labels},
            },
            "spec": {},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "nodeInfo": {"kubeletVersion": "v1.37.0-simulated"},
            },
        }


DEFAULT_NODES = (
    SimulatedNode(name="node-a", cards=[SimulatedCards(model="A100-80GB", count=4, numa=0)]),
    SimulatedNode(name="node-b", cards=[SimulatedCards(model="V100-32GB", count=2, numa=0)]),
    SimulatedNode(
        name="node-c",
        cards=[SimulatedCards(model="T4", numa=0), SimulatedCards(model="L40S", numa=1)],
    ),
    SimulatedNode(name="node-d", cpu="16", memory="64Gi"),
)
"""Four nodes of mixed cards, one of them without any."""


def load_nodes(path: Path) -> tuple[SimulatedNode, ...]:
    """The nodes that the file describes: a list, or an object with the list under `nodes`."""
    documents = load_documents(path)
    entries: list[object] = []
    for document in documents:
        listed = document.get("nodes") if isinstance(document, dict) else None
        entries += document if isinstance(document, list) else listed or [document]
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (SimulatedCards, SimulatedNode):
        converter.register_structure_hook(kind, make_dict_structure_fn(kind, converter))
    try:
        nodes = converter.structure(entries, tuple[SimulatedNode, ...])
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        raise SettingsError(
            f"{path}: {'; '.join(cattrs.transform_error(error, path='nodes'))}",
            hint="a node has name, cpu, memory, labels, and cards of model, count, numa",
        ) from error
    _require_sense(path, nodes)
    return nodes


def _require_sense(path: Path, nodes: tuple[SimulatedNode, ...]) -> None:
    names = [node.name for node in nodes]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled or not nodes:
        raise SettingsError(
            f"{path} names {', '.join(doubled)} twice" if doubled else f"{path} has no node",
            hint="give each node a name of its own",
        )
    for node in nodes:
        for cards in node.cards:
            card_model(cards.model)
        node.simulated_cards()
