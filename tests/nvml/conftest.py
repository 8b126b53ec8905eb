import pytest

from hamid.nvml.profiles import simulated_cards
from tests.contracts.nvml_contract import CARDS
from tests.nvml.machine import SimMachine, built


@pytest.fixture(scope="session")
def sim_library():
    return built("libnvidia-ml.so.1")


@pytest.fixture
def sim_machine(tmp_path, monkeypatch):
    """The simulated driver of this test; the library reads these names when it is initialised."""
    path = tmp_path / "devices"
    monkeypatch.setenv("HAMID_SIM_DEVICES", str(path))
    monkeypatch.setenv("HAMID_SIM_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    return SimMachine(path, CARDS, extra=simulated_cards([("L40S", 6)], node_name="extra"))
