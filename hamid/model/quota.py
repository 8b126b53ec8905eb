"""What a namespace may take: quotas, whom they bind, and what is charged.

A quota is a ResourceQuota with HAMi's keys `limits.<resource>`. The API server stores these and
counts nothing by them, so that all counting is ours. A pod is charged for what it was given, from
the decision about it until it ends; one that waits is charged nothing:

    cards    the devices of its containers, added up
    memory   MiB of the devices that were really chosen, so count × per card, and a percentage in
             MiB of that card
    cores    percent of these devices

Containers add up as in `model.allocation`, but over the whole pod and not card by card, as
Kubernetes counts quotas: an init container that has another card than the app is not added to it.

Every quota of the namespace whose scopes match the pod holds; so the tightest counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, assert_never

from hamid.model.allocation import peak
from hamid.model.quantities import MemoryMib, resolve_memory_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hamid.model.allocation import PodAllocation
    from hamid.model.request import ContainerRequest, PodRequest


class QuotaResource(StrEnum):
    """What can be limited; the value says what an amount of it is."""

    CARDS = "cards"
    MEMORY_MIB = "MiB of card memory"
    CORE_PERCENT = "% of card cores"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one pod, or all pods under a quota, are charged."""

    cards: int = 0
    memory_mib: int = 0
    core_percent: int = 0

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            cards=self.cards + other.cards,
            memory_mib=self.memory_mib + other.memory_mib,
            core_percent=self.core_percent + other.core_percent,
        )

    def __sub__(self, other: Charge) -> Charge:
        return Charge(
            cards=self.cards - other.cards,
            memory_mib=self.memory_mib - other.memory_mib,
            core_percent=self.core_percent - other.core_percent,
        )

    def of(self, resource: QuotaResource) -> int:
        """The amount of this resource."""
        match resource:
            case QuotaResource.CARDS:
                return self.cards
            case QuotaResource.MEMORY_MIB:
                return self.memory_mib
            case QuotaResource.CORE_PERCENT:
                return self.core_percent
            case _:
                assert_never(resource)

    def most(self, other: Charge) -> Charge:
        """The greater of both, resource by resource."""
        return Charge(
            cards=max(self.cards, other.cards),
            memory_mib=max(self.memory_mib, other.memory_mib),
            core_percent=max(self.core_percent, other.core_percent),
        )


NO_CHARGE: Final = Charge()


def charge(allocation: PodAllocation, *, is_initialized: bool = False) -> Charge:
    """What the pod is charged for what it was given.

    Args:
        allocation: all of it.
        is_initialized: its init phase is over, so that plain init containers are charged no more.
    """
    return peak(
        (
            (
                container.kind,
                Charge(
                    cards=len(container.shares),
                    memory_mib=sum(share.memory_mib for share in container.shares),
                    core_percent=sum(share.core_percent for share in container.shares),
                ),
            )
            for container in allocation.containers
        ),
        nothing=NO_CHARGE,
        is_initialized=is_initialized,
    )


def least_charge(request: PodRequest) -> Charge:
    """The least that the pod would be charged, wherever it came to be.

    It is what it will be charged, unless it asks for a percentage: that is at least 1 MiB.
    """
    return charge_on(request, device_memory_mib=0)


def charge_on(request: PodRequest, *, device_memory_mib: int) -> Charge:
    """What the pod would be charged for devices with so much memory."""
    return peak(
        ((asking.kind, _charge_on(asking, device_memory_mib)) for asking in request.requests),
        nothing=NO_CHARGE,
    )


def is_charge_fixed(request: PodRequest) -> bool:
    """Whether the pod is charged the same on any card."""
    return all(isinstance(asking.memory, MemoryMib) for asking in request.requests)


def _charge_on(asking: ContainerRequest, device_memory_mib: int) -> Charge:
    per_card_mib = resolve_memory_mib(asking.memory, device_memory_mib=device_memory_mib)
    return Charge(
        cards=asking.device_count,
        memory_mib=asking.device_count * per_card_mib,
        core_percent=asking.device_count * asking.core_percent,
    )


