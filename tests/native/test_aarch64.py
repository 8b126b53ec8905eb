"""The library for aarch64: built by Debian's cross compiler, run by qemu on simulated drivers of its own."""

import json
import re
import shutil
import subprocess

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, NATIVE, Container, build
from tests.native.test_exports import HOOKED

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(600)]

SUCCESS, OUT_OF_MEMORY = "CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"
CROSS = "aarch64-linux-gnu-"


@pytest.fixture(scope="module")
def aarch64_build():
    if shutil.which(f"{CROSS}gcc") is None:
        pytest.skip(f"{CROSS}gcc is not installed (Debian: gcc-aarch64-linux-gnu)")
    build("aarch64", timeout_s=500)
    return NATIVE / "build/aarch64"


class Aarch64Container(Container):
    """Its programs are run by qemu, which loads the libraries of the cross compiler."""

    def __init__(self, native_build, directory, qemu):
        super().__init__(native_build, directory)
        self.qemu = qemu
        self.env["QEMU_LD_PREFIX"] = "/usr/aarch64-linux-gnu"

    def run(self, program, *arguments, env=None):
        env = self.environment(env)
        # What is for the program's loader alone, not for qemu's own.
        names = ("LD_PRELOAD", "LD_LIBRARY_PATH")
        loading = [word for name in names for word in ("-E", f"{name}={env.pop(name)}")]
        command = [self.qemu, *loading, str(self.build / "bin" / program), *map(str, arguments)]
        return subprocess.run(
            command,
            env=env,
            check=False,
            capture_output=True,
            text=True,
            timeout=110,
        )


@pytest.fixture
def container(aarch64_build, tmp_path):
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None:
        pytest.skip("qemu-aarch64 is not installed (Debian: qemu-user-static)")
    with Aarch64Container(aarch64_build, tmp_path, qemu) as fresh:
        yield fresh


def objdump(option, library):
    done = subprocess.run(
        [f"{CROSS}objdump", option, str(library)], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.parametrize("library", ["libhamid.so", "test/libhamid.so"])
def test_the_same_symbols_are_exported(aarch64_build, library):
    rows = [line.split() for line in objdump("-T", aarch64_build / library).splitlines()]

    exported = sorted(row[-1] for row in rows if ".text" in row)

    assert exported == sorted([*HOOKED, "dlmopen", "dlopen", "dlsym"])


def test_it_asks_for_the_first_glibc_of_this_architecture(aarch64_build):
    library = aarch64_build / "libhamid.so"

    versions = set(re.findall(r"GLIBC_[A-Z0-9.]+", objdump("-T", library)))

    assert versions == {"GLIBC_2.17"}
    needed = set(re.findall(r"NEEDED\s+(\S+)", objdump("-p", library)))
    assert needed <= {"libc.so.6", "ld-linux-aarch64.so.1"}


@pytest.mark.parametrize("way", ["dlsym", "procaddress", "procaddress1", "link"])
def test_the_limit_holds_to_the_last_mib(container, way):
    container.limit((CARD, 3000))
    program = ["--via", way] if way != "link" else []

    done = container.run(f"alloc_mib{'_linked' if way == 'link' else ''}", *program, 3000, 1)

    assert done.stderr == ""
    assert re.findall(r'"cuMemAlloc".*"result": "(\w+)"', done.stdout) == [SUCCESS, OUT_OF_MEMORY]
    assert '"total_mib": 3000, "free_mib": 0' in done.stdout


def test_every_way_to_look_finds_the_hook(container):
    lines = container.run("lookups", "global").stdout.splitlines()
    found = dict(line.rsplit(": ", 1) for line in lines)

    hooked = {way for way in found if "not hooked" not in way and "@" not in way}
    assert {found[way] for way in hooked - {"handle, unknown"}} == {"hook"}
    assert found["next of a later library, not hooked"] == "driver"


@pytest.mark.parametrize("way", ["dlopen", "dlmopen", "found"])
def test_loading_keeps_the_caller_s_runpath(container, way):
    container.limit((CARD, 100))

    done = container.run("deep_binding", way)

    assert (done.stdout, done.stderr) == ("ours 4711\n", "")


def test_a_program_finds_itself_as_it_was(container):
    bare = container.run("innocent", env={"LD_PRELOAD": ""})
    guest = container.run("innocent")

    assert (guest.returncode, guest.stdout, guest.stderr) == (0, bare.stdout, "")


@pytest.mark.parametrize("route", ["async", "mapping", "graph"])
def test_what_is_charged_is_what_the_driver_gave(container, route):
    container.limit((CARD, 1024))

    done = container.run("route", "fill", route, 32)

    charged, physical = re.findall(r'"(?:charged|physical)": (\d+)', done.stdout)
    assert charged == physical == str(1024 << 20)
    assert '"left": 0' in done.stdout


@pytest.mark.parametrize("how", ["kernel", "graph"])
def test_a_cap_holds(container, how):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=None, core_percent=30)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))

    done = container.run("launch", how, 1_000_000, 10_000, env={"HAMID_SIM_CLOCK": "virtual"})

    told = json.loads(done.stdout.splitlines()[-1])
    assert 29 < 100 * told["gpu_ns"] / told["elapsed_ns"] < 31
