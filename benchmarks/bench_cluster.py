"""How many pods a second are bound on 1,000 nodes, by who is asked: us, a yes-sayer, nobody.

API server, etcd and kube-scheduler are real, nodes are objects with heartbeats (tests/cluster/
fleet.py). In each case kube-scheduler is started anew with the chart's profile and all pods are
created at once; the rate is that from the first create to the last binding seen. The daemon runs
only where it is asked. A first round of all cases counts for nothing: it is slower, and its first
case slowest. Then rounds go forth and back, with the yes-sayer between those that it is compared
with, and the ratio is the median of those within one round: what changes with time, and other
work on the machine, meets both.

`ours` answers as the chart has it: with the best node alone, so that kube-scheduler has nothing to
score. `ours/all-nodes` answers with every node that fits, as the yes-sayer does.

Where this machine runs no cluster, it says why and ends with 3.
"""

from __future__ import annotations

import copy
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.bench_footprint import cpu_s
from benchmarks.report import asked, emit, say
from benchmarks.stand import BenchmarkFailed
from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet

BENCH: Final = "cluster"
CANNOT: Final = 3
DEADLINE_S: Final = 300
OURS: Final = {"ours": "1", "ours/all-nodes": "2"}
"""By case, the replica that answers."""
CASES: Final = ("none", "ours", "yes", "ours/all-nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    nodes: int = 1000
    pods: int = 1000
    rounds: int = 3


@dataclass(slots=True, kw_only=True)
class _Course:
    """The cluster, and what it takes to run each case on it."""

    fleet: Fleet
    size: Size
    profile: dict[str, Any]
    yes_url: str
    yes_pid: int
    rates: dict[str, list[float]] = field(default_factory=lambda: {case: [] for case in CASES})

    def run(self, case: str) -> None:
        """Bind all pods once."""
        leader = self.fleet.replicas[OURS[case]] if case in OURS else None
        if leader is not None:
            leader.start()
            leader.wait_until_leading()
        self.fleet.start_scheduler(self._profile_for(case))
        self._bind(["probe"])  # it has listed everything once it has bound one
        names = [f"{case.replace('/', '-')}-{number}" for number in range(self.size.pods)]
        before = self._cpu_s()
        rate = self._bind(names)
        spent = {part: now - before[part] for part, now in self._cpu_s().items() if part in before}
        parts = ", ".join(f"{part} {1000 * s / len(names):.1f}" for part, s in spent.items())
        say(f"{BENCH}: {case}: {rate:.1f} pods/s; CPU ms a pod: {parts}")
        self.rates[case].append(rate)
        if leader is not None:
            leader.stop()

    def _bind(self, names: list[str]) -> float:
        begun_s = time.monotonic()
        self.fleet.create_pods(gpu_pod(name) for name in names)
        ended_s = self.fleet.watch.wait_bound(names, timeout_s=DEADLINE_S)
        if "ours" in names[0]:
            books = self.fleet.books()
            if books.differences() or books.overbooked() or books.pods < len(names):
                raise BenchmarkFailed(f"the books are wrong: {books.differences()}")
        self.fleet.delete_pods(names)
        self.fleet.watch.forget(names)
        return len(names) / (ended_s - begun_s)

    def _cpu_s(self) -> dict[str, float]:
        """CPU seconds of everything that has a part in it, so far."""
        folder = self.fleet.cluster.state / "pids"
        pids = {path.name: int(path.read_text()) for path in folder.iterdir()}
        pids["yes-sayer"] = self.yes_pid
        for replica in self.fleet.replicas.values():
            if (process := replica.daemon.process) is not None:
                pids["hamid"] = process.pid
        return {name: cpu_s(pid) for name, pid in pids.items()} | {"this": time.process_time()}

    def _profile_for(self, case: str) -> dict[str, Any]:
        profile = copy.deepcopy(self.profile)
        (extender,) = profile["extenders"]
        if case == "none":
            del profile["extenders"]
            fit = {"ignoredResources": [each["name"] for each in extender["managedResources"]]}
            profile["profiles"][0]["pluginConfig"] = [{"name": "NodeResourcesFit", "args": fit}]
        elif case == "yes":
            extender |= {"urlPrefix": self.yes_url, "enableHTTPS": False}
            del extender["bindVerb"], extender["tlsConfig"]
        else:
            port = self.fleet.replicas[OURS[case]].extender_port
            extender["urlPrefix"] = f"https://127.0.0.1:{port}/scheduler"
        return profile


def main(size: Size) -> None:
    """Measure all cases in one run."""
    with running_fleet(nodes=size.nodes, has_scheduler=False) as fleet, _yes_sayer() as (url, pid):
        profile = fleet.profile()
        fleet.replicas["1"].stop()
        fleet.add_replica(OURS["ours/all-nodes"], settings={"sched": {"offered_count": 0}})
        course = _Course(fleet=fleet, size=size, profile=profile, yes_url=url, yes_pid=pid)
        for number in range(1 + size.rounds):
            for case in reversed(CASES) if number % 2 else CASES:
                course.run(case)
    counted = {case: rates[1:] for case, rates in course.rates.items()}
    for case in reversed(CASES):
        emit(BENCH, case, unit="/s", samples=counted[case])
    for case in OURS:
        ratios = [one / yes for one, yes in zip(counted[case], counted["yes"], strict=True)]
        emit(
            BENCH,
            case.replace("ours", "ratio"),
            unit="ours/yes",
            value=statistics.median(ratios),
        )


@contextmanager
def _yes_sayer() -> Iterator[tuple[str, int]]:
    """The yes-sayer's URL and process id, for as long as the block lasts."""
    program = Path(__file__).with_name("yes_sayer.py")
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    try:
        main(Size(nodes=3, pods=5, rounds=1) if is_smallest else Size())
    except ClusterUnavailable as why:
        say(f"no cluster on this machine: {why}")
        sys.exit(CANNOT)
