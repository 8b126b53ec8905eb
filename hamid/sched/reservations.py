"""Room kept in memory for pods that are not known to be bound; each with an end.

Why at all: between filter and bind, kube-scheduler already asks about the next pod. What this
one was offered must not be offered again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hamid.model.allocation import PodAllocation
    from hamid.model.quota import Payer


class Stage(StrEnum):
    """How far a decision has come."""

    RESERVED = "reserved"
    """Decided; kube-scheduler has not asked to bind yet."""
    SENT = "sent"
    """The API server was asked to bind; what became of it is unknown."""
    BOUND = "bound"
    """The API server has bound it; the watch has not shown it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Room kept for one pod, until a time of the cache's clock; `payer` as far as it is known."""

    allocation: PodAllocation
    stage: Stage
    expires_at: float
    payer: Payer | None = None

    @property
    def pod_uid(self) -> str:
        """Whose it is."""
        return self.allocation.pod_uid

    @property
    def is_in_doubt(self) -> bool:
        """Whether the pod may be bound already, so that no other place may be chosen for it."""
        return self.stage is not Stage.RESERVED


class Reservations:
    """At most one reservation a pod; looking whether any has expired costs one comparison."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_uid: dict[str, Reservation] = {}
        self._next_expiry_at = math.inf

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(tuple(self._by_uid.values()))

    def get(self, pod_uid: str) -> Reservation | None:
        """What is kept for the pod."""
        return self._by_uid.get(pod_uid)

    def put(
        self,
        allocation: PodAllocation,
        stage: Stage,
        payer: Payer | None = None,
        *,
        ttl_s: float,
    ) -> Reservation | None:
        """Keep this for the pod, instead of what was kept; returns that."""
        expires_at = self._clock() + ttl_s
        before = self._by_uid.get(allocation.pod_uid)
        self._by_uid[allocation.pod_uid] = Reservation(
            allocation=allocation, stage=stage, expires_at=expires_at, payer=payer
        )
        self._next_expiry_at = min(self._next_expiry_at, expires_at)
        return before

    def pop(self, pod_uid: str) -> Reservation | None:
        """Keep nothing for the pod; returns what was kept."""
        return self._by_uid.pop(pod_uid, None)

    def pop_expired(self) -> tuple[Reservation, ...]:
        """Keep those no longer whose time is over; returns them."""
        now = self._clock()
        if now < self._next_expiry_at:
            return ()
        expired = tuple(kept for kept in self._by_uid.values() if kept.expires_at <= now)
        for kept in expired:
            del self._by_uid[kept.pod_uid]
        self._next_expiry_at = min(
            (kept.expires_at for kept in self._by_uid.values()), default=math.inf
        )
        return expired

    def clear(self) -> None:
        """Keep nothing."""
        self._by_uid.clear()
        self._next_expiry_at = math.inf