class ScopeName(StrEnum):
    """The scopes of Kubernetes that speak of pods."""

    TERMINATING = "Terminating"
    NOT_TERMINATING = "NotTerminating"
    BEST_EFFORT = "BestEffort"
    NOT_BEST_EFFORT = "NotBestEffort"
    PRIORITY_CLASS = "PriorityClass"
    CROSS_NAMESPACE_AFFINITY = "CrossNamespacePodAffinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """Who is charged for a pod, and what scopes ask of it.

    Attributes:
        is_terminating: its run time is limited (`activeDeadlineSeconds`).
        is_best_effort: no container asks for processors or main memory.
        is_cross_namespace: an affinity of it speaks of pods of other namespaces.
        priority_class: empty where it has none.
    """

    namespace: str
    is_terminating: bool = False
    is_best_effort: bool = False
    is_cross_namespace: bool = False
    priority_class: str = ""


_SCOPES: Final[Mapping[ScopeName, Callable[[Payer], bool]]] = {
    ScopeName.TERMINATING: lambda payer: payer.is_terminating,
    ScopeName.NOT_TERMINATING: lambda payer: not payer.is_terminating,
    ScopeName.BEST_EFFORT: lambda payer: payer.is_best_effort,
    ScopeName.NOT_BEST_EFFORT: lambda payer: not payer.is_best_effort,
    ScopeName.CROSS_NAMESPACE_AFFINITY: lambda payer: payer.is_cross_namespace,
}


class Operator(StrEnum):
    """How a scope is compared."""

    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    IN = "In"
    NOT_IN = "NotIn"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRule:
    """One condition for a quota to bind a pod; only priority classes have other operators.

    Attributes:
        scope: None for a scope that speaks of no pod, or that we do not know: it matches none.
    """

    scope: ScopeName | None
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()

    def matches(self, payer: Payer) -> bool:
        """Whether the pod is in the scope."""
        if self.scope is ScopeName.PRIORITY_CLASS:
            return self._matches_class(payer.priority_class)
        return self.scope is not None and _SCOPES[self.scope](payer)

    def _matches_class(self, name: str) -> bool:
        match self.operator:
            case Operator.EXISTS:
                return bool(name)
            case Operator.DOES_NOT_EXIST:
                return not name
            case Operator.IN:
                return bool(name) and name in self.values
            case Operator.NOT_IN:  # as of labels: also what there is none of
                return not name or name not in self.values
            case _:
                assert_never(self.operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One key of a quota, and what it allows."""

    key: str
    resource: QuotaResource
    hard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one ResourceQuota says of cards."""

    namespace: str
    name: str
    limits: tuple[Limit, ...]
    scopes: tuple[ScopeRule, ...] = ()

    def binds(self, payer: Payer) -> bool:
        """Whether the pod is counted and limited by it."""
        return payer.namespace == self.namespace and all(s.matches(payer) for s in self.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit of a quota and what is used of it."""

    quota_name: str
    limit: Limit
    used: int = 0

    @property
    def left(self) -> int:
        """What may still be charged; negative where the quota was lowered."""
        return self.limit.hard - self.used


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdraft:
    """A pod would be charged more than is left.

    Attributes:
        is_least: what is asked is the least that it can be; it may be more on larger cards.
    """

    bound: Bound
    asked: int
    is_least: bool = False

    @property
    def excess(self) -> int:
        """By how much."""
        return self.asked - self.bound.left


def tightest(quotas: Iterable[tuple[Quota, Charge]]) -> tuple[Bound, ...]:
    """The bound of each resource with the least left, where there is any; by resource.

    Args:
        quotas: those that bind the pod, and what is used of each.
    """
    found: dict[QuotaResource, Bound] = {}
    for quota, used in quotas:
        for limit in quota.limits:
            bound = Bound(quota_name=quota.name, limit=limit, used=used.of(limit.resource))
            known = found.get(limit.resource)
            if known is None or (bound.left, bound.quota_name) < (known.left, known.quota_name):
                found[limit.resource] = bound
    return tuple(found[resource] for resource in QuotaResource if resource in found)


def overdrafts(
    bounds: Sequence[Bound], asked: Charge, *, is_least: bool = False
) -> tuple[Overdraft, ...]:
    """Which of the bounds do not leave as much as is asked; what is not asked may be overdrawn."""
    return tuple(
        Overdraft(
            bound=bound,
            asked=amount,
            is_least=is_least and bound.limit.resource is QuotaResource.MEMORY_MIB,
        )
        for bound in bounds
        if (amount := asked.of(bound.limit.resource)) > max(bound.left, 0)
    )


def exceeding(request: PodRequest, quotas: Iterable[Quota]) -> tuple[Overdraft, ...]:
    """What the pod asks beyond what these allow in all, however little is used."""
    bounds = tightest((quota, NO_CHARGE) for quota in quotas)
    return overdrafts(bounds, least_charge(request), is_least=not is_charge_fixed(request))


def copies(bounds: Sequence[Bound], asked: Charge) -> int | None:
    """How many pods of this charge the bounds leave room for; None where they set no end."""
    counts = [
        max(bound.left, 0) // amount
        for bound in bounds
        if (amount := asked.of(bound.limit.resource))
    ]
    return min(counts, default=None)
