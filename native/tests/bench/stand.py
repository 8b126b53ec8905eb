"""A container to measure in: its directories, a control page, a driver that does nothing."""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hamid.hooks.abi.contract import CONTROL_PAGE_NAME
from hamid.hooks.abi.pages import ContainerLimits, CoreMode, DeviceLimit, encode_control_page

NATIVE = Path(__file__).parents[2]
CARD = "GPU-11111111-2222-3333-4444-555555555555"
MIB = 1 << 20
TIMEOUT_S = 300


class Stand:
    """Starts programs bare or under the library, in one container."""

    def __init__(
        self,
        directory: Path,
        *,
        limit_mib: int | None,
        driver: Path,
        core_percent: int = 0,
        mode: CoreMode = CoreMode.HARD,
        priority: int = 1,
        weight: int = 1,
    ) -> None:
        self.directory = directory
        limits = ContainerLimits(
            devices=(
                DeviceLimit(
                    device_uuid=CARD,
                    memory_bytes=None if limit_mib is None else limit_mib * MIB,
                    core_percent=core_percent,
                    weight=weight,
                ),
            ),
            priority=priority,
            generation=1,
            mode=mode,
        )
        (directory / CONTROL_PAGE_NAME).write_bytes(encode_control_page(limits))
        self.bare_env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(driver),
        }
        self.hooked_env = {
            **self.bare_env,
            "LD_PRELOAD": str(NATIVE / "build/test/libhamid.so"),
            "HAMID_TEST_LIMITS_DIR": str(directory),
            "HAMID_TEST_USAGE_DIR": str(directory),
            "HAMID_TEST_LOOK_EVERY_MS": "50",  # as the library for containers does
        }

    def env(self, *, is_hooked: bool) -> dict[str, str]:
        """Return the environment of a program."""
        return self.hooked_env if is_hooked else self.bare_env

    def launched(
        self,
        *words: object,
        device: str = "",
        env: Mapping[str, str] | None = None,
        is_hooked: bool = True,
    ) -> dict[str, Any]:
        """Return what `launch` says in the end, on the simulated device.

        Args:
            words: of its command line.
            device: more lines of the device's profile.
            env: more of its environment.
            is_hooked: whether it runs under the library.
        """
        machine = self.directory / "devices"
        machine.write_text(f"uuid={CARD}\nname=NVIDIA H100\nmemory_mib=81920\n{device}")
        printed = subprocess.run(
            [str(NATIVE / "build/bin/launch"), *map(str, words)],
            env={
                **self.env(is_hooked=is_hooked),
                "HAMID_SIM_DEVICES": str(machine),
                "HAMID_SIM_STATE": str(self.directory / "state"),
                **(env or {}),
            },
            input="\n",
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        told: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return told

    def run(self, *command: object, is_hooked: bool) -> list[str]:
        """Return the lines that a program prints; fail if it does."""
        return subprocess.run(
            [str(word) for word in command],
            env=self.env(is_hooked=is_hooked),
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        ).stdout.splitlines()


WORKER = NATIVE / "build/bench/worker"


@contextlib.contextmanager
def stand(
    limit_mib: int | None, driver: str = "build/bench", core_percent: int = 0
) -> Iterator[Stand]:
    """Make a stand, and remove it."""
    with tempfile.TemporaryDirectory() as directory:
        yield Stand(
            Path(directory),
            limit_mib=limit_mib,
            driver=NATIVE / driver,
            core_percent=core_percent,
        )


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that this share of them is at most."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def report(bench: str, case: str, unit: str, value: float, **more: float) -> None:
    """Print one line."""
    line = {"bench": bench, "case": case, "unit": unit, "value": round(value, 4)}
    line |= {key: round(number, 4) for key, number in more.items()}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def report_added(
    bench: str, case: str, unit: str, bare: Sequence[float], hooked: Sequence[float]
) -> None:
    """Print what the library adds to the median; and to the 99th percentile."""
    median = statistics.median(hooked) - statistics.median(bare)
    p99 = percentile(hooked, 99) - percentile(bare, 99)
    report(bench, case, unit, median, median=median, p99=p99, n=len(hooked))
