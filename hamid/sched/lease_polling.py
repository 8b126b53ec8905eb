"""How often a follower looks at the Lease.

Often enough to follow a dead leader soon, and so seldom that a thousand followers together stay
under ten looks a second.

A few followers, the standbys, have signed up on the Lease and look every retry period. The others
look once in `slow_poll_s` each, spread over it, and therefore often when taken together. That
suffices to notice that leader *and* standbys are gone: between two looks the renewal time must
have moved on by as much as our own clock has. (Both are differences of one clock each: clocks
need not agree.) Who finds it behind looks again after the lease's duration and then, by the
ordinary rule, takes a lease that has not changed.

Looks per second with the defaults, at N followers: 3 / 2.2 s + N / 500 s, that is 3.4 at 1,000;
while a leader is gone, N / 500 s more. Time without a leader: at most a retry period and the
lease's duration, when a standby is left; otherwise three retry periods, `slow_poll_s` / N and the
lease's duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.codec.standbys import parse_micro_time
from hamid.model.lease import JITTER_FACTOR

if TYPE_CHECKING:
    import random

    from hamid.model.lease import LeaseRecord
    from hamid.sched.leader_settings import LeaseSettings

SUSPECT_AFTER_PERIODS: Final = 3
"""So many retry periods may a renewal be late: two looks may each fall just before one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at the lease has shown, and when by our own clock."""

    record: LeaseRecord
    at_s: float


def is_overdue(before: Look | None, now: Look, *, settings: LeaseSettings) -> bool:
    """Whether the holder has stopped to renew, judged by an earlier look at the same holder."""
    if before is None or _term(before) != _term(now):
        return False
    renewed_before_s = parse_micro_time(before.record.renewed_at)
    renewed_now_s = parse_micro_time(now.record.renewed_at)
    if renewed_before_s is None or renewed_now_s is None:
        return False
    behind_s = (now.at_s - before.at_s) - (renewed_now_s - renewed_before_s)
    return behind_s > SUSPECT_AFTER_PERIODS * settings.retry_period_s


def standby_delay_s(settings: LeaseSettings, rng: random.Random) -> float:
    """Until a standby's next look; the jitter keeps standbys apart."""
    return settings.retry_period_s * rng.uniform(1.0, JITTER_FACTOR)


def sign_up_delay_s(settings: LeaseSettings, rng: random.Random) -> float:
    """Until the next look of one who was too late to sign up: places may be left, or not."""
    return settings.retry_period_s * rng.uniform(1.0, 4.0)


def slow_delay_s(settings: LeaseSettings, rng: random.Random, *, is_first: bool) -> float:
    """Until the next look of anyone else; the first ones are spread over the whole interval."""
    return settings.slow_poll_s * (rng.random() if is_first else rng.uniform(0.75, 1.25))


def confirm_delay_s(settings: LeaseSettings, rng: random.Random) -> float:
    """Until the look that confirms a suspicion."""
    return settings.lease_duration_s + settings.retry_period_s * rng.random()


def _term(look: Look) -> tuple[str, int]:
    return look.record.holder_identity, look.record.transitions
