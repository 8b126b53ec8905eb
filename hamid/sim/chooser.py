"""Who chooses: the product's policies, behind the one door that baselines use, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from hamid.sched.placement.board import Board
from hamid.sched.placement.place import Placement, chosen_placement, lone_ask
from hamid.sched.placement.policy import BY_FRAGMENTATION
from hamid.sched.placement.rows import Placer
from hamid.sched.placement.typical import Arrivals

if TYPE_CHECKING:
    from hamid.model.allocation import ContainerAllocation
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.policy import Policies

_ROWS_KEPT: Final = 512
Chosen = tuple[str, "tuple[ContainerAllocation, ...]"]
"""A node, and what each container gets there."""


class Chooser(Protocol):
    """Told of every change of a node; asked about one pod at a time."""

    def put(self, node: NodeSnapshot) -> None:
        """The node is new, or has changed."""
        ...

    def choose(self, request: PodRequest) -> Chosen | None:
        """Where the pod goes; None where it fits nowhere."""
        ...


class ProductChooser:
    """The scheduler's choice, under some policies.

    Pods without cards are none of the extender's business in a cluster, where kube-scheduler places
    them alone; here they go where the measure says, under any policy.
    """

    def __init__(self, policies: Policies = BY_FRAGMENTATION) -> None:
        self._arrivals = Arrivals()
        self._board = Board(self._arrivals, rows_kept=_ROWS_KEPT)
        self._placer = Placer(policies=policies, arrivals=self._arrivals, rows_kept=_ROWS_KEPT)
        self._is_by_fragmentation = policies == BY_FRAGMENTATION
        self._nodes: dict[str, NodeSnapshot] = {}

    def put(self, node: NodeSnapshot) -> None:
        """The node is new, or has changed."""
        self._board.put(node)
        self._nodes[node.node_name] = node

    def choose(self, request: PodRequest) -> Chosen | None:
        """Where the pod goes; None where it fits nowhere."""
        if not request.requests:
            found = self._board.best(None, request.host)
            return None if found is None else (found[0].node_name, ())
        self._arrivals.observe(request)
        ask = lone_ask(request)
        if self._is_by_fragmentation and ask is not None:
            found = self._board.best(ask, request.host)
            if found is None:
                return None
            node, choice = found
            return node.node_name, chosen_placement(request, node, choice).containers
        return self._ranked(request)

    def _ranked(self, request: PodRequest) -> Chosen | None:
        room = {n: node for n, node in self._nodes.items() if node.has_host_for(request.host)}
        outcome = self._placer.place(request, room)
        if not isinstance(outcome, Placement):
            return None
        return outcome.best.node_name, outcome.best.containers
