"""Kernels take time on a card that all processes share.

Times are compared with each other, or bounded on the side that a slow machine cannot cross.
"""

import json
import signal

import pytest

pytestmark = [pytest.mark.native, pytest.mark.slow]


def test_events_tell_the_time_between_them(machine):
    seen = machine.run("events")

    assert seen["early"] == 600
    assert seen["ms"] >= 20


def test_with_a_virtual_clock_times_are_exact(machine):
    assert machine.run("events", HAMID_SIM_CLOCK="virtual")["ms"] == 20


def test_a_grid_takes_as_long_as_its_waves(machine):
    assert machine.run("waves", HAMID_SIM_CLOCK="virtual") == [1, 1, 4]


def test_nvml_tells_how_busy_card_and_processes_were(machine):
    assert machine.run("utilisation", HAMID_SIM_CLOCK="virtual") == {
        "before": 0,
        "card": 100,
        "processes": [0, 1],
        "is us": True,
        "of it": 100,
    }


NOT_FOUND = 6


def test_what_nvml_tells_is_of_the_last_whole_window_and_so_is_late(machine):
    """A second's work, in a window of two."""
    seen = machine.run("utilisation", HAMID_SIM_CLOCK="virtual", HAMID_SIM_WINDOW_MS="2000")

    assert (seen["before"], seen["card"], seen["processes"]) == (0, 0, [NOT_FOUND, 0])


def busy(process):
    output, errors = process.communicate(timeout=60)
    assert output, errors
    return json.loads(output.splitlines()[-1])


def test_two_processes_share_the_card_and_never_get_more_than_there_is(machine):
    pair = [machine.start("keep_busy", 1) for _ in range(2)]

    seen = [busy(process) for process in pair]

    span_ms = max(one["ended_ms"] for one in seen) - min(one["begun_ms"] for one in seen)
    assert sum(one["busy_ms"] for one in seen) <= span_ms
    assert min(one["busy_ms"] for one in seen) > 0


def test_a_killed_process_leaves_the_card_to_the_others(machine):
    victim = machine.start("keep_busy", 60)
    assert victim.stdout.readline() == "ready\n"
    victim.send_signal(signal.SIGKILL)
    victim.communicate()

    alone = busy(machine.start("keep_busy", 0.5))

    assert alone["busy_ms"] > 0
