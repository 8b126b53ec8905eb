"""What the daemon's monitor reads of processes that the library watches over."""

from __future__ import annotations

import pytest

from hamid.hooks.monitor import read_usage
from tests.native.container import CARD, MIB

pytestmark = pytest.mark.native


def held_mib(container):
    return read_usage(container.usage_dir).used_bytes(CARD) // MIB


def test_the_monitor_reads_what_living_processes_hold_and_not_what_killed_ones_held(container):
    container.limit((CARD, 100))
    first, _second = container.start(60), container.start(30)
    assert held_mib(container) == 90

    first.kill()

    assert held_mib(container) == 30


def test_a_container_that_has_asked_for_nothing_has_no_page_to_read(container):
    container.limit((CARD, 100))

    container.alloc()

    assert read_usage(container.usage_dir) is None
