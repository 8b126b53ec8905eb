"""What the library takes a card and its driver to be like. Held against a real card by `make test-gpu`.

The same checks run on the simulated driver: there they show that they work, here that we are right.
What is a figure and no verdict is printed (`-rP`), and a property of the test (`--junitxml`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from hamid.nvml.client import NvmlClient

PROGRAM = Path(__file__).with_name("card_program.py")
HOOKS = Path(__file__).parents[2] / "native" / "src" / "hooks.def"
MIB = 1 << 20
LIMIT_MIB = 2048
TIMEOUT_S = 110
LEGACY, PER_THREAD = 1, 2
IDLE_PERCENT = 5
IDLE_WITHIN_S = 5

ROW = re.compile(r"HOOK\(CUDA, CUresult, (\w+), \w+, (\w+), (\d+), (LEGACY|THREAD),")


def requests_of_hooks() -> list[tuple[str, str, int, int]]:
    """What cuGetProcAddress has to be asked for to give each hooked form: symbol, name, version, flags."""
    rows = ROW.findall(HOOKS.read_text())
    return [
        (symbol, name, int(version), LEGACY if stream == "LEGACY" else PER_THREAD)
        for symbol, name, version, stream in rows
    ]


def card_of(place) -> str:
    """The UUID of the card that programs in this container have; skips on a MIG instance."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "card"],
        env=place.env,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if told["is_instance"]:
        pytest.skip("the card is a MIG instance: its time needs no cap, and NVML says less of it")
    return told["uuid"]


