"""A process that has nothing to do with GPUs does not notice the library; look-ups stay right."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, TIMEOUT_S

pytestmark = pytest.mark.native


@pytest.mark.parametrize("library", ["libhamid.so", "test/libhamid.so"])
def test_a_program_finds_itself_as_it_was(container, library):
    container.limit((CARD, 100))

    bare = container.run("innocent", env={"LD_PRELOAD": ""})
    guest = container.run("innocent", env={"LD_PRELOAD": str(container.build / library)})

    assert (guest.returncode, guest.stderr) == (0, "")
    assert guest.stdout == bare.stdout
    assert list(container.usage_dir.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "echo hello; exit 3"],
        ["env"],
        [sys.executable, "-S", "-c", "import ctypes; print(ctypes.CDLL(None).getpid() > 0)"],
    ],
    ids=["a shell", "env", "python with ctypes"],
)
def test_everyday_programs_say_what_they_said_before(container, command):
    container.write_page(b"nonsense")

    def run(env):
        done = subprocess.run(command, env=env, check=False, capture_output=True, timeout=TIMEOUT_S)
        return done.returncode, done.stdout, done.stderr

    bare = run(container.env)
    code, output, errors = run(container.environment())
    without_preload = [line for line in output.splitlines() if not line.startswith(b"LD_PRELOAD=")]

    assert (code, without_preload, errors) == (bare[0], bare[1].splitlines(), bare[2])


def test_a_static_program_runs_undisturbed(container):
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")

    done = subprocess.run(
        [busybox, "echo", "hello"],
        env=container.environment(),
        check=False,
        capture_output=True,
        timeout=TIMEOUT_S,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")


@pytest.fixture
def looked_up(container):
    """Run `lookups` and give, by way of looking, who was found."""

    def run(*arguments, env=None):
        lines = container.run("lookups", *arguments, env=env).stdout.splitlines()
        return dict(line.rsplit(": ", 1) for line in lines)

    return run


def test_every_way_to_look_finds_the_hook(looked_up):
    found = looked_up("global")

    hooked = {way: who for way, who in found.items() if "not hooked" not in way and "@" not in way}
    assert hooked.pop("handle, unknown") == "nothing"
    assert set(hooked.values()) == {"hook"}
    assert found["handle, not hooked"] == "driver"
    assert found["next of a later library, not hooked"] == "driver"


def test_look_up_by_version_differs_from_the_drivers_only_in_what_is_hooked(looked_up):
    bare = looked_up(env={"LD_PRELOAD": ""})
    found = looked_up()

    by_version = {way for way in bare if "@" in way}
    assert by_version == {way for way in found if "@" in way}
    for way in by_version:
        is_hooked = bare[way] == "driver" and not way.startswith("cuInit")
        assert found[way] == ("hook" if is_hooked else bare[way]), way


def test_the_umask_and_the_owner_of_the_usage_page_do_not_lock_others_out(container):
    container.limit((CARD, 100))
    before = os.umask(0o077)
    try:
        container.alloc(1)
    finally:
        os.umask(before)

    (page,) = container.usage_dir.iterdir()

    assert page.stat().st_mode & 0o777 == 0o666


# What it finds of itself when it has done all that has the library at work: refused, waited, forked, been told.
AT_WORK = """
import json, os, signal
from ctypes import *
from pathlib import Path
signal.signal(signal.SIGUSR1, lambda *_: None)
os.umask(0o027)
cuda, nvml = CDLL("libcuda.so.1"), CDLL("libnvidia-ml.so.1")
context, stream, module, function, device = (c_void_p() for _ in range(5))
address, size = c_ulonglong(), c_size_t
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(byref(address), size(60 << 20)) == 0
cuda.cuMemAlloc_v2(byref(address), size(60 << 20))
assert cuda.cuModuleLoadData(byref(module), b".version 8.0\\n.target sm_80\\n.address_size 64\\n") == 0
assert cuda.cuModuleGetFunction(byref(function), module, b"sim_1000000ns") == 0
for _ in range(20):
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
assert cuda.cuCtxSynchronize() == 0
assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, (c_ulonglong * 3)()) == 0
child = os.fork()
if child == 0:
    os._exit(0)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
environment, at = POINTER(c_char_p).in_dll(CDLL(None), "environ"), 0
words = []
while environment[at]:
    words.append(environment[at].decode())
    at += 1
files = {}
for name in os.listdir("/proc/self/fd"):
    try:
        files[name] = [os.readlink(f"/proc/self/fd/{name}"), os.get_inheritable(int(name))]
    except OSError:
        pass  # the one that lists them
mask = os.umask(0)
print(json.dumps({
    "child": os.waitpid(child, 0)[1],
    "status": {name: status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt", "Threads")},
    "umask": mask,
    "directory": os.getcwd(),
    "environment": sorted(word for word in words if not word.startswith("LD_PRELOAD=")),
    "files": sorted(files.values()),
}))
"""


def test_a_program_that_uses_a_gpu_finds_itself_as_it_was_but_for_the_usage_page(container):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=100 * MIB, core_percent=30)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))
    found = []
    for env in (container.env, container.environment()):
        done = subprocess.run(
            [sys.executable, "-c", AT_WORK],
            env=env,
            cwd=container.limits_dir.parent,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
        (line,) = done.stdout.splitlines()
        found.append(json.loads(line))

    bare, ours = found
    page = [str(container.usage_dir / USAGE_PAGE_NAME), False]
    assert page in ours["files"]
    ours["files"].remove(page)
    # Pipes have numbers of their own.
    for one in (bare, ours):
        one["files"] = sorted([name.split(":")[0], kept] for name, kept in one["files"])
    assert ours == bare
