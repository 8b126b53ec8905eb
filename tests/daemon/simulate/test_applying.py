from __future__ import annotations

import asyncio

import pytest

from hamid.daemon.simulate.applying import apply_plan
from hamid.daemon.simulate.plan import Item, Plan
from hamid.errors import SettingsError
from hamid.kube.port import CONFIG_MAPS, NAMESPACES, PODS, RESOURCE_QUOTAS, PatchKind
from tests.daemon.simulate.manifests import container, pod
from tests.e2e.simulation import ONE_V100, simulation
from tests.sched.objects import quota_object

pytestmark = pytest.mark.slow


async def test_a_namespace_that_is_there_is_left_as_it_is(tmp_path):
    namespace = Item(resource=NAMESPACES, object={"metadata": {"name": "default"}})

    async with simulation(tmp_path, nodes=ONE_V100) as cluster:
        await apply_plan(cluster, Plan(first=(namespace,)))


async def test_an_object_that_the_api_server_does_not_take_is_bad_input(tmp_path):
    lost = Item(resource=CONFIG_MAPS, object={"metadata": {"name": "c", "namespace": "nowhere"}})

    async with simulation(tmp_path, nodes=ONE_V100) as cluster:
        with pytest.raises(SettingsError, match="does not take ConfigMap 'c'"):
            await apply_plan(cluster, Plan(first=(lost,)))


async def test_a_quota_holds_for_the_pod_that_comes_right_after_it(tmp_path):
    quota = Item(resource=RESOURCE_QUOTAS, object=quota_object(gpumem=1_500))

    async with simulation(tmp_path, nodes=ONE_V100) as cluster:
        await apply_plan(cluster, Plan(first=(quota,), pods=(asking("a"), asking("b"))))

        a, b = (await cluster.kube.list(PODS)).items
        assert a["spec"]["nodeName"]
        assert "nodeName" not in b["spec"]
        assert (
            "1500 MiB of card memory, 1000 used, 1000 asked"
            in b["status"]["conditions"][0]["message"]
        )


async def test_a_pod_is_placed_when_its_quota_is_raised(tmp_path):
    quota = Item(resource=RESOURCE_QUOTAS, object=quota_object(gpumem=1_500))

    async with simulation(tmp_path, nodes=ONE_V100) as cluster:
        await apply_plan(cluster, Plan(first=(quota,), pods=(asking("a"), asking("b"))))
        spec = {"hard": {"limits.nvidia.com/gpumem": "2000"}}
        await cluster.kube.patch(
            RESOURCE_QUOTAS, "cards", {"spec": spec}, kind=PatchKind.MERGE, namespace="default"
        )

        async with asyncio.timeout(10):
            await cluster.view.wait_until(
                lambda: all(pod["spec"].get("nodeName") for pod in cluster.view.pods.values())
            )


def asking(name):
    item = pod(name, container(gpu=1, mem=1_000), namespace="default")
    return Item(resource=PODS, object=item)
