"""Leader election, decided from values: the rules of client-go's leaderelection package.

What it does not give: fencing. A leader that is stopped for longer than its lease may still act
once it goes on; so it must ask whether it may still act before each write, and writes are guarded
by preconditions besides. Only our own clock is trusted: a record counts as expired when *we* have
seen it unchanged for its duration, whatever times are written in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hamid.errors import SettingsError

JITTER_FACTOR: Final = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """How long a lease lasts, in seconds; `lease > renew deadline > retry × 1.2`."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration_s <= self.renew_deadline_s:
            raise SettingsError(
                f"lease_duration_s {self.lease_duration_s} must exceed renew_deadline_s "
                f"{self.renew_deadline_s}",
                hint="a leader must notice that it lost the lease before another may take it",
            )
        if self.renew_deadline_s <= self.retry_period_s * JITTER_FACTOR:
            raise SettingsError(
                f"renew_deadline_s {self.renew_deadline_s} must exceed retry_period_s "
                f"{self.retry_period_s} × {JITTER_FACTOR}",
                hint="a leader needs time for at least two tries to renew",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What the Lease object says; `holder_identity` is empty when nobody holds it."""

    holder_identity: str
    lease_duration_s: float
    renewed_at: str
    transitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A record and when, by our own monotonic clock, we first saw it as it is."""

    record: LeaseRecord | None
    observed_at_s: float


class LeaseStep(StrEnum):
    """What to do next about the lease."""

    CREATE = "create"
    ACQUIRE = "acquire"
    RENEW = "renew"
    WAIT = "wait"


def observe(
    previous: Observation | None, record: LeaseRecord | None, *, now_s: float
) -> Observation:
    """The observation after reading the record now: an unchanged one keeps its time."""
    if previous is not None and previous.record == record:
        return previous
    return Observation(record=record, observed_at_s=now_s)


def next_step(observation: Observation, *, identity: str, now_s: float) -> LeaseStep:
    """What this replica should do, given what it has observed."""
    record = observation.record
    if record is None:
        return LeaseStep.CREATE
    if record.holder_identity == identity:
        return LeaseStep.RENEW
    is_held = bool(record.holder_identity)
    if is_held and now_s < observation.observed_at_s + record.lease_duration_s:
        return LeaseStep.WAIT
    return LeaseStep.ACQUIRE
