"""Why a quota keeps a pod away from nodes whose cards would do: in numbers, and as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hamid.sched.placement.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.model.quota import Overdraft

WAY_OUT = "wait until pods of the namespace end, ask for less, or have the quota raised"


class QuotaRefusal(Refusal):
    """What is said of each node where the pod would be charged more than its quotas leave.

    It counts as hopeless: eviction from a node makes no room in a quota.

    Args:
        namespace: of the pod.
        overdrafts: at least one.
    """

    __slots__ = ("namespace", "overdrafts")

    def __init__(self, namespace: str, overdrafts: Sequence[Overdraft]) -> None:
        super().__init__(())
        self.namespace = namespace
        self.overdrafts = tuple(overdrafts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, QuotaRefusal)
            and self.namespace == other.namespace
            and self.overdrafts == other.overdrafts
        )

    def __hash__(self) -> int:
        return hash((self.namespace, self.overdrafts))

    def __repr__(self) -> str:
        return f"QuotaRefusal({self.namespace!r}, {self.overdrafts!r})"

    @property
    def sentence(self) -> str:
        """For people: what the quotas allow, what is used, what is asked, and what to do."""
        return f"{waiting_sentence(self.namespace, self.overdrafts)}; {WAY_OUT}"


def waiting_sentence(namespace: str, overdrafts: Sequence[Overdraft]) -> str:
    """Why a pod has to wait for its quotas."""
    return f"quota of namespace {namespace}: " + " and ".join(map(overdraft_clause, overdrafts))


def overdraft_clause(over: Overdraft) -> str:
    """One of them, such as `limits.nvidia.com/gpumem in ResourceQuota cards allows 4096 …`."""
    limit = over.bound.limit
    least = "at least " if over.is_least else ""
    return (
        f"{limit.key} in ResourceQuota {over.bound.quota_name} allows {limit.hard} "
        f"{limit.resource.value}, {over.bound.used} used, {least}{over.asked} asked"
    )


def missing_clause(overdrafts: Sequence[Overdraft]) -> str:
    """What the quotas would have to leave: `its quotas must leave at least 904 MiB … more`."""
    said = (f"{over.excess} {over.bound.limit.resource.value} more" for over in overdrafts)
    return f"its quotas must leave at least {' and '.join(said)}"


def never_sentence(namespace: str, overdrafts: Sequence[Overdraft]) -> str:
    """Why a pod could not even run if it were alone in its namespace."""
    said = " and ".join(
        f"asks for {'at least ' if over.is_least else ''}{over.asked} "
        f"{over.bound.limit.resource.value} in all, but {over.bound.limit.key} in ResourceQuota "
        f"{over.bound.quota_name} allows namespace {namespace} {over.bound.limit.hard}"
        for over in overdrafts
    )
    return f"the pod {said}, so that it would never run; ask for less, or have the quota raised"
