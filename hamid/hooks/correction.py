"""How far a library's measure of GPU time is off, by NVML's figures. Pure.

The library measures by events, which see what passes, not what the card did: other processes'
slices are in it, and the host's pauses in short kernels. So once a second what it charged is
compared with what the driver saw its processes use, and the container's rate is multiplied by the
quotient.

What it charged is a claim of the container. Therefore, whatever it claims, whoever was seen to use
more than it may gets less.

The driver's figures are late, by up to a window. So where a rate was changed, what was seen may be of
the rate before: then nothing is concluded, but from more than either allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 1.0
FACTOR_MIN: Final = 0.25
FACTOR_MAX: Final = 4.0
SMALLEST_PERCENT: Final = 2.0
"""Below, whole percents say nothing."""
KEPT: Final = 0.5
"""How much of the old factor stays."""
LATE_WINDOWS: Final = 1
FADING: Final = 0.1
"""How much of a factor is forgotten in a window that says nothing."""
STEADY: Final = 0.3
"""A rate that changes by less of itself is the same."""
TOLERATED_PERCENT: Final = 1.5
"""Above the share, before claims are overruled."""


@dataclass(slots=True, kw_only=True)
class Correction:
    """The factor of one container on one device, and what was seen in this window."""

    factor: float = 1.0
    used_percent: float = 0.0
    """Of the device's time in the last window: as the driver saw it, else as it was charged."""
    _began_ns: int = 0
    _charged_ns: int = 0
    _observed_percent: float = 0.0
    _observations: int = 0
    _allowed_percent: float = 0.0
    _looks: int = 0
    _allowed_before: tuple[float, ...] = ()
    """In the windows before this, as many as the driver may be late."""
    _has_seen_one: bool = False
    """What ran in the first window may have been launched before anybody decided, and so uncharged."""

    def allow(self, permille: float) -> None:
        """Note the rate of this moment, as it was before the correction."""
        self._allowed_percent += permille / 10
        self._looks += 1

    def observe(self, gpu_percent: float) -> None:
        """Note what the driver saw all processes of the container use."""
        self._observed_percent += gpu_percent
        self._observations += 1

    def close_window(self, charged_ns: int, now_ns: int) -> None:
        """Correct, if the window is over; `charged_ns` is all that was ever charged."""
        length_ns = now_ns - self._began_ns
        if length_ns < WINDOW_S * 1e9:
            return
        charged = 100 * (charged_ns - self._charged_ns) / length_ns
        observed = self._observed_percent / self._observations if self._observations else None
        self.used_percent = min(100.0, max(0.0, charged if observed is None else observed))
        if self._looks:
            allowed = (self._allowed_percent / self._looks, *self._allowed_before)
            if self._has_seen_one and observed is not None:
                self.factor = _corrected(
                    self.factor, charged=charged, observed=observed, allowed=allowed
                )
            self._allowed_before = allowed[:LATE_WINDOWS]
        self._has_seen_one = self._began_ns > 0
        self._began_ns, self._charged_ns = now_ns, charged_ns
        self._observed_percent = self._allowed_percent = 0.0
        self._observations = self._looks = 0


def _corrected(
    factor: float, *, charged: float, observed: float, allowed: tuple[float, ...]
) -> float:
    if observed < SMALLEST_PERCENT or charged < SMALLEST_PERCENT:
        return factor + FADING * (1 - factor)
    most = max(allowed)
    new = factor
    if most - min(allowed) <= STEADY * most:
        quotient = min(FACTOR_MAX, max(FACTOR_MIN, charged / observed))
        new = KEPT * factor + (1 - KEPT) * quotient
    if observed > most + TOLERATED_PERCENT:
        new = min(new, factor * most / observed)
    return min(FACTOR_MAX, max(FACTOR_MIN, new))
