"""Loading and starting the library, on the simulated one."""

import pytest

from hamid.nvml.client import NvmlClient
from hamid.nvml.errors import DriverUnavailable
from tests.contracts.nvml_contract import CARDS


async def test_a_library_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DriverUnavailable, match=r"libnvidia-ml\.so\.1") as caught:
        async with NvmlClient.open(library_path=tmp_path / "libnvidia-ml.so.1"):
            pass

    assert "install the NVIDIA driver" in caught.value.hint


@pytest.mark.parametrize(
    ("fail", "says", "hint"),
    [
        pytest.param("driver_not_loaded", "error 9", "kernel driver", id="no kernel driver"),
        pytest.param("version_mismatch", "error 18", "reboot", id="library of another version"),
    ],
)
async def test_a_driver_that_cannot_be_used_says_what_to_do(
    sim_machine, sim_library, fail, says, hint
):
    sim_machine.driver_lines = [f"fail={fail}"]
    sim_machine.write()

    with pytest.raises(DriverUnavailable, match=says) as caught:
        async with NvmlClient.open(library_path=sim_library):
            pass

    assert hint in caught.value.hint


async def test_it_can_be_opened_again_after_a_failure(sim_machine, sim_library):
    sim_machine.break_driver()
    with pytest.raises(DriverUnavailable):
        async with NvmlClient.open(library_path=sim_library):
            pass

    sim_machine.mend_driver()
    async with NvmlClient.open(library_path=sim_library) as client:
        devices = await client.list_devices()

    assert len(devices) == len(CARDS)