class Running:
    """A program in the container that is told to go on line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def read(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def go_on(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()


class CardContract:
    """Subclasses have a fixture `place`: a container (tests/native/container.py) on some card."""

    CAPS: ClassVar = [10, 30, 50, 70, 90]
    UNDER_POINTS: ClassVar = 3.0
    OVER_POINTS: ClassVar = 3.0
    SECONDS: ClassVar = 5.0
    NVML_LIBRARY: ClassVar[Path | None] = None
    """None: the machine's."""

    @pytest.fixture
    async def nvml(self, place):  # noqa: ARG002 - the machine is there first
        library = {} if self.NVML_LIBRARY is None else {"library_path": self.NVML_LIBRARY}
        async with NvmlClient.open(**library) as client:
            yield client

    @pytest.fixture
    def card(self, place):
        """The UUID of the card."""
        return card_of(place)

    @pytest.fixture
    async def idle_card(self, nvml, card):
        """The card's UUID, where nobody else uses it; what the test before did may still be seen."""
        began = time.monotonic()
        while (busy := (await nvml.sample_gpu_percents()).get(card, 0)) > IDLE_PERCENT:
            if time.monotonic() - began > IDLE_WITHIN_S:
                pytest.skip(f"others keep {card} busy ({busy} %): stop them, or choose another")
        return card

    @pytest.fixture
    def driver_says(self, nvml, card):
        """How much of the card the program has, by the driver.

        In a pid namespace of its own the driver names no process of ours: then it is all that the
        card holds, and nobody else may come or go meanwhile.
        """

        async def ask(program: Running) -> int:
            (sample,) = [s for s in await nvml.sample_devices() if s.device_uuid == card]
            own = [p.used_bytes for p in sample.processes if p.pid == program.process.pid]
            used_bytes = own[0] if own and own[0] is not None else sample.memory_used_bytes
            assert used_bytes is not None, sample
            return used_bytes

        return ask

    @pytest.fixture
    def figure(self, record_property):
        """Tells one."""

        def tell(name: str, value: object) -> None:
            record_property(name, value)
            sys.stdout.write(f"{name}: {value}\n")

        return tell

    @pytest.fixture
    def charged(self, place, card):
        """How much of the card the container is charged."""
        return lambda: place.usage().used_bytes(card)

    @pytest.fixture
    def limit(self, place, card):
        """Sets what the container may use of the card."""

        def decide(memory_mib: int | None = LIMIT_MIB, percent: int = 0) -> None:
            memory_bytes = None if memory_mib is None else memory_mib * MIB
            device = DeviceLimit(device_uuid=card, memory_bytes=memory_bytes, core_percent=percent)
            limits = ContainerLimits(devices=(device,), priority=1, generation=1)
            place.write_page(encode_control_page(limits))

        return decide

    @pytest.fixture
    def start(self, place):
        """Starts the program, in the container or, bare, beside it; ended with the test."""
        begun = []

        def run(*words: object, is_bare: bool = False) -> Running:
            environment = place.env if is_bare else place.environment()
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *map(str, words)],
                env={**environment, "HAMID_TEST_LOOK_EVERY_MS": "50"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            begun.append(process)
            return Running(process)

        yield run
        for process in begun:
            process.kill()
            process.wait(TIMEOUT_S)

    @pytest.fixture
    def lines(self, start):
        """Runs it to its end, and gives what it said."""

        def run(*words: object, is_bare: bool = False) -> list[dict]:
            process = start(*words, is_bare=is_bare).process
            said, wrong = process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 0, wrong
            return [json.loads(line) for line in said.splitlines()]

        return run

    @pytest.fixture
    def found_forms(self, lines, tmp_path):
        """What cuGetProcAddress gives for each hooked form: the form's symbol → the program's line."""
        asked = tmp_path / "requests"
        asked.write_text(json.dumps(requests_of_hooks()))

        def ask(*, is_bare: bool) -> dict[str, dict]:
            told = lines("addresses", asked, is_bare=is_bare)
            return {line["symbol"]: line for line in told if line["is_found"]}

        return ask

    def test_the_driver_s_look_up_gives_what_it_exports(self, found_forms, figure):
        """Where not, the library asks once for each form; so this is a figure."""
        found = found_forms(is_bare=True)

        figure("addresses_compared", len(found))
        differ = [symbol for symbol, line in found.items() if line["form"] != symbol]
        figure("addresses_that_differ", ", ".join(differ))
        assert len(found) > len(requests_of_hooks()) // 2

    def test_every_hooked_form_is_ours_however_it_is_looked_up(self, limit, found_forms, place):
        limit()
        bare, found = found_forms(is_bare=True), found_forms(is_bare=False)

        assert found.keys() == bare.keys()
        others = [s for s, line in found.items() if line["file"] != str(place.library)]
        assert others == []
        forms = {symbol: line["form"] for symbol, line in found.items()}
        assert forms == {symbol: line["form"] or symbol for symbol, line in bare.items()}

    def test_events_are_cheap_enough_to_measure_by(self, lines, figure):
        """Each batch of launches is measured by two of them."""
        for line in lines("events", is_bare=True):
            figure(line["call"] + "_median_ns", line["median_ns"])
            assert line["median_ns"] < 50_000

    async def test_what_is_charged_is_what_the_driver_says(
        self, limit, start, charged, driver_says
    ):
        limit()
        program = start("charge")
        for _ in range(4):
            base = program.read()
            before = charged(), await driver_says(program)
            program.go_on()
            held = program.read()
            after = charged(), await driver_says(program)
            program.go_on()

            more, taken = (b - a for a, b in zip(before, after, strict=True))
            assert more >= held["held"] - 32 * MIB  # a pool may have kept what the first took
            assert abs(more - taken) <= 4 * MIB, (base["route"], more, taken)

    def test_what_is_exported_is_charged_until_the_last_has_let_go_of_it(
        self, limit, start, charged
    ):
        """IPC handles of one block are alike, and a descriptor carries a note: both know it by that."""
        limit()
        program = start("shared")
        held = {}
        for _ in range(3):
            said = program.read()
            held[said["step"]] = charged() // MIB
            assert said.get("are_alike", True)
            program.go_on()

        assert held == {"imported": 32, "released": 32, "both released": 0}

    def test_each_route_is_granted_the_limit_refused_beyond_and_granted_again(self, limit, lines):
        limit()

        told, *routes = lines("fill")

        assert told == {"free": LIMIT_MIB * MIB, "total": LIMIT_MIB * MIB}
        for route in routes:
            assert route["refused"], route
            assert 0.98 * LIMIT_MIB * MIB <= route["granted"] <= LIMIT_MIB * MIB, route

    @pytest.fixture(params=["kernel", "graph"])
    def how(self, request):
        return request.param

    @pytest.mark.usefixtures("idle_card")
    def test_a_cap_holds(self, limit, start, how, figure):
        for percent in self.CAPS:
            limit(None, percent)
            program = start("busy", how, 1, self.SECONDS)
            program.read()
            program.go_on()
            got = program.read()["percent"]
            figure(f"{how}_{percent}", got)
            assert percent - self.UNDER_POINTS <= got <= percent + self.OVER_POINTS

    async def test_nvml_says_within_two_seconds_who_is_busy(
        self, limit, start, nvml, idle_card, figure
    ):
        """The lender corrects once a second by what NVML saw."""
        limit(None)
        await nvml.sample_process_loads()
        program = start("busy", "kernel", 1, 10)
        program.read()
        began = time.monotonic()
        program.go_on()
        seen: dict[int, float] = {}
        pid = program.process.pid
        while seen.get(pid, 0.0) < 50 and time.monotonic() - began < 8:
            for load in await nvml.sample_process_loads():
                seen[load.pid] = max(load.gpu_percent, seen.get(load.pid, 0.0))
        lag_s = time.monotonic() - began
        if pid not in seen and (await nvml.sample_gpu_percents()).get(idle_card, 0) >= 50:
            pytest.skip(f"NVML names other pids than ours here ({sorted(seen)}): run on the host")
        figure("nvml_lag_s", lag_s)
        assert seen.get(pid, 0.0) >= 50, f"NVML says {seen} on {idle_card}, not of process {pid}"
        assert lag_s < 2
