"""The checks of a real card (tests/gpu/test_real_card.py) on the simulated one: they work."""

from typing import ClassVar

import pytest

from tests.contracts.card_contract import CardContract
from tests.gpu.test_real_card import real_environment
from tests.native.container import NATIVE

pytestmark = pytest.mark.native


def test_a_real_card_s_checks_find_the_machine_s_own_driver_and_never_the_simulated_one():
    environ = {
        "LD_LIBRARY_PATH": f"{NATIVE}/build/sim:/usr/local/nvidia/lib64::{NATIVE}/build/bench/",
        "CUDA_VISIBLE_DEVICES": "3",
        "LD_PRELOAD": "/x/other.so",
    }

    assert real_environment(environ) == {
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "CUDA_VISIBLE_DEVICES": "3",
    }
    assert real_environment({}) == {"LD_LIBRARY_PATH": ""}


class TestSimulatedCard(CardContract):
    """Only one cap, and only what is over it counts: the machine may be busy."""

    CAPS: ClassVar = [30]
    UNDER_POINTS = 20.0
    OVER_POINTS = 4.0
    SECONDS = 2.0
    NVML_LIBRARY = NATIVE / "build" / "sim" / "libnvidia-ml.so.1"

    @pytest.fixture
    def place(self, container, monkeypatch):
        for name in ("HAMID_SIM_DEVICES", "HAMID_SIM_STATE"):
            monkeypatch.setenv(name, container.env[name])
        return container
