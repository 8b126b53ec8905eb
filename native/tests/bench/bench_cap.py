"""GPU time used on the simulated driver against the cap, in points.

`value` is the distance of the mean from the cap, `deviation` that of whole seconds from each other. `charged`
is what was charged over what was used: on a host too busy to launch in time, that still is 1.
"""

import json
import statistics
import subprocess
from collections.abc import Iterator

from hamid.hooks.abi.budgets import USAGE_BUDGET, decode_budget, decode_places
from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from native.tests.bench.stand import CARD, NATIVE, Stand, report, stand

MS = 1_000_000
KERNELS_NS = (5000, MS // 10, MS, 10 * MS, 50 * MS)
GRIDS = (132, 4096, 65_536)
CAPS = (10, 30, 50, 70)
MILLISECONDS = 4000


def cases() -> Iterator[tuple[str, int, int, int]]:
    """Return how to launch, a kernel's length, its grid, and the cap."""
    for percent in CAPS:
        for kernel_ns in KERNELS_NS:
            for grid in GRIDS:
                yield "kernel", kernel_ns, grid, percent
        for how in ("coop", "graph", "sync"):
            yield how, MS // 10, GRIDS[0], percent
        for how in ("streams", "sync"):
            yield how, KERNELS_NS[0], GRIDS[0], percent


def charged_ns(place: Stand) -> int:
    """Return what the container was charged, by its usage page."""
    page = (place.directory / USAGE_PAGE_NAME).read_bytes()
    at = decode_places(page)[CARD]
    use = decode_budget(page[at : at + USAGE_BUDGET.size])
    return use.charged_ns if use is not None else 0


def measure(how: str, kernel_ns: int, grid: int, percent: int) -> None:
    """Run one case and print its line."""
    with stand(None, driver="build/sim", core_percent=percent) as place:
        machine = place.directory / "devices"
        machine.write_text(f"uuid={CARD}\nname=NVIDIA H100\nmemory_mib=81920\n")
        command = (NATIVE / "build/bin/launch", how, kernel_ns, MILLISECONDS, grid)
        printed = subprocess.run(
            [str(word) for word in command],
            env={
                **place.hooked_env,
                "HAMID_SIM_DEVICES": str(machine),
                "HAMID_SIM_STATE": str(place.directory / "state"),
            },
            input="\n",
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        charged = charged_ns(place)
    told = json.loads(printed.splitlines()[1])
    mean = 100 * told["gpu_ns"] / told["elapsed_ns"]
    seconds = [gpu_ns / 1e7 for gpu_ns in told["seconds"]]
    report(
        "bench-cap",
        f"{how} {kernel_ns / MS:g} ms, grid {grid}, cap {percent} %",
        "points",
        mean - percent,
        mean=mean,
        deviation=statistics.pstdev(seconds) if seconds else 0,
        worst_stall_ms=told["worst_ns"] / MS,
        charged=charged / told["gpu_ns"],
    )


def main() -> None:
    """Print a line per case."""
    for case in cases():
        measure(*case)


if __name__ == "__main__":
    main()
