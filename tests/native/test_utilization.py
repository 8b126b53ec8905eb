"""How busy the card is: a tenant is told of its own processes and of its own part."""

import contextlib
import json
import subprocess
import sys

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, TIMEOUT_S

pytestmark = pytest.mark.native

CAP_PERCENT = 30
BUSY_MS = 20_000

ASKER = """
import json, os, sys, time, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
def rates():
    told = pynvml.nvmlDeviceGetUtilizationRates(device)
    return [told.gpu, told.memory]
def pids(ask):
    try:
        return sorted(sample.pid for sample in ask(device, 0))
    except pynvml.NVMLError_NotFound:
        return []
def loads():
    return pids(pynvml.nvmlDeviceGetProcessUtilization)
def loads_in_one():
    return pids(pynvml.nvmlDeviceGetProcessesUtilizationInfo)
wanted, until = int(sys.argv[1]), time.monotonic() + 30
def samples():
    return sorted({each.sampleValue.uiVal for kind in (1, 2) for each in pynvml.nvmlDeviceGetSamples(device, kind, 0)[1]})
first = rates()
while wanted and (len(loads()) < wanted or rates()[0] in (0, first[0])) and time.monotonic() < until:
    pass
print(json.dumps({"first": first, "rates": rates(), "loads": loads(), "in one": loads_in_one(), "samples": samples()}))
"""


def limit(container, percent):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=1000 * MIB, core_percent=percent)
    page = encode_control_page(ContainerLimits(devices=(device,), priority=1, generation=1))
    container.write_page(page)


def told(container, *, busy=0):
    """What NVML says, once it has seen that many busy processes."""
    done = subprocess.run(
        [sys.executable, "-c", ASKER, str(busy)],
        env=container.environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def running(container):
    """Starts a program that keeps the device busy, under the library or beside it."""
    with contextlib.ExitStack() as stack:

        def start(**env):
            process = stack.enter_context(
                subprocess.Popen(
                    [str(container.build / "bin/launch"), "kernel", "1000000", str(BUSY_MS)],
                    env=container.environment({"HAMID_TEST_LOOK_EVERY_MS": "50", **env}),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("\n")
            process.stdin.flush()
            return process.pid

        yield start


def busy_card(container):
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("name=", "gpu_util=80\nmem_util=40\nname=", 1))


def test_an_idle_container_with_a_cap_is_told_that_it_is_idle_on_a_card_that_is_busy(container):
    busy_card(container)
    limit(container, CAP_PERCENT)
    container.start(60)

    seen = told(container)

    assert (seen["rates"], seen["samples"]) == ([0, 0], [0])


def test_a_container_with_a_cap_in_which_nothing_ever_ran_is_told_that_it_is_idle(container):
    busy_card(container)
    limit(container, CAP_PERCENT)

    assert told(container)["rates"] == [0, 0]


@pytest.mark.parametrize("percent", [0, 100])
def test_without_a_cap_the_card_s_own_figures_stand(container, percent):
    busy_card(container)
    limit(container, percent)

    seen = told(container)

    assert (seen["rates"], seen["samples"]) == ([80, 40], [40, 80])


def test_a_busy_container_is_told_its_own_part_and_its_own_processes(container, running):
    limit(container, CAP_PERCENT)
    own = running()
    running(LD_PRELOAD="")  # another container's

    seen = told(container, busy=1)

    assert seen["loads"] == seen["in one"] == [own]
    assert 0 < seen["rates"][0] <= CAP_PERCENT + 10


def test_of_others_processes_a_container_is_told_nothing(container, running):
    limit(container, CAP_PERCENT)
    running(LD_PRELOAD="")

    seen = told(container)

    assert seen["loads"] == seen["in one"] == []
