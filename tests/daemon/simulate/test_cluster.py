from __future__ import annotations

import aiohttp
import pytest

from hamid.daemon.simulate import cluster as room
from hamid.kube.port import MUTATING_WEBHOOKS, PODS
from tests.daemon.simulate.manifests import pod
from tests.e2e.simulation import ONE_V100, simulation

pytestmark = pytest.mark.slow


async def test_it_begins_when_the_scheduler_leads_and_knows_all_cards(tmp_path):
    async with (
        simulation(tmp_path, nodes=ONE_V100) as cluster,
        aiohttp.ClientSession(cluster.status_url) as session,
        session.get("/debug/cache") as response,
    ):
        cache = await response.json()

    (node,) = cache["nodes"]
    assert cache["is_synced"]
    assert len(node["usages"]) == 1


async def test_it_explains_pods_and_counts_how_many_more_fit(tmp_path):
    async with (
        simulation(tmp_path, nodes=ONE_V100) as cluster,
        aiohttp.ClientSession(cluster.status_url) as session,
        session.get("/fit?gpu=1") as counted,
        session.get("/explain/default/nobody") as explained,
    ):
        fit = await counted.json()

    assert fit["pods"] == 1
    assert explained.status == 404


async def test_pods_pass_the_webhook_over_https(tmp_path):
    async with simulation(tmp_path, pod("a"), nodes=ONE_V100) as cluster:
        (configuration,) = (await cluster.kube.list(MUTATING_WEBHOOKS)).items

    assert configuration["webhooks"][0]["clientConfig"]["url"].startswith("https://127.0.0.1:")


async def test_a_pod_that_does_not_come_to_rest_is_said_and_not_waited_for(
    tmp_path, monkeypatch, assert_logged
):
    monkeypatch.setattr(room, "PATIENCE_S", 0.0)
    async with simulation(tmp_path, nodes=ONE_V100) as cluster:
        created = await cluster.kube.create(PODS, pod("a"), namespace="default")

        await room.settle(cluster.view, cluster.scheduler, created)

    assert_logged("pod did not come to rest", pod="default/a")
