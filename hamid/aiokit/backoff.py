"""Growing delays with jitter, for what is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Backoff:
    """The delays before the next tries: first, first·factor, … up to max, each with jitter.

    Attributes:
        first_s: the delay after the first failure.
        factor: growth per failure.
        max_s: the largest delay before jitter.
        jitter: the share of the delay by which it may be shortened, 0 to 1. Shortening keeps
            `max_s` a true bound, and spreads a thousand clients that failed together.
    """

    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 30.0
    jitter: float = 0.5
    rng: random.Random = field(default_factory=random.Random, repr=False)
    failures: int = 0

    def next_delay_s(self) -> float:
        """Count one more failure and return how long to wait before the next try."""
        delay_s = min(self.first_s * self.factor ** min(self.failures, 64), self.max_s)
        self.failures += 1
        return delay_s * (1.0 - self.jitter * self.rng.random())

    def reset(self) -> None:
        """Forget the failures: something worked."""
        self.failures = 0
