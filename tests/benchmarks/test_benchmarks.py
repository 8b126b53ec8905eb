"""Each benchmark still runs, at its smallest, and prints lines that a program can read."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEYS = {"bench", "case", "unit", "value"}
OF_SAMPLES = {"median", "p99", "n"}
TIMES = {"us", "ms", "s"}

pytestmark = [pytest.mark.slow, pytest.mark.native]


@functools.cache
def lines_of(name: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.bench_{name}", "--smallest"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("footprint", {"rss_mib", "cpu_percent", "rss_mib/follower", "cpu_percent/follower"}),
        ("allocate", {"allocate/1-waiting/pods-api", "pre-start/2-at-once/list-only"}),
        ("codec", {"node/decode/8-cards", "record/encode"}),
        ("packing", {"fragmentation"}),
        ("packing2d", {"fragmentation", "best-fit", "hami"}),
        ("placement", {"20", "20/decision"}),
        ("explain", {"pending/whole-card", "fit", "fit/drained"}),
        (
            "extender",
            {"filter/2-nodes", "prioritize/2-nodes", "both/2-nodes/mixed", "cpu_s/2-nodes"},
        ),
        ("bind", {"calls_per_pod", "calls_per_pod/create-pods/binding", "idle_calls_per_s"}),
    ],
)
def test_each_line_names_its_case_unit_and_value(name: str, cases: set[str]):
    lines = lines_of(name)

    assert all(line.keys() >= KEYS for line in lines)
    assert {line["bench"] for line in lines} == {name}
    assert cases <= {line["case"] for line in lines}
    for line in lines:
        assert line.keys() & OF_SAMPLES in (set(), OF_SAMPLES)
        if line["unit"] in TIMES:  # of how many times it was measured, and how much they differ
            assert line["value"] == line["median"] <= line["p99"]
            assert line["n"] >= 1


def test_a_pod_costs_one_api_call():
    values = {line["case"]: line["value"] for line in lines_of("bind")}

    assert values["calls_per_pod"] == 1


def test_where_no_cluster_can_run_a_burst_says_why_and_ends_with_3(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_burst", "--smallest"],
        cwd=ROOT,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HAMID_CLUSTER_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 3
    assert done.stdout == ""
    assert "no burst on this machine: " in done.stderr
