"""Programs and runtimes of today on a real card: each gets its share by every route, and no more."""

import pytest

from tests.contracts.card_contract import card_of
from tests.gpu.test_real_card import real_place
from tests.native.clients.machine import Client, assert_filled, client_directory

LIMIT_MIB = 2048

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

PROGRAMS = [
    ("cuda11", "with_runtime.py"),
    ("cuda12", "with_runtime.py"),
    ("cuda13", "with_runtime.py"),
    ("cuda13", "core.py"),
    ("numba", "with_numba.py"),
    ("tinygrad", "with_tinygrad.py"),
    ("taichi", "with_taichi.py"),
    ("torch", "with_torch.py"),
    ("cupy", "with_cupy.py"),
]


@pytest.mark.parametrize(("name", "program"), PROGRAMS, ids=map("-".join, PROGRAMS))
def test_a_client_fills_its_share_and_no_more(tmp_path, name, program):
    directory = client_directory(name)
    with real_place(tmp_path) as place:
        place.limit((card_of(place), LIMIT_MIB))

        lines = Client(directory=directory, container=place).program(program, is_limited=True)

    assert_filled(lines, LIMIT_MIB)
