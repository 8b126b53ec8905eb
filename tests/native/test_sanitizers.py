"""The whole library under the sanitizers: programs that try its edges run to their end without a report.

Only the library is built so; the compiler's runtime is preloaded before it. Leaks are not looked for: what is held at a
process's end is the driver's, or is meant to be kept.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, NATIVE, OTHER_CARD, build
from tests.native.test_process_lists import FORMS
from tests.native.test_routes import ROUTES

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(600)]

TIMEOUT_S = 110
BUILD_TIMEOUT_S = 500
LIMIT_MIB = 512
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "die_after_fork=0",
}


class Watched:
    """Runs programs in a container, under the library of a kind (`asan`, `tsan`)."""

    def __init__(self, container, kind: str):
        runtime = subprocess.run(
            [shutil.which("cc") or "cc", f"-print-file-name=lib{kind}.so"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        if not Path(runtime).is_absolute():
            pytest.skip(f"the compiler has no lib{kind}.so")
        build(f"library-{kind}", timeout_s=BUILD_TIMEOUT_S)
        self.container = container
        self._preload = f"{runtime}:{NATIVE / f'build/library-{kind}/libhamid.so'}"

    def limit(self, percent: int = 0) -> None:
        devices = (
            DeviceLimit(device_uuid=uuid, memory_bytes=LIMIT_MIB * MIB, core_percent=percent)
            for uuid in (CARD, OTHER_CARD)
        )
        limits = ContainerLimits(devices=tuple(devices), priority=1, generation=1)
        self.container.write_page(encode_control_page(limits))

    def run(self, *command: object, env: dict[str, str] | None = None) -> list[dict]:
        """Run to the end without a report, and without the address randomisation that some runtimes cannot stand."""
        path = self.container.build / "bin" / str(command[0])
        words = [str(path if path.exists() else command[0]), *map(str, command[1:])]
        done = subprocess.run(
            ["setarch", "-R", "env", f"LD_PRELOAD={self._preload}", *words],
            env={**self.container.env, **OPTIONS, **(env or {})},
            input="\n",
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture
def asan(container):
    watched = Watched(container, "asan")
    watched.limit()
    return watched


@pytest.fixture
def tsan(container):
    watched = Watched(container, "tsan")
    watched.limit()
    return watched


def test_the_sanitizers_are_in_the_library():
    for kind, check in (("asan", "__asan_report_load8"), ("tsan", "__tsan_read8")):
        build(f"library-{kind}", timeout_s=BUILD_TIMEOUT_S)
        symbols = subprocess.run(
            ["nm", "-D", "--undefined-only", str(NATIVE / f"build/library-{kind}/libhamid.so")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

        assert check in symbols


# field-reports.md (d) 17, 18
@pytest.mark.parametrize("act", ["handles", "no-context", "odd", "contexts"])
def test_memory_at_its_edges_is_within_bounds(asan, act):
    lines = asan.run("route", act)

    assert len(lines) > 10


@pytest.mark.parametrize("route", ROUTES)
def test_each_route_is_within_bounds(asan, route):
    (line,) = asan.run("route", "fill", route, 32)

    assert line["granted"] == LIMIT_MIB * MIB
    assert line["left"] == 0


@pytest.mark.parametrize("words", [(), ("odd",)], ids=["grains", "any size"])
def test_random_legal_calls_are_within_bounds(asan, words):
    (line,) = asan.run("model", 1, 4000, *words)

    assert line["left"] == 0


@pytest.mark.parametrize("kind", ["ipc", "handle", "pool"])
def test_memory_that_two_processes_have_is_within_bounds(asan, kind):
    lines = asan.run("share", kind, 32, "frees", 2)

    assert [line["told"] for line in lines if line["when"] == "closed"] == [0]


@pytest.mark.parametrize(
    "case",
    ["fork", "fork-first", "no-context", "destroyed", "reset", "capture", "threads", "in-order"],
)
def test_what_programs_do_to_themselves_is_within_bounds(asan, case):
    assert asan.run("faults", case)


@pytest.mark.parametrize("way", ["dlsym", "procaddress", "procaddress1", "link"])
def test_look_ups_and_what_is_told_are_within_bounds(asan, way):
    lines = asan.run("alloc_mib", "--via", way, LIMIT_MIB, 1)

    assert [line["result"] for line in lines if line["call"] == "cuMemAlloc"] == [
        "CUDA_SUCCESS",
        "CUDA_ERROR_OUT_OF_MEMORY",
    ]


def test_nvml_s_lists_are_within_bounds(asan):
    asan.container.start(60)

    (told,) = asan.run(sys.executable, "-c", FORMS)

    assert told["Compute_v3"][-1][0][1] == 60 * MIB


HOWS = [
    *("kernel", "ex", "coop", "multi", "both", "grid", "deep", "graph", "streams", "threads"),
    *("fill", "copy", "any", "plane", "cuboid", "arrays", "batch"),
]


@pytest.mark.parametrize("how", HOWS)
def test_launches_under_a_cap_are_within_bounds(asan, how):
    asan.limit(30)

    env = {"HAMID_SIM_CLOCK": "virtual", "HAMID_SIM_FILL_NS": "200000"}
    (line,) = asan.run("launch", how, 200_000, 2000, env=env)

    assert line["gpu_ns"]


@pytest.mark.parametrize("case", ["threads", "destroyed", "no-context"])
def test_threads_do_not_race_for_the_books(tsan, case):
    assert tsan.run("faults", case)


@pytest.mark.parametrize("words", [("pairs", 4, 100, 3), ("launches", 4, 3)], ids=lambda w: w[0])
def test_threads_that_allocate_and_launch_at_once_do_not_race(tsan, words):
    build("build/bench/worker")
    build("build/bench/libcuda.so.1")
    tsan.limit(50)

    worker, driver = tsan.container.build / "bench/worker", tsan.container.build / "bench"
    tsan.run(worker, *words, env={"LD_LIBRARY_PATH": str(driver)})


def test_threads_do_not_race_for_the_budget(tsan):
    tsan.limit(30)

    (line,) = tsan.run("launch", "threads", 200_000, 500, env={"HAMID_SIM_CLOCK": "virtual"})

    assert line["gpu_ns"]
