"""A kubelet whose node states memory and cores: it counts them, and refuses none that hamid placed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hamid.model.names import NODE_AMOUNTS
from tests.cluster.stand import stand
from tests.cluster.tenants import container, pod, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.harness import Cluster, Object
    from tests.cluster.stand import Stand

CARDS = 2
CARD_MIB = 40_960


@pytest.fixture(scope="module")
def hamid(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    chart = ("devicePlugin.advertiseAmounts=true",)
    with stand(real_cluster, tmp_path_factory.mktemp("amounts"), count=CARDS, chart=chart) as made:
        yield made
        real_cluster.kubectl("delete", "pods", "--all", "--wait=true")


def stated(nodes: Mapping[str, Object]) -> dict[str, str]:
    """What pods may have of node-1 beside slots, as its kubelet says."""
    allocatable = nodes["node-1"]["status"]["allocatable"]
    names = ("gpumem", "gpumem-percentage", "gpucores", "priority")
    return {name: allocatable.get(f"nvidia.com/{name}") for name in names}


def wait_until_stated(hamid: Stand, mib: int) -> dict[str, str]:
    return hamid.cluster.wait_for(
        "nodes",
        lambda nodes: found if (found := stated(nodes))["gpumem"] == str(mib) else None,
        namespace=None,
    )


def test_it_takes_all_that_hamid_places_and_takes_them_again_when_it_restarts(
    hamid: Stand,
) -> None:
    found = wait_until_stated(hamid, CARDS * CARD_MIB)
    assert found == {
        "gpumem": str(CARDS * CARD_MIB),
        "gpumem-percentage": str(CARDS * 100),
        "gpucores": str(CARDS * 100),
        "priority": str(CARDS * 10),
    }
    assert NODE_AMOUNTS in hamid.cluster.get("node", "node-1")["metadata"]["annotations"]

    # The kubelet counts what an init container takes for as long as the pod lives.
    init = container("prep", {"gpu": "1", "gpumem": "30Gi"}, "1")
    main = container("main", {"gpu": "1", "gpumem": "1000"})
    hamid.cluster.apply(json.dumps(pod("heavy", hamid.sim, main, initContainers=[init])))
    hamid.cluster.wait_for_phase("heavy", "Running")
    wait_until_stated(hamid, CARDS * CARD_MIB + 30 * 1024 - 1000)
    for number in range(6):
        large = container("main", {"gpu": "1", "gpumem": "13000", "gpucores": "10"})
        hamid.cluster.apply(json.dumps(pod(f"large-{number}", hamid.sim, large)))

    hamid.cluster.wait_for("pods", lambda pods: running(pods) == 7)

    hamid.cluster.restart_kubelet()
    hamid.wait_for_slots(CARDS * 10)
    one_more = container("main", {"gpu": "1", "gpumem": "100", "priority": "0"})
    hamid.cluster.apply(json.dumps(pod("one-more", hamid.sim, one_more)))
    hamid.cluster.wait_for("pods", lambda pods: running(pods) == 8)
    wait_until_stated(hamid, CARDS * CARD_MIB + 30 * 1024 - 1000)
