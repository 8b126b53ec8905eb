"""The library on a real card: what the simulated driver cannot prove."""

import contextlib

import pytest

from tests.contracts.card_contract import CardContract
from tests.native.container import Container, build

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


@contextlib.contextmanager
def real_place(directory):
    """A container of ours on this machine's first card, with its driver."""
    with Container(build("all"), directory) as fresh:
        fresh.env["LD_LIBRARY_PATH"] = ""
        for name in ("HAMID_SIM_DEVICES", "HAMID_SIM_STATE"):
            del fresh.env[name]
        fresh.env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's
        yield fresh


class TestRealCard(CardContract):
    @pytest.fixture
    def place(self, tmp_path):
        with real_place(tmp_path) as fresh:
            yield fresh
