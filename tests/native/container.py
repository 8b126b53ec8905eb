"""What a container of ours is to the library: two directories, a simulated machine, a preload.

No namespaces: the library built for tests takes the directories from its environment. What only
the fixed paths can show is in test_fixed_paths.py.
"""

import contextlib
import fcntl
import json
import subprocess
from pathlib import Path

from hamid.hooks.abi.contract import CONTROL_PAGE_NAME, USAGE_PAGE_NAME
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from hamid.hooks.abi.usage import decode_usage_page

NATIVE = Path(__file__).parents[2] / "native"
MIB = 1 << 20
CARD = "GPU-11111111-2222-3333-4444-555555555555"
OTHER_CARD = "GPU-aaaaaaaa-2222-3333-4444-555555555555"
CARD_MIB = 40_960
TIMEOUT_S = 60

MACHINE = f"""\
uuid={CARD}
name=NVIDIA A100-SXM4-40GB
memory_mib={CARD_MIB}

uuid={OTHER_CARD}
name=NVIDIA A100-SXM4-40GB
memory_mib={CARD_MIB}
"""


def build(target: str, *words: str, timeout_s: float = 110) -> Path:
    """Make a target of `native/`; test runs at the same time take turns."""
    directory = NATIVE / "build"
    directory.mkdir(exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "-s", "-C", str(NATIVE), target, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def limits(*devices: tuple[str, int | None], generation: int = 1) -> bytes:
    """The control page of a container with these cards and MiB (None: no limit)."""
    return encode_control_page(
        ContainerLimits(
            devices=tuple(
                DeviceLimit(
                    device_uuid=uuid,
                    memory_bytes=None if memory_mib is None else memory_mib * MIB,
                )
                for uuid, memory_mib in devices
            ),
            priority=1,
            generation=generation,
        )
    )


class Answers(list):
    """The JSON lines of a tenant, each a dict with `call`."""

    def results(self, call: str) -> list:
        return [line["result"] for line in self if line["call"] == call]

    def only(self, call: str) -> dict:
        (line,) = (line for line in self if line["call"] == call)
        return line


class Tenant:
    """A running `alloc_mib --interactive`: told line by line what to do."""

    def __init__(self, process: subprocess.Popen):
        self.process = process
        self._read_until("ready")

    def _read_until(self, call: str) -> Answers:
        answers = Answers()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer["call"] == call:
                return answers
            answers.append(answer)
        raise AssertionError(f"the tenant ended: {self.process.stderr.read()}")

    def tell(self, command: str) -> Answers:
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._read_until("done")

    def alloc(self, mib: int) -> str:
        return self.tell(f"alloc {mib}").only("cuMemAlloc")["result"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(TIMEOUT_S)


class Container:
    """A container's directories and environment, and the programs run in it."""

    def __init__(self, native_build: Path, directory: Path):
        self.build = native_build
        self.library = native_build / "test" / "libhamid.so"
        self.limits_dir = directory / "limits"
        self.usage_dir = directory / "usage"
        self.limits_dir.mkdir()
        self.usage_dir.mkdir()
        self.machine = directory / "devices"
        self.machine.write_text(MACHINE)
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(native_build / "sim"),
            "HAMID_SIM_DEVICES": str(self.machine),
            "HAMID_SIM_STATE": str(directory / "state"),
            "HAMID_TEST_LIMITS_DIR": str(self.limits_dir),
            "HAMID_TEST_USAGE_DIR": str(self.usage_dir),
        }
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stack.close()

    def write_page(self, page: bytes) -> None:
        """As the host does it: a new file, renamed into place."""
        fresh = self.limits_dir / "new"
        fresh.write_bytes(page)
        fresh.rename(self.limits_dir / CONTROL_PAGE_NAME)

    def limit(self, *devices: tuple[str, int | None]) -> None:
        self.write_page(limits(*devices))

    def usage(self):
        """What the daemon reads of the container."""
        return decode_usage_page((self.usage_dir / USAGE_PAGE_NAME).read_bytes())

    def environment(self, env: dict[str, str] | None = None) -> dict[str, str]:
        return {**self.env, "LD_PRELOAD": str(self.library), **(env or {})}

    def run(
        self, program: str, *arguments: object, env=None, timeout_s: float = TIMEOUT_S
    ) -> subprocess.CompletedProcess:
        path = self.build / "bin" / program
        return subprocess.run(
            [str(path), *map(str, arguments)],
            env=self.environment(env),
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def alloc(self, *arguments: object, env=None) -> Answers:
        done = self.run("alloc_mib", *arguments, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return Answers(map(json.loads, done.stdout.splitlines()))

    def start(self, *arguments: object, env=None) -> Tenant:
        process = subprocess.Popen(
            [str(self.build / "bin/alloc_mib"), "--interactive", *map(str, arguments)],
            env=self.environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return Tenant(process)
