"""Grants by CDI on the real kubelet and containerd: the spec is final only at the start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.stand import stand
from tests.cluster.tenants import REFUSED, TAKEN, container, grants, pod, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.harness import Cluster
    from tests.cluster.stand import Stand


@pytest.fixture(scope="module")
def hamid(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    root = tmp_path_factory.mktemp("cdi")
    with stand(real_cluster, root, settings={"plugin": {"grant_mode": "cdi"}}) as made:
        yield made
        real_cluster.kubectl("delete", "pods", "--all", "--wait=true")


def test_limits_hold_that_came_by_cdi(hamid: Stand) -> None:
    limits = {"gpu": "1", "gpumem": "640"}
    init = container("prep", {"gpu": "1", "gpumem": "64"}, "64", "1")
    hamid.cluster.apply(
        json.dumps(
            pod("by-cdi", hamid.sim, container("main", limits, "640", "1"), initContainers=[init])
        )
    )

    hamid.cluster.wait_for_phase("by-cdi", "Succeeded")

    for name, mib in (("prep", 64), ("main", 640)):
        assert results(hamid, "by-cdi", name) == [
            (mib, TAKEN),
            (1, REFUSED),
        ]


def test_each_grant_has_a_spec_of_its_own_that_others_leave_alone(hamid: Stand) -> None:
    hamid.cluster.apply(
        json.dumps(pod("anew", hamid.sim, container("main", {"gpu": "1", "gpumem": "64"})))
    )
    hamid.cluster.wait_for_phase("anew", "Running")
    (grant,) = [g for g in grants(hamid) if g.pod_name == "anew"]
    spec = hamid.cluster.node().cdi / f"hamid-{grant.grant_id}.json"
    before = json.loads(spec.read_text())

    hamid.cluster.apply(
        json.dumps(pod("other", hamid.sim, container("main", {"gpu": "1", "gpumem": "65"}, "65")))
    )
    hamid.cluster.wait_for_phase("other", "Succeeded")

    assert grant.is_final
    assert json.loads(spec.read_text()) == before
    assert before["devices"][0]["name"] == grant.grant_id
