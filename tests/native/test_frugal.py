"""What is called often costs no system call: neither launches nor allocations, with a cap or without."""

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, build

pytestmark = pytest.mark.native

NOT_HERE = 77


@pytest.mark.parametrize("percent", [0, 50])
def test_launches_and_allocations_make_no_system_call(container, percent):
    build("build/bench/libcuda.so.1")
    device = DeviceLimit(device_uuid=CARD, memory_bytes=1000 * MIB, core_percent=percent)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))
    env = {
        "LD_LIBRARY_PATH": str(container.build / "bench"),
        "HAMID_TEST_LOOK_EVERY_MS": "1000000",  # a look at the page is one, 20 times a second
    }

    done = container.run("frugal", env=env)

    if done.returncode == NOT_HERE:
        pytest.skip("system calls cannot be forbidden here, or the clock is one")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
