"""How long a process waits at worst while others are killed at any instruction, in s.

16 processes start, take, give back and end, again and again; one of them is killed every 20 ms.
Usage: bench_kill [SECONDS]
"""

import random
import subprocess
import sys
import time

from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from hamid.hooks.abi.usage import decode_usage_page
from native.tests.bench.stand import WORKER, Stand, report, stand

PROCESSES = 16
PERIOD_S = 0.02
ROUNDS = 500_000
SECONDS = 10.0


def start(place: Stand, waits: str, index: int) -> subprocess.Popen[bytes]:
    """Start one worker that records in its own place."""
    return subprocess.Popen(
        [str(WORKER), "churn", waits, str(index), str(ROUNDS)], env=place.env(is_hooked=True)
    )


def churn(place: Stand, seconds: float) -> tuple[float, int, int]:
    """Return the longest wait in s, how many were killed, and how many calls failed."""
    waits = place.directory / "waits"
    waits.write_bytes(bytes(4096))
    dice = random.Random(5)
    workers = [start(place, str(waits), i) for i in range(PROCESSES)]
    killed = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(PERIOD_S)
        victim = dice.randrange(PROCESSES)
        if workers[victim].poll() is None:
            workers[victim].kill()
            killed += 1
        for i, worker in enumerate(workers):
            if i == victim or worker.poll() is not None:
                worker.wait()
                workers[i] = start(place, str(waits), i)
    for worker in workers:
        worker.kill()
        worker.wait()
    numbers = memoryview(waits.read_bytes()).cast("Q")
    return max(numbers[:PROCESSES]) / 1e9, killed, numbers[511]


def main(seconds: float) -> None:
    """Churn; then see that whoever comes next may have everything."""
    with stand(limit_mib=16) as place:
        worst, killed, failed = churn(place, seconds)
        place.run(WORKER, "first", is_hooked=True)
        usage = decode_usage_page((place.directory / USAGE_PAGE_NAME).read_bytes())
        report("bench-kill", f"{PROCESSES} processes", "s", worst, n=killed, failed=failed)
        if failed or usage is None:
            raise SystemExit("calls failed that had room")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
