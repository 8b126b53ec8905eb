"""Runs scenarios on a simulated card that costs nothing for contexts, each in its own process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.container import build

SCENARIOS = Path(__file__).with_name("scenarios.py")
UUID = "GPU-11111111-2222-3333-4444-555555555555"
TIMEOUT_S = 60


class Machine:
    """A card of 1 GiB, and its processes."""

    def __init__(self, drivers: Path, directory: Path):
        self.profile = directory / "devices"
        self.env = {
            "LD_LIBRARY_PATH": str(drivers),
            "HAMID_SIM_DEVICES": str(self.profile),
            "HAMID_SIM_STATE": str(directory / "state"),
        }
        self.write()

    def write(self, *lines: str) -> None:
        card = [f"uuid={UUID}", "name=NVIDIA A100", "memory_mib=1024", "cc=8.0", "sm=108", *lines]
        self.profile.write_text("\n".join(card) + "\n")

    def start(self, scenario: str, *arguments: object, **env: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, str(SCENARIOS), scenario, *map(str, arguments)],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, scenario: str, **env: str):
        output, errors = self.start(scenario, **env).communicate(timeout=TIMEOUT_S)
        assert output, errors
        return json.loads(output.splitlines()[-1])


@pytest.fixture(scope="session")
def drivers():
    """The directory of the simulated drivers."""
    return build("sims") / "sim"


@pytest.fixture
def machine(drivers, tmp_path):
    return Machine(drivers, tmp_path)
