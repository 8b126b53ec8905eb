"""The real client on the simulated library: the contract, and what only the real one has."""

import pytest

from hamid.nvml.client import NvmlClient
from hamid.nvml.errors import DriverStuck
from tests.contracts.nvml_contract import T4_A, NvmlContract, by_uuid


class TestClient(NvmlContract):
    @pytest.fixture
    def machine(self, sim_machine):
        return sim_machine

    @pytest.fixture
    async def port(self, machine, sim_library):  # noqa: ARG002 - the machine is set up first
        async with NvmlClient.open(library_path=sim_library) as client:
            yield client


async def test_a_stuck_driver_misses_its_deadline_and_answers_when_it_comes_back(
    sim_machine, sim_library
):
    async with NvmlClient.open(library_path=sim_library, deadline_s=0.05) as client:
        sim_machine.add(T4_A, "fail=hang")
        with pytest.raises(DriverStuck, match=r"within 0\.05 s") as caught:
            await client.sample_devices()
        sim_machine.mend(T4_A)
        while True:
            try:
                samples = await client.sample_devices()
                break
            except DriverStuck:
                continue  # on a slow machine the thread is not free yet

    assert "reboot" in caught.value.hint
    assert by_uuid(samples)[T4_A].fault is None
