"""The library on a real card: what the simulated driver cannot prove."""

import contextlib
import os
from pathlib import Path

import pytest

from tests.contracts.card_contract import CardContract
from tests.native.container import NATIVE, Container, build

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

KEPT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")
"""Which of a machine's cards are meant, as whoever runs the tests says."""


def real_environment(environ):
    """What programs need to find this machine's own driver and cards; never the simulated ones."""
    places = environ.get("LD_LIBRARY_PATH", "").split(":")
    simulated = NATIVE / "build"
    own = [p for p in places if p and not Path(p).resolve().is_relative_to(simulated)]
    kept = {name: environ[name] for name in KEPT if name in environ}
    return {**kept, "LD_LIBRARY_PATH": ":".join(own)}


@contextlib.contextmanager
def real_place(directory):
    """A container of ours with this machine's own driver, on the first card that CUDA shows."""
    with Container(build("all"), directory) as fresh:
        for name in ("HAMID_SIM_DEVICES", "HAMID_SIM_STATE"):
            del fresh.env[name]
        fresh.env |= real_environment(os.environ)  # noqa: TID251 - the machine's own
        yield fresh


class TestRealCard(CardContract):
    @pytest.fixture
    def place(self, tmp_path):
        with real_place(tmp_path) as fresh:
            yield fresh
