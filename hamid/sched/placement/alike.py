"""What a search has found on one node, told of all others in the same state.

Of a thousand nodes most are in a few dozen states: as many cards of the same kinds, with as much
promised on each, linked alike, on hosts with as much free. What is chosen there differs by the
devices' names alone, unless the pod asks for devices by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.sched.placement.place import NodePlacement
from hamid.sched.placement.refusal import AlikeRefusal, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from hamid.model.allocation import ContainerAllocation
    from hamid.model.node import NodeSnapshot
    from hamid.sched.placement.cardstates import Card

_KEPT: Final = 4_096


class _Found(NamedTuple):
    node: NodeSnapshot
    outcome: NodePlacement | Refusal


def state_of(node: NodeSnapshot, cards: tuple[Card, ...]) -> Hashable:
    """All of the node that a search looks at, but for names.

    Args:
        node: its devices in order.
        cards: their states, in the same order.
    """
    numa_nodes = tuple([usage.device.numa_node for usage in node.usages])
    return (cards, node.host_free, node.host_capacity, node.links, numa_nodes)


class Alike:
    """Outcomes of searches, by what was searched for and the state of the node."""

    def __init__(self) -> None:
        self._found: dict[Hashable, _Found] = {}

    def clear(self) -> None:
        """Forget them: the measure is another."""
        self._found.clear()

    def outcome(
        self,
        key: Hashable,
        node: NodeSnapshot,
        search: Callable[[NodeSnapshot], NodePlacement | Refusal],
    ) -> NodePlacement | Refusal:
        """Return what `search` returns for the node.

        Args:
            key: the shape of the request and the node's `state_of`.
            node: its devices in order.
            search: only called where no node in this state was searched before.
        """
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= _KEPT:
                self._found.clear()
            outcome = search(node)
            self._found[key] = _Found(node, outcome)
            return outcome
        if isinstance(known.outcome, NodePlacement):
            return _moved(known.outcome, known.node, node)
        return AlikeRefusal(known.outcome, lambda: _refusal(search(node)))


def _moved(found: NodePlacement, one: NodeSnapshot, other: NodeSnapshot) -> NodePlacement:
    """The placement on one node, on the devices of the other that stand in the same places."""
    uuids = {
        mine.device.device_uuid: its.device.device_uuid
        for mine, its in zip(one.usages, other.usages, strict=True)
    }

    def moved(container: ContainerAllocation) -> ContainerAllocation:
        shares = [
            replace(share, device_uuid=uuids[share.device_uuid]) for share in container.shares
        ]
        return replace(container, shares=tuple(shares))

    containers = tuple([moved(container) for container in found.containers])
    return replace(found, node_name=other.node_name, containers=containers)


def _refusal(outcome: NodePlacement | Refusal) -> Refusal:
    # Where another in this state refuses there is no placement.
    return outcome if isinstance(outcome, Refusal) else Refusal(())
