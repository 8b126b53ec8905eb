"""Room that is being made for pods of high priority, and kept free for them.

A pod for which others are evicted does not have its cards yet: they end in their own time. Until
then nobody of lower or equal priority may take what becomes free there, or the eviction was in
vain. A nomination is no booking: the books still show the pods that leave. It is laid over the
nodes that others look at.

Invariants:

1. At most one nomination a pod; it ends when the pod is bound or gone, when it was placed, when its
   time is over, and when a pod of higher priority is to get of the same devices.
2. The pod itself, and those of higher priority, see the nodes without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hamid.sched.placement.place import with_allocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hamid.model.allocation import PodAllocation
    from hamid.model.node import NodeSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """What a pod gets as soon as the victims are gone.

    Attributes:
        victims: by UID.
        expires_at: a time of the clock.
    """

    allocation: PodAllocation
    priority: int
    victims: frozenset[str]
    expires_at: float

    @property
    def pod_uid(self) -> str:
        """Whose it is."""
        return self.allocation.pod_uid

    @property
    def node_name(self) -> str:
        """Where."""
        return self.allocation.node_name

    def overtakes(self, other: Nomination) -> bool:
        """Whether it takes devices that were kept for another of lower priority."""
        return (
            self.node_name == other.node_name
            and self.priority > other.priority
            and not self.allocation.device_uuids.isdisjoint(other.allocation.device_uuids)
        )


class _Laid(NamedTuple):
    node: NodeSnapshot
    uids: tuple[str, ...]
    result: NodeSnapshot


class Nominations:
    """All nominations.

    Args:
        clock: monotonic.
        freed: told the node's name when one ends.
    """

    def __init__(self, *, clock: Callable[[], float], freed: Callable[[str], None]) -> None:
        self._clock = clock
        self._freed = freed
        self._by_uid: dict[str, Nomination] = {}
        self._laid: dict[str, _Laid] = {}

    def __iter__(self) -> Iterator[Nomination]:
        return iter(tuple(self._by_uid.values()))

    def get(self, pod_uid: str) -> Nomination | None:
        """That of this pod."""
        return self._by_uid.get(pod_uid)

    def put(self, nomination: Nomination) -> tuple[str, ...]:
        """Keep room for its pod, instead of what was kept.

        Returns the pods for which none is kept any more: that is the room.
        """
        self.drop(nomination.pod_uid)
        overtaken = tuple(found.pod_uid for found in self if nomination.overtakes(found))
        for pod_uid in overtaken:
            self.drop(pod_uid)
        self._by_uid[nomination.pod_uid] = nomination
        return overtaken

    def drop(self, pod_uid: str) -> None:
        """Keep no room for the pod any more."""
        if (found := self._by_uid.pop(pod_uid, None)) is not None:
            self._laid.pop(found.node_name, None)
            self._freed(found.node_name)

    def clear(self) -> None:
        """Keep room for nobody."""
        self._by_uid.clear()
        self._laid.clear()

    def keep_only(self, is_waiting: Callable[[str], bool]) -> None:
        """Drop those whose time is over, and those of pods that wait no more."""
        now = self._clock()
        for found in self:
            if found.expires_at <= now or not is_waiting(found.pod_uid):
                self.drop(found.pod_uid)

    def victims(self) -> frozenset[str]:
        """Everybody who is evicted for somebody."""
        return frozenset(uid for found in self for uid in found.victims)

    def before(self, pod_uid: str, priority: int) -> tuple[Nomination, ...]:
        """Those that this pod has to respect: not its own, and of no lower priority."""
        now = self._clock()
        return tuple(
            found
            for found in self._by_uid.values()
            if found.pod_uid != pod_uid and found.priority >= priority and found.expires_at > now
        )

    def laid_over(
        self, nodes: Mapping[str, NodeSnapshot], *, pod_uid: str, priority: int
    ) -> Mapping[str, NodeSnapshot]:
        """The nodes as this pod has to see them; the same value where nothing is in its way."""
        in_the_way: dict[str, list[Nomination]] = {}
        for found in self.before(pod_uid, priority):
            if found.node_name in nodes:
                in_the_way.setdefault(found.node_name, []).append(found)
        if not in_the_way:
            return nodes
        return {
            **nodes,
            **{name: self._lay(nodes[name], them) for name, them in in_the_way.items()},
        }

    def _lay(self, node: NodeSnapshot, them: list[Nomination]) -> NodeSnapshot:
        uids = tuple(found.pod_uid for found in them)
        laid = self._laid.get(node.node_name)
        if laid is not None and laid.node is node and laid.uids == uids:
            return laid.result  # the same value, by which scores are remembered
        result = node
        for found in them:
            result = with_allocation(result, found.allocation)
        self._laid[node.node_name] = _Laid(node, uids, result)
        return result
