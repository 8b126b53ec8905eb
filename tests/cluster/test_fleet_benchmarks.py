"""The benchmarks on simulated nodes still run, at their smallest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.harness import helm, skipped_without_cluster

ROOT = Path(__file__).parents[2]
CANNOT = 3
"""What a benchmark ends with where no cluster can be had; the last line it says has the reason."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("cluster", {"ours", "ours/all-nodes", "yes", "none", "ratio", "ratio/all-nodes"}),
        ("one_node", {"3-pods"}),
        ("coldstart", {"new-nodes", "running-pods"}),
        (
            "wakeup",
            {
                "pod-gone",
                "pod-gone/100-waiting",
                "cordon-lifted",
                "card-healthy",
                "node-back",
                "quota-raised",
            },
        ),
    ],
)
def test_each_case_has_a_line(name: str, cases: set[str]):
    with skipped_without_cluster():
        helm()

    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.bench_{name}", "--smallest"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )

    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["case"] for line in lines} == cases
    assert all(
        line.keys() >= {"median", "p99", "n"} for line in lines if "/yes" not in line["unit"]
    )
