from __future__ import annotations

import json

import pytest

from benchmarks.report import Stopwatch, emit, rounded, stats


@pytest.mark.parametrize(
    ("samples", "median", "p99"),
    [
        pytest.param([7.0], 7.0, 7.0, id="of one sample all figures are that sample"),
        pytest.param([3.0, 1.0, 2.0], 2.0, 3.0, id="of few samples p99 is the largest"),
        pytest.param(range(1, 101), 50.5, 99, id="of a hundred samples p99 is the 99th"),
        pytest.param(range(1, 301), 150.5, 297, id="of three hundred samples p99 is the 297th"),
    ],
)
def test_stats_are_of_the_ordered_samples(samples, median, p99):
    found = stats(list(samples))

    assert (found.median, found.p99, found.n) == (median, p99, len(samples))


def test_a_line_of_samples_has_the_median_as_its_value(capsys):
    emit("allocate", "one", unit="ms", samples=[3.0, 1.0, 2.0])

    line = json.loads(capsys.readouterr().out)
    assert line == {
        "bench": "allocate",
        "case": "one",
        "unit": "ms",
        "value": 2.0,
        "median": 2.0,
        "p99": 3.0,
        "n": 3,
    }


def test_a_line_of_one_value_has_no_statistics(capsys):
    emit("bind", "calls", unit="calls", value=1)

    assert json.loads(capsys.readouterr().out) == {
        "bench": "bind",
        "case": "calls",
        "unit": "calls",
        "value": 1.0,
    }


def test_a_figure_without_a_value_is_refused():
    with pytest.raises(ValueError, match="neither a value nor samples"):
        emit("bind", "calls", unit="calls")


def test_figures_are_rounded_to_what_is_compared():
    assert [rounded(1.23456), rounded(12345.6)] == [1.235, 12346.0]


def test_samples_of_a_name_begin_anew_once_taken():
    watch = Stopwatch()
    with watch.timing("call"):
        pass

    assert len(watch.take("call")) == 1
    assert watch.take("call") == []


def test_a_block_that_fails_is_no_sample():
    watch = Stopwatch()
    with pytest.raises(KeyError), watch.timing("call"):
        raise KeyError

    assert watch.take("call") == []
