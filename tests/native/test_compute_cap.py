"""The compute cap on the simulated driver: GPU time used, whatever starts the work.

Above the cap nothing is excused. Below, a fifth is enough: a busy machine launches late, and how
close a tenant comes to its share is what `bench-cap` measures.
"""

import contextlib
import json
import subprocess

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, TIMEOUT_S

pytestmark = pytest.mark.native

OVER_POINTS = 4
MS = 1_000_000


def cap(container, percent: int, generation: int = 1) -> None:
    device = DeviceLimit(device_uuid=CARD, memory_bytes=None, core_percent=percent)
    container.write_page(
        encode_control_page(
            ContainerLimits(devices=(device,), priority=1, generation=generation),
        )
    )


class Busy:
    """A running `launch`, which begins when told."""

    def __init__(self, container, stack, how: str, kernel_ns: int, milliseconds: int):
        self.process = stack.enter_context(
            subprocess.Popen(
                [str(container.build / "bin/launch"), how, str(kernel_ns), str(milliseconds)],
                env=container.environment({"HAMID_TEST_LOOK_EVERY_MS": "50"}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(self.process.kill)
        assert self.process.stdout.readline() == "ready\n"

    def begin(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def percent(self) -> float:
        """The share of the device that it got."""
        told = json.loads(self.process.stdout.readline())
        assert self.process.wait(TIMEOUT_S) == 0
        return 100 * told["gpu_ns"] / told["elapsed_ns"]


@pytest.fixture
def busy(container):
    with contextlib.ExitStack() as stack:
        yield lambda *work: Busy(container, stack, *work)


def got(tenant: Busy) -> float:
    tenant.begin()
    return tenant.percent()


@pytest.mark.parametrize("kernel_ns", [MS // 10, MS, 10 * MS])
@pytest.mark.parametrize("percent", [10, 30, 50, 70])
def test_a_tenant_gets_its_share_of_time_and_no_more(container, busy, percent, kernel_ns):
    cap(container, percent)

    assert percent / 5 < got(busy("kernel", kernel_ns, 1000)) < percent + OVER_POINTS


@pytest.mark.parametrize("how", ["ex", "coop", "sync", "graph", "streams"])
def test_every_form_of_launch_is_charged(container, busy, how):
    cap(container, 30)

    assert 6 < got(busy(how, MS // 5, 1000)) < 30 + OVER_POINTS


@pytest.mark.parametrize("percent", [0, 100])
def test_without_a_cap_nobody_waits(container, busy, percent):
    cap(container, percent)

    assert got(busy("kernel", MS, 500)) > 50


def test_two_processes_of_a_container_share_one_cap(container, busy):
    cap(container, 40)
    tenants = [busy("kernel", MS, 1500), busy("kernel", MS, 1500)]
    for tenant in tenants:
        tenant.begin()

    assert 8 < sum(tenant.percent() for tenant in tenants) < 40 + OVER_POINTS


def test_a_killed_process_leaves_no_debt_behind(container, busy):
    cap(container, 30)
    killed, survivor = busy("kernel", MS, 60_000), busy("kernel", MS, 1000)
    killed.begin()
    survivor.begin()
    killed.process.kill()

    assert 6 < survivor.percent() < 30 + OVER_POINTS


def test_a_cap_that_is_lifted_is_seen_by_who_runs(container, busy):
    cap(container, 10)
    tenant = busy("kernel", MS, 2000)
    tenant.begin()
    cap(container, 100, generation=2)

    assert tenant.percent() > 20


def test_a_cap_that_comes_is_seen_by_who_runs(container, busy):
    cap(container, 0)
    tenant = busy("sync", MS, 2000)
    tenant.begin()
    cap(container, 10, generation=2)

    assert tenant.percent() < 60
