"""The simulated machine that real clients run on, and how they are run there."""

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from hamid.hooks.abi.usage import decode_usage_page
from tests.native.container import MIB, Container

HERE = Path(__file__).parent
CLIENTS = HERE.parents[2] / "build" / "clients"
CARD_MIB = 1024
LIMIT_MIB = 512
CHUNK_MIB = 32
LOOK_AT_MIB = 128
"""So much the programs hold when they look at what they are told; as routes.py has it."""
UUID = "GPU-11111111-2222-3333-4444-555555555555"
BUILD_TIMEOUT_S = 540
RUN_TIMEOUT_S = 110

MACHINE = f"""\
uuid={UUID}
name=NVIDIA A100-SXM4-40GB
memory_mib={CARD_MIB}
cc=8.0
sm=108
"""


def client_directory(name: str) -> Path:
    """Where the client is installed; skips the test when it cannot be had here."""
    directory = CLIENTS / name
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [str(HERE / "build-client"), name, str(directory)],
            check=False,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} was not installed within {BUILD_TIMEOUT_S} s")
    if done.returncode != 0:
        why = (done.stdout + done.stderr).strip().splitlines() or ["no reason given"]
        pytest.skip(f"{name} cannot be installed here: {why[-1]}")
    return directory


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An installed client in a container of ours, with the library in it or without."""

    directory: Path
    container: Container

    def environment(self, *, is_limited: bool) -> dict[str, str]:
        packages = sorted(self.directory.glob("lib/python3*/site-packages/nvidia/*/lib"))
        # A machine's own may name other versions of what the client brings along.
        paths = [*map(str, packages), self.container.env["LD_LIBRARY_PATH"]]
        own = {
            "LD_LIBRARY_PATH": ":".join(path for path in paths if path),
            "HOME": str(self.container.limits_dir.parent),
            "DEV": "CUDA",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if is_limited:
            return self.container.environment(own)
        return {**self.container.env, **own}

    def limit(self, *, core_percent: int = 0) -> None:
        device = DeviceLimit(
            device_uuid=UUID, memory_bytes=LIMIT_MIB * MIB, core_percent=core_percent
        )
        page = encode_control_page(ContainerLimits(devices=(device,), priority=1, generation=1))
        self.container.write_page(page)

    def have_neighbour(self, *, pid: int, memory_mib: int, gpu_percent: int) -> None:
        """Let another container's process hold memory of the card, and keep it busy."""
        neighbour = f"process={pid}:{memory_mib}\ngpu_util={gpu_percent}\n"
        self.container.machine.write_text(MACHINE + neighbour)

    def run(self, *command: object, is_limited: bool) -> str:
        done = subprocess.run(
            list(map(str, command)),
            env=self.environment(is_limited=is_limited),
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            cwd=self.container.limits_dir.parent,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def program(self, name: str, *, is_limited: bool) -> list[dict]:
        """The JSON lines of one of `programs/`; what the client itself prints is left out."""
        output = self.run(
            self.directory / "bin" / "python",
            HERE / "programs" / name,
            self.container.usage_dir,
            is_limited=is_limited,
        )
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]

    def charged_bytes(self, when: str) -> int:
        """What the container was charged at a moment of which the program kept the usage page."""
        page = self.container.limits_dir.parent / f"{when}.page"
        return decode_usage_page(page.read_bytes()).used_bytes(UUID) if page.is_file() else 0


def routes_of(lines: list[dict]) -> dict[str, dict]:
    return {line["route"]: line for line in lines if "route" in line}


def real_client(*names: str) -> list[pytest.MarkDecorator]:
    """The marks of a module whose tests run these clients; the first run installs them."""
    return [
        pytest.mark.native,
        pytest.mark.slow,
        pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * RUN_TIMEOUT_S),
        pytest.mark.parametrize("client", names, indirect=True),
    ]


def only_in_the_long_run() -> pytest.MarkDecorator:
    is_asked_for = os.environ.get("HAMID_LONG") == "1"  # noqa: TID251 - whoever runs the tests says so
    return pytest.mark.skipif(not is_asked_for, reason="only with HAMID_LONG=1: it is large")


def assert_filled(lines: list[dict], edge_mib: int, *, own_chunks: int = 3) -> None:
    """Each route gave all there is and no more, was refused, and after all was freed gave the same.

    What a client needs for itself may take the place of a few chunks.
    """
    routes = routes_of(lines)
    assert routes
    for line in routes.values():
        granted = line["granted_bytes"]
        assert (edge_mib - own_chunks * CHUNK_MIB) * MIB <= granted <= edge_mib * MIB, line
        assert line["refusal"], line
        # A card without limits cuts its small blocks from what is left as it likes.
        assert abs(line["again_bytes"] - granted) <= line["least_bytes"], line


def assert_slice_filled(client: Client, lines: list[dict], *, own_chunks: int = 0) -> None:
    """The same of the slice, to the last byte: of what the client had not for itself when it began.

    `own_chunks` are for what it takes for itself with each chunk.
    """
    assert_filled(lines, LIMIT_MIB, own_chunks=LIMIT_MIB // CHUNK_MIB)
    limit_bytes, own_bytes = LIMIT_MIB * MIB, client.charged_bytes("before")
    for route, line in routes_of(lines).items():
        granted, charged = line["granted_bytes"], client.charged_bytes(f"{route} full")
        own_at_most = own_bytes + own_chunks * CHUNK_MIB * MIB
        assert granted > limit_bytes - own_at_most - line["least_bytes"], (line, own_bytes)
        assert granted <= charged <= limit_bytes, (line, charged)
        assert line["again_bytes"] == granted, line
        if "free_bytes" in line["told"]:
            free_bytes = limit_bytes - client.charged_bytes(f"{route} looked at")
            told = line["told"]["free_bytes"], line["told"]["total_bytes"]
            assert told == (free_bytes, limit_bytes), line
