"""The value of a node by the formula of `fragmentation`, from the sums over its cards alone.

What a host has enough for counts card by card, and `cardstates` has added that up already; so only
asks for several cards, and those of which the host takes fewer than the cards do, are looked at one
by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.sched.placement.cardstates import LANE_BITS

if TYPE_CHECKING:
    from hamid.model.node import HostAmount
    from hamid.sched.placement.cardstates import CardStates
    from hamid.sched.placement.typical import Typical

_LANE: Final = (1 << LANE_BITS) - 1
_LANE_TOP: Final = 1 << (LANE_BITS - 1)
_UNBOUND: Final = _LANE_TOP - 1
"""More copies than a lane can hold."""
_HOSTS_KEPT: Final = 8_192
"""Amounts of one resource that are free; beyond, those of no node any more are most of them."""


class _Group:
    """The typical shapes with one and the same ask of cards."""

    __slots__ = ("count", "max_cpu", "max_memory", "members", "weight")

    def __init__(self, count: int) -> None:
        self.count = count
        self.weight = self.max_cpu = self.max_memory = 0
        self.members: list[tuple[int, int, int]] = []

    def add(self, host: HostAmount, weight: int) -> None:
        self.members.append((host.cpu_milli, host.memory_mib, weight))
        self.weight += weight
        self.max_cpu = max(self.max_cpu, host.cpu_milli)
        self.max_memory = max(self.max_memory, host.memory_mib)

    def held(self, count: int, cpu_milli: int, memory_mib: int) -> tuple[int, int]:
        """The weight of those of which some host takes any; and how many it takes, weighted.

        Args:
            count: how many the cards take of each.
            cpu_milli: free of the host.
            memory_mib: free of the host.
        """
        served = held = 0
        for cpu, memory, weight in self.members:
            most = count
            if cpu and cpu_milli < cpu * most:
                most = cpu_milli // cpu
            if memory and memory_mib < memory * most:
                most = memory_mib // memory
            if most:
                served += weight
                held += weight * most
        return served, held


class Formula:
    """The formula under one set of typical shapes.

    Args:
        typical: the shapes.
        states: those of the cards, under the same shapes.
    """

    def __init__(self, typical: Typical, states: CardStates) -> None:
        groups = {ask: _Group(ask.device_count) for ask, _ in states.asks}
        for shape, weight in typical.shapes:
            groups[shape.cards].add(shape.host, weight)
        self._groups = tuple(groups.values())
        width = len(groups) * LANE_BITS
        self._several = tuple(
            (lane * LANE_BITS, width + lane * LANE_BITS, 2 * width + lane * LANE_BITS, group)
            for lane, group in enumerate(self._groups)
            if group.count > 1
        )
        # Where a lane's top bit stays set, the host bounds the copies on the cards; see `_bound`.
        self._tops = sum(
            _LANE_TOP << lane * LANE_BITS
            for lane, group in enumerate(self._groups)
            if group.count == 1 and (group.max_cpu or group.max_memory)
        )
        self._least_by_cpu: dict[int, int] = {}
        self._least_by_memory: dict[int, int] = {}

    def doubled(self, lanes: int, space: int, plain: int, cpu_milli: int, memory_mib: int) -> int:
        """Twice the value of a node with these sums over its cards, and so much of the host free.

        That of a roomy host, with asks for single cards alone, is the sum over the cards; only
        what departs from that is worked out ask by ask.
        """
        if not space:
            return 0
        cpu, memory = max(cpu_milli, 0), max(memory_mib, 0)
        total = plain
        for copies_at, unfit_at, taken_at, group in self._several:
            weight, size = group.weight, group.count
            cards = lanes >> copies_at & _LANE
            count = cards // size
            if not count:
                total += 2 * weight * space
                continue
            unfit, taken = lanes >> unfit_at & _LANE, lanes >> taken_at & _LANE
            served, held = weight, weight * count
            if group.max_cpu * count > cpu or group.max_memory * count > memory:
                served, held = group.held(count, cpu, memory)
            total += served * unfit + (2 * weight - served) * space - taken * size * held // cards
        bound = self._bound(lanes, cpu, memory)
        width = len(self._groups) * LANE_BITS
        while bound:
            top = (bound & -bound).bit_length()
            bound &= bound - 1
            group = self._groups[top // LANE_BITS - 1]
            shift = top - LANE_BITS
            count = lanes >> shift & _LANE
            unfit, taken = lanes >> shift + width & _LANE, lanes >> shift + 2 * width & _LANE
            served, held = group.held(count, cpu, memory)
            total += (group.weight - served) * (space - unfit)
            total += taken * group.weight - taken * held // count
        return total

    def _bound(self, lanes: int, cpu: int, memory: int) -> int:
        """The top bits of the lanes of asks of which the cards take more than the host does.

        Each lane's copies, with the top bit on, less one more than the least that the host takes
        of any shape with that ask: the top bit stays where there are at least as many copies.
        """
        tops = self._tops
        if not tops:
            return 0
        least_by_cpu = self._least_by_cpu.get(cpu)
        if least_by_cpu is None:
            least_by_cpu = self._least(self._least_by_cpu, cpu, [g.max_cpu for g in self._groups])
        least_by_memory = self._least_by_memory.get(memory)
        if least_by_memory is None:
            asked = [g.max_memory for g in self._groups]
            least_by_memory = self._least(self._least_by_memory, memory, asked)
        topped = lanes | tops
        return ((topped - least_by_cpu) | (topped - least_by_memory)) & tops

    def _least(self, known: dict[int, int], free: int, asked: list[int]) -> int:
        if len(known) >= _HOSTS_KEPT:
            known.clear()
        least = 0
        for lane, amount in enumerate(asked):
            if self._tops >> lane * LANE_BITS & _LANE:
                most = min(free // amount, _UNBOUND - 1) if amount else _UNBOUND - 1
                least |= most + 1 << lane * LANE_BITS
        known[free] = least
        return least
