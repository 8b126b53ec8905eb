"""The benchmark of a burst on a real node still runs, at its smallest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.bench_burst import OURS, measure

if TYPE_CHECKING:
    from tests.cluster.harness import Cluster


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_each_case_has_a_line(real_cluster: Cluster, capsys: pytest.CaptureFixture[str]):
    measure(real_cluster, 3, rest_s=0)

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {line["case"]: line["value"] for line in lines}
    assert found.keys() == {
        "all_running/3-pods",
        "all_running/no-gpu/3-pods",
        "own_code_share",
        "own_code_share/admission",
        "own_code_per_pod",
        *(f"own_code_per_pod/{part}" for part in OURS),
        *(f"calls_per_pod/{part}" for part in OURS),
        "daemon_cpu_per_pod",
    }
    assert found["calls_per_pod/allocate"] == found["calls_per_pod/bind"] == 1
