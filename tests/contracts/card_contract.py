"""What the library takes a card and its driver to be like. Held against a real card by `make test-gpu`.

The same checks run on the simulated driver: there they show that they work, here that we are right.
What is a figure and no verdict is printed as a property of the test (`--junitxml`, or `-rP`).
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

ROW = re.compile(r"HOOK\(CUDA, CUresult, (\w+), \w+, (\w+), (\d+), (LEGACY|THREAD),")


def requests_of_hooks() -> list[tuple[str, str, int, int]]:
    """What cuGetProcAddress has to be asked for to give each hooked form: symbol, name, version, flags."""
    rows = ROW.findall(HOOKS.read_text())
    return [
        (symbol, name, int(version), LEGACY if stream == "LEGACY" else PER_THREAD)
        for symbol, name, version, stream in rows
    ]


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
    async def card(self, nvml):
        """The UUID of the first card."""
        return (await nvml.list_devices())[0].device_uuid

    @pytest.fixture
    def driver_says(self, nvml, card):
        """How much of the card the program has, by the driver."""

        async def ask(program: Running) -> int:
            (sample,) = [s for s in await nvml.sample_devices() if s.device_uuid == card]
            (own,) = [p.used_bytes for p in sample.processes if p.pid == program.process.pid]
            return own

        return ask

    @pytest.fixture
    def charged(self, place, card):
        """How much of the card the container is charged."""
        return lambda: place.usage().used_bytes(str(card))

    @pytest.fixture
    def limit(self, place, card):
        """Sets what the container may use of the card."""

        def decide(memory_mib: int | None = LIMIT_MIB, percent: int = 0) -> None:
            memory_bytes = None if memory_mib is None else memory_mib * MIB
            device = DeviceLimit(
                device_uuid=str(card), memory_bytes=memory_bytes, core_percent=percent
            )
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

    def test_the_driver_s_look_up_gives_what_it_exports(self, lines, tmp_path, record_property):
        """Where not, the library asks once for each form; so this is a figure."""
        asked = tmp_path / "requests"
        asked.write_text(json.dumps(requests_of_hooks()))

        found = [line for line in lines("addresses", asked, is_bare=True) if line["result"] == 0]
        differ = [line["symbol"] for line in found if line["asked"] != line["exported"]]

        record_property("addresses_compared", len(found))
        record_property("addresses_that_differ", ", ".join(differ))
        assert len(found) > len(requests_of_hooks()) // 2

    def test_every_hooked_form_is_ours_however_it_is_looked_up(self, limit, lines, tmp_path, place):
        limit()
        asked = tmp_path / "requests"
        asked.write_text(json.dumps(requests_of_hooks()))

        found = [line for line in lines("addresses", asked) if line["result"] == 0]

        assert found
        others = [line["symbol"] for line in found if line["file"] != str(place.library)]
        assert others == []
        assert [line["symbol"] for line in found if line["asked"] != line["exported"]] == []

    def test_events_are_cheap_enough_to_measure_by(self, lines, record_property):
        """Each batch of launches is measured by two of them."""
        for line in lines("events", is_bare=True):
            record_property(line["call"] + "_median_ns", line["median_ns"])
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

    def test_a_cap_holds(self, limit, start, how, record_property):
        for percent in self.CAPS:
            limit(None, percent)
            program = start("busy", how, 1, self.SECONDS)
            program.read()
            program.go_on()
            got = program.read()["percent"]
            record_property(f"{how}_{percent}", got)
            assert percent - self.UNDER_POINTS <= got <= percent + self.OVER_POINTS

    async def test_nvml_says_within_two_seconds_who_is_busy(
        self, limit, start, nvml, card, record_property
    ):
        """The lender corrects once a second by what NVML saw."""
        limit(None)
        await nvml.sample_process_loads()
        program = start("busy", "kernel", 1, 10)
        program.read()
        began = time.monotonic()
        program.go_on()
        seen = 0.0
        while seen < 50 and time.monotonic() - began < 10:
            loads = await nvml.sample_process_loads()
            mine = [x.gpu_percent for x in loads if x.pid == program.process.pid]
            seen = max([seen, *mine])
        record_property("nvml_lag_s", time.monotonic() - began)
        assert seen >= 50, f"NVML says {seen} % of process {program.process.pid} on {card}"
