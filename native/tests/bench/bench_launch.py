"""What a launch costs more under the library, in ns of CPU time."""

import subprocess

from native.tests.bench.stand import WORKER, Stand, report_added, stand

BATCHES = 60
REPEATS = 3
PROCESSES = 4
CASES = {
    "unlimited": (None, 0),
    "memory limit": (16384, 0),
    "memory limit and cap, not reached": (16384, 50),
}


def processes(
    place: Stand, count: int, threads: int, *, is_hooked: bool, what: str = "launches"
) -> list[float]:
    """Return ns per launch of each batch of programs that run at the same time."""
    running = [
        subprocess.Popen(
            [str(WORKER), what, str(threads), str(BATCHES)],
            env=place.env(is_hooked=is_hooked),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a worker failed; run it by hand to see why")
    return [float(line) for output in outputs for line in output.split()]


def main() -> None:
    """Print a line per case."""
    for name, (limit_mib, core_percent) in CASES.items():
        with stand(limit_mib, core_percent=core_percent) as place:
            for how, what, count, threads in (
                ("1 thread", "launches", 1, 1),
                ("4 threads", "launches", 1, 4),
                ("4 processes", "launches", PROCESSES, 1),
                ("each waited for", "waits", 1, 1),
            ):
                bare: list[float] = []
                hooked: list[float] = []
                for _ in range(REPEATS):
                    bare += processes(place, count, threads, is_hooked=False, what=what)
                    hooked += processes(place, count, threads, is_hooked=True, what=what)
                report_added("bench-launch", f"{name}, {how}", "ns", bare, hooked)


if __name__ == "__main__":
    main()
