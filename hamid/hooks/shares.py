"""How fast each container may use a device at this moment: what is idle goes to who is busy. Pure.

Terms: promise = the core limit a container asked for; demand = what it would use now if it could;
rate = what its library is told, in thousandths of the device's time.

1. A hard-capped container gets its promise, never more.
2. A lending one never gets less than its promise, whatever others do: so it has it at once when it
   returns. What others leave idle, and what nobody was promised, goes to those who want more, in
   proportion to weight.
3. Those with priorities get what the firm promises above leave, class by class, the lowest number
   first; of one class first the promises, then by weight. Each lower one keeps a floor, unless it
   was decided that it may be stopped.
4. Whoever is told a rate finds it waiting before it uses it: what is reserved for the idle is only
   what they may take without asking. Until the next look, a device may so be promised twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Final

from hamid.hooks.abi.pages import CoreMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WHOLE: Final = 1000.0
"""A device's time, in its thousandths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A container on one device, as it is now; amounts are thousandths of the device's time.

    Attributes:
        promise: 0 where none was made.
        priority: 0 is the highest.
        is_active: it has work for the device.
        demand: `inf` if it had to wait lately.
    """

    mode: CoreMode
    promise: float
    weight: int = 1
    priority: int = 0
    is_active: bool = True
    demand: float = inf

    @property
    def wanted(self) -> float:
        """The demand of who is active."""
        return self.demand if self.is_active else 0.0


def rates(tenants: Sequence[Tenant], *, floor: float) -> tuple[float, ...]:
    """The rate of each tenant; of hard-capped ones the promise. 0: it has to stop.

    Args:
        tenants: all that there are on one device.
        floor: what those of lower priority keep; 0 lets them be stopped.
    """
    promises = _promises(tenants, floor)
    granted = dict.fromkeys(range(len(tenants)), 0.0)
    firm = [i for i, t in enumerate(tenants) if t.mode is not CoreMode.PRIORITY]
    for i in firm:
        granted[i] = min(tenants[i].wanted, promises[i])
    prioritised = [i for i, t in enumerate(tenants) if t.mode is CoreMode.PRIORITY]
    for i in prioritised:
        granted[i] = min(tenants[i].wanted, floor)
    left = max(0.0, WHOLE - sum(granted.values()))

    spare_after: dict[int, float] = {}
    for _, members in groupby(
        sorted(prioritised, key=lambda i: tenants[i].priority), lambda i: tenants[i].priority
    ):
        group = list(members)
        left = _fill(group, left, granted, lambda i: min(tenants[i].wanted, promises[i]), tenants)
        left = _fill(group, left, granted, lambda i: tenants[i].wanted, tenants)
        spare_after |= dict.fromkeys(group, left)
    lending = [i for i in firm if tenants[i].mode is CoreMode.LEND]
    _fill(lending, left, granted, lambda i: tenants[i].wanted, tenants)

    def rate(i: int) -> float:
        if tenants[i].mode is CoreMode.HARD:
            return promises[i]
        if tenants[i].mode is CoreMode.LEND:
            return max(promises[i], granted[i])
        return max(floor, granted[i]) + spare_after[i]

    return tuple(min(WHOLE, rate(i)) for i in range(len(tenants)))


def _promises(tenants: Sequence[Tenant], floor: float) -> list[float]:
    """The promises; what is promised to nobody is shared by those who lend without a promise."""
    unpromised = max(0.0, WHOLE - sum(t.promise for t in tenants))
    without = [t for t in tenants if not t.promise and t.mode is CoreMode.LEND]
    weights = sum(max(1, t.weight) for t in without)
    return [
        max(floor, unpromised * max(1, t.weight) / weights)
        if not t.promise and t.mode is CoreMode.LEND
        else t.promise
        for t in tenants
    ]


def _fill(
    group: list[int],
    left: float,
    granted: dict[int, float],
    wanted: Callable[[int], float],
    tenants: Sequence[Tenant],
) -> float:
    """Give the group up to what each wants, by weight; returns what is left over."""
    hungry = [i for i in group if wanted(i) > granted[i]]
    while hungry and left > 1e-9:  # noqa: PLR2004 - less is nothing
        weights = sum(max(1, tenants[i].weight) for i in hungry)
        portion = {i: left * max(1, tenants[i].weight) / weights for i in hungry}
        for i in hungry:
            given = min(portion[i], wanted(i) - granted[i])
            granted[i] += given
            left -= given
        still = [i for i in hungry if wanted(i) > granted[i] + 1e-9]
        if len(still) == len(hungry):
            break
        hungry = still
    return max(0.0, left)
