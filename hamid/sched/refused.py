"""Pods that were refused at their last try: what was known then, and where they may go at all.

The nodes that kube-scheduler showed us are those that all its own rules let the pod on. They are
a thousand names or so, and mostly the same ones for all pods, each time in another order: kept once.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.sched.news import News

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SETS_KEPT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTry:
    """How a pod's last try ended in vain.

    Attributes:
        serial: of `Freed` at that time: what was freed later was not looked at.
        node_names: those that kube-scheduler showed us.
        may_be_helped: on some of them it would fit if others ended.
    """

    serial: int
    node_names: frozenset[str]
    may_be_helped: bool = False


class Refused:
    """The last try of each pod that waits, by its UID.

    Attributes:
        helpable_count: counts the refusals of pods that may be helped.
    """

    def __init__(self) -> None:
        self._tries: dict[str, LastTry] = {}
        self._sets: OrderedDict[frozenset[str], frozenset[str]] = OrderedDict()
        self.helpable_count = 0
        self._news = News()

    def put(
        self,
        pod_uid: str,
        *,
        serial: int,
        node_names: tuple[str, ...],
        may_be_helped: bool = False,
    ) -> None:
        """The pod was refused."""
        self._tries[pod_uid] = LastTry(
            serial=serial, node_names=self._set_of(node_names), may_be_helped=may_be_helped
        )
        if may_be_helped:
            self.helpable_count += 1
            self._news.tell()

    async def wait(self, *, since: int, timeout_s: float) -> None:
        """Wait until more pods were refused that may be helped, but no longer than this."""
        await self._news.wait(lambda: self.helpable_count > since, timeout_s=timeout_s)

    def drop(self, pod_uid: str) -> None:
        """The pod was placed."""
        self._tries.pop(pod_uid, None)

    def keep_only(self, pod_uids: Collection[str]) -> None:
        """Forget all others: they are gone."""
        for pod_uid in [uid for uid in self._tries if uid not in pod_uids]:
            del self._tries[pod_uid]

    def clear(self) -> None:
        """Forget all: kube-scheduler asked another replica meanwhile, or nobody."""
        self._tries.clear()

    def tries(self) -> Mapping[str, LastTry]:
        """Those of all pods that were refused."""
        return self._tries

    def _set_of(self, names: tuple[str, ...]) -> frozenset[str]:
        fresh = frozenset(names)
        found = self._sets.setdefault(fresh, fresh)
        self._sets.move_to_end(found)
        if len(self._sets) > _SETS_KEPT:
            self._sets.popitem(last=False)
        return found
