"""GPU time used on the simulated driver against the cap, in points. Takes about 13 minutes.

A kernel takes so long at each grid: what a wave of blocks takes is chosen for that. In the `grids`
cases one function is launched with all three in turns, and takes 1, 2 and 32 waves.

`value` is the distance of the mean from the cap; the mean is of the time from the end of the first work to
that of the last, for otherwise the first of a few long kernels weighs too much. `deviation` is that of
whole seconds from each other, by what was done in them. `allowed_stall_ms`: one refill (what the cap
takes to pay for a launch, 20 ms at least, after which who waits looks again) and one launch.
`own_stall_ms`: the longest launch without the time for which the program was ready to go on and this
machine had no CPU for it. `charged` is what was charged over what was used: on a host too busy to
launch in time, that still is 1. `bare`, of short kernels that are waited for: what the same program
gets without the library, as much as this machine can launch; where that is less than the cap, the
distance is from there. `own_bare` and `own_mean` are the same two without the time for which the program was ready to
go on and had no CPU: on a busy machine, what the library leaves a program that only its own CPU holds up.
Usage: make bench-cap [ONLY='"sync 0.1 ms" "cap 10 %"']: only cases in whose name one of these stands
"""

import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from hamid.hooks.abi.budgets import USAGE_BUDGET, decode_budget, decode_places
from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from native.tests.bench.stand import CARD, Stand, report, stand

MS = 1_000_000
KERNELS_NS = (5000, MS // 10, MS, 10 * MS, 50 * MS)
GRIDS = (132, 4096, 65_536)
CAPS = (10, 30, 50, 70)
MULTIPROCESSORS = 132
BLOCKS_AT_ONCE = 16 * MULTIPROCESSORS  # of 128 threads
LONG_NS = 10 * MS
SHORT_NS = MS // 10
SECONDS, LONG_SECONDS = 3, 4
REFILL_MS = 20.0
GRAPH_KERNELS, GRAPH_NS = 10, 100 * MS  # as launch.c has it
STREAMED_NS = 5000
BARE_MS = 1000
IN_TURNS_NS = (5000, MS // 10, MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How to launch, and with what; `kernel_ns` is of one kernel, or of a wave where grids change."""

    how: str
    kernel_ns: int
    grid: int
    percent: int

    @property
    def name(self) -> str:
        """As it is printed."""
        if self.how == "grids":
            grids = "/".join(map(str, GRIDS))
            return (
                f"{self.how} {self.kernel_ns / MS:g} ms a wave, grids {grids}, cap {self.percent} %"
            )
        return f"{self.how} {self.kernel_ns / MS:g} ms, grid {self.grid}, cap {self.percent} %"

    @property
    def wave_ns(self) -> int:
        """What a wave of blocks has to take."""
        return self.kernel_ns if self.how == "grids" else self.kernel_ns // waves(self.grid)

    @property
    def launch_ns(self) -> int:
        """What the longest launch takes."""
        if self.how == "grids":
            return self.kernel_ns * waves(GRIDS[-1])
        if self.how == "graph":
            return self.kernel_ns * min(GRAPH_KERNELS, max(2, GRAPH_NS // (self.kernel_ns + 1)))
        return self.kernel_ns

    @property
    def milliseconds(self) -> int:
        """How long it runs."""
        return 1000 * (LONG_SECONDS if self.launch_ns >= LONG_NS else SECONDS)

    @property
    def allowed_stall_ms(self) -> float:
        """One refill and one launch."""
        launch_ms = self.launch_ns / MS
        return max(REFILL_MS, launch_ms * 100 / self.percent) + launch_ms


def waves(grid: int) -> int:
    """How often the device is filled with blocks."""
    return -(-grid // BLOCKS_AT_ONCE)


def cases() -> Iterator[Case]:
    """All of them; a cooperative grid has to fit into the device at once."""
    for percent in CAPS:
        for kernel_ns in KERNELS_NS:
            for grid in GRIDS:
                for how in ("kernel", "graph", "sync"):
                    yield Case(how=how, kernel_ns=kernel_ns, grid=grid, percent=percent)
            yield Case(how="coop", kernel_ns=kernel_ns, grid=GRIDS[0], percent=percent)
        for wave_ns in IN_TURNS_NS:
            yield Case(how="grids", kernel_ns=wave_ns, grid=GRIDS[0], percent=percent)
        yield Case(how="streams", kernel_ns=STREAMED_NS, grid=GRIDS[0], percent=percent)


def charged_ns(place: Stand) -> int:
    """Return what the container was charged, by its usage page."""
    page = (place.directory / USAGE_PAGE_NAME).read_bytes()
    at = decode_places(page)[CARD]
    use = decode_budget(page[at : at + USAGE_BUDGET.size])
    return use.charged_ns if use is not None else 0


def run(case: Case, place: Stand, *, is_hooked: bool = True) -> dict:
    """What the tenant says in the end."""
    milliseconds = case.milliseconds if is_hooked else BARE_MS
    words = (case.how, f"{case.wave_ns}w", milliseconds, case.grid)
    return place.launched(*words, device=f"sm={MULTIPROCESSORS}\n", is_hooked=is_hooked)


@dataclass(slots=True)
class Summary:
    """The worst of all cases."""

    count: int = 0
    points: float = 0.0
    deviation: float = 0.0
    stalled: int = 0

    def print(self) -> None:
        """Print its line."""
        report(
            "bench-cap",
            "all: the furthest from its cap",
            "points",
            self.points,
            n=self.count,
            deviation=self.deviation,
            stalls_over_allowed=self.stalled,
        )


def mean_of(told: dict) -> float:
    """The share of the device, in points, from the end of the first work to that of the last."""
    steady_ns = told["last_end_ns"] - told["first_end_ns"]
    return 100 * (told["gpu_ns"] - told["first_gpu_ns"]) / max(1, steady_ns)


def own_mean_of(told: dict) -> float:
    """The share of the device, in points, of the time in which the program had a CPU when it could go on."""
    return 100 * told["gpu_ns"] / max(1, told["elapsed_ns"] - told["without_cpu_ns"])


def measure(case: Case, summary: Summary) -> None:
    """Run one case and print its line."""
    more = {}
    with stand(None, driver="build/sim", core_percent=case.percent) as place:
        if case.how == "sync" and case.kernel_ns <= SHORT_NS:
            alone = run(case, place, is_hooked=False)
            more |= {"bare": mean_of(alone), "own_bare": own_mean_of(alone)}
        told = run(case, place)
        charged = charged_ns(place)
    mean = mean_of(told)
    if more:
        more["own_mean"] = own_mean_of(told)
    distance = mean - min(case.percent, more.get("bare", case.percent))
    seconds = [gpu_ns / 1e7 for gpu_ns in told["seconds"]]
    deviation = statistics.pstdev(seconds) if seconds else 0.0
    own_stall_ms = told["worst_own_ns"] / MS
    summary.count += 1
    summary.points = max(summary.points, distance, key=abs)
    summary.deviation = max(summary.deviation, deviation)
    summary.stalled += own_stall_ms > case.allowed_stall_ms
    report(
        "bench-cap",
        case.name,
        "points",
        distance,
        mean=mean,
        deviation=deviation,
        worst_stall_ms=told["worst_ns"] / MS,
        own_stall_ms=own_stall_ms,
        allowed_stall_ms=case.allowed_stall_ms,
        charged=charged / told["gpu_ns"],
        **more,
    )


def main(*only: str) -> None:
    """Print a line per case."""
    summary = Summary()
    for case in cases():
        if not only or any(words in case.name for words in only):
            measure(case, summary)
    summary.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
