"""What an allocation and its free cost more under the library, in ns of CPU time per pair."""

import contextlib
import subprocess

from native.tests.bench.stand import WORKER, Stand, report_added, stand

BATCHES = 60
REPEATS = 3
PROCESSES = 60
LIVE = 1_000_000


def measure(place: Stand, case: str, *what: object) -> None:
    """Measure bare and hooked in turns, and print what is added."""
    bare: list[float] = []
    hooked: list[float] = []
    for _ in range(REPEATS):
        bare += map(float, place.run(WORKER, *what, BATCHES, is_hooked=False))
        hooked += map(float, place.run(WORKER, *what, BATCHES, is_hooked=True))
    report_added("bench-alloc", case, "ns", bare, hooked)


def main() -> None:
    """Print a line per case."""
    with stand(limit_mib=16384) as place:
        measure(place, "1 thread", "pairs", 1, 0)
        measure(place, "4 threads", "pairs", 4, 0)
        measure(place, "1000000 live blocks", "pairs", 1, LIVE)
        measure(place, "1000000 live blocks, any of them freed", "replace", LIVE)
        with contextlib.ExitStack() as stack:
            for _ in range(PROCESSES):
                process = stack.enter_context(
                    subprocess.Popen(
                        [str(WORKER), "hold"],
                        env=place.env(is_hooked=True),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                    )
                )
                stack.callback(process.kill)
                process.stdout.readline()
            measure(place, f"{PROCESSES} live processes", "pairs", 1, 0)


if __name__ == "__main__":
    main()
