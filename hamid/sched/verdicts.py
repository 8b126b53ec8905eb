"""The last decisions, one a pod, for people who ask why."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest, PolicyName
    from hamid.sched.placement.place import NodePlacement
    from hamid.sched.placement.typical import Typical

RUNNERS_UP_KEPT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """A node that would do, how full it would be, and what each policy says of it.

    Attributes:
        load_ppm: see `placement.policy`.
        costs: one for each of the verdict's policies, and that of the host; the smaller the better.
    """

    node_name: str
    load_ppm: int
    costs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was decided for a pod at its last filter.

    Attributes:
        decided_at_s: seconds since the epoch.
        node_name: the chosen node; empty when no node fits.
        sentence: why it was not placed; empty when it was.
        node_policies: those by which nodes were ranked, the first counting first.
        fitting_count: nodes that would do.
        best: the chosen node and its runners-up.
        reasons: sentence → number of nodes that refuse with it.
    """

    pod_uid: str
    pod_key: str
    decided_at_s: float
    node_name: str = ""
    sentence: str = ""
    node_policies: tuple[PolicyName, ...] = ()
    fitting_count: int = 0
    best: tuple[NodeLoad, ...] = ()
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a decision was taken on, so that its terms can be worked out when somebody asks.

    Attributes:
        considered: the chosen node and its runners-up as they were before, with what the pod got
            or would have got there.
        typical: what usually came then.
    """

    request: PodRequest
    considered: tuple[tuple[NodeSnapshot, NodePlacement], ...] = ()
    typical: Typical


def counted(sentences: Mapping[str, str]) -> Mapping[str, int]:
    """How many nodes say each sentence, the most frequent first."""
    return dict(sorted(Counter(sentences.values()).items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What verdict and scene are made of when somebody asks; most are never asked for.

    Attributes:
        considered: the chosen node and its runners-up as they were before.
        ranked: what the pod got, or would have got, on each of these.

    For all others see `Verdict` and `Scene`.
    """

    request: PodRequest
    decided_at_s: float
    sentence: str
    node_policies: tuple[PolicyName, ...]
    fitting_count: int
    considered: tuple[NodeSnapshot, ...]
    ranked: Sequence[NodePlacement]
    reasons: Mapping[str, int]
    typical: Typical

    def verdict(self) -> Verdict:
        """What was decided."""
        return Verdict(
            pod_uid=self.request.pod_uid,
            pod_key=self.request.pod_key,
            decided_at_s=self.decided_at_s,
            node_name=self.considered[0].node_name if self.considered else "",
            sentence=self.sentence,
            node_policies=self.node_policies,
            fitting_count=self.fitting_count,
            best=tuple(
                NodeLoad(node_name=found.node_name, load_ppm=found.load_ppm, costs=found.cost)
                for found in self.ranked
            ),
            reasons=self.reasons,
        )

    def scene(self) -> Scene:
        """What it was decided on."""
        return Scene(
            request=self.request,
            considered=tuple(zip(self.considered, self.ranked, strict=True)),
            typical=self.typical,
        )


class Verdicts:
    """The newest decision on each of the last pods; the oldest make room."""

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._by_uid: OrderedDict[str, Decision] = OrderedDict()

    def put(self, decision: Decision) -> None:
        """Keep this one for its pod."""
        pod_uid = decision.request.pod_uid
        self._by_uid[pod_uid] = decision
        self._by_uid.move_to_end(pod_uid)
        while len(self._by_uid) > self._capacity:
            self._by_uid.popitem(last=False)

    def verdict(self, pod_uid: str) -> Verdict | None:
        """What was last decided for the pod."""
        found = self._by_uid.get(pod_uid)
        return None if found is None else found.verdict()

    def scene(self, pod_uid: str) -> Scene | None:
        """What that was decided on."""
        found = self._by_uid.get(pod_uid)
        return None if found is None else found.scene()

    def all(self) -> tuple[Verdict, ...]:
        """All that are kept, the newest first."""
        return tuple(decision.verdict() for decision in reversed(self._by_uid.values()))
