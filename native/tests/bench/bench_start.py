"""What the library adds to the start of a process, in ms: one without CUDA, and one with."""

import os
import shutil
import time

from native.tests.bench.stand import WORKER, Stand, report_added, stand

STARTS = 300


def elapsed_ms(command: list[str], env: dict[str, str]) -> float:
    """Start a program and wait for its end."""
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, env)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{command[0]} ended with {status}")
    return took * 1000


def measure(place: Stand, case: str, *command: str) -> None:
    """Start it bare and hooked in turns."""
    bare: list[float] = []
    hooked: list[float] = []
    for _ in range(STARTS):
        bare.append(elapsed_ms(list(command), place.env(is_hooked=False)))
        hooked.append(elapsed_ms(list(command), place.env(is_hooked=True)))
    report_added("bench-start", case, "ms", bare, hooked)


def main() -> None:
    """Print a line per case."""
    with stand(limit_mib=1024) as place:
        measure(place, "without CUDA", shutil.which("true") or "/bin/true")
        measure(place, "first use of CUDA", str(WORKER), "first")


if __name__ == "__main__":
    main()
