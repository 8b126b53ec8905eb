"""The contract of the Kubernetes port, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from uuid import uuid4

import aiohttp
import pytest

from hamid.kube.client import KubeClient
from hamid.kube.errors import NotFound
from hamid.kube.port import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    SERVICE_ACCOUNTS,
    EventKind,
)
from hamid.kube.settings import KubeSettings
from tests.contracts.kube_contract import WholeKubeContract, config_map

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.harness import Cluster


class TestRealServer(WholeKubeContract):
    @pytest.fixture
    async def kube(self, real_cluster: Cluster) -> AsyncIterator[KubeClient]:
        settings = KubeSettings(kubeconfig=real_cluster.kubeconfig, page_size=2)
        async with KubeClient.open(settings) as client:
            yield client

    @pytest.fixture
    async def namespace(self, kube: KubeClient) -> AsyncIterator[str]:
        created = await kube.create(NAMESPACES, {"metadata": {"generateName": "contract-"}})
        name = str(created["metadata"]["name"])
        async with asyncio.timeout(30):
            # Without its default account a namespace takes no pods.
            since = created["metadata"]["resourceVersion"]
            accounts = kube.watch(SERVICE_ACCOUNTS, resource_version=since, namespace=name)
            await anext(accounts)
            await accounts.aclose()

        yield name

        await kube.delete(NAMESPACES, name)

    @pytest.fixture
    async def node_name(self, kube: KubeClient) -> AsyncIterator[str]:
        name = f"contract-{uuid4()}"
        yield name
        with contextlib.suppress(NotFound):
            await kube.delete(NODES, name)

    @pytest.fixture
    async def forgotten_version(self, real_cluster: Cluster, kube: KubeClient) -> str:
        """A version that etcd has compacted away, as the server has it do every five minutes."""
        old = (await kube.list(EVENTS)).resource_version
        created = await kube.create(NAMESPACES, {"metadata": {"generateName": "contract-"}})
        await kube.delete(NAMESPACES, created["metadata"]["name"])
        etcd = f"http://127.0.0.1:{real_cluster.port + 1}/v3/kv/compaction"
        body = {"revision": (await kube.list(EVENTS)).resource_version}
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            await session.post(etcd, json=body)
        return old

    async def test_a_quiet_watch_is_told_how_far_it_has_come(self, kube, namespace):
        """Two seconds before it ends, as every minute of a longer one."""
        since = (await kube.list(CONFIG_MAPS, namespace=namespace)).resource_version
        await kube.create(CONFIG_MAPS, config_map("ours"), namespace=namespace)

        watch = kube.watch(
            CONFIG_MAPS,
            resource_version=since,
            namespace=namespace,
            field_selector="metadata.name=ours",
            timeout_s=6,
        )
        async with contextlib.aclosing(watch) as events:
            assert (await anext(events)).kind is EventKind.ADDED
            other = await kube.create(CONFIG_MAPS, config_map("other"), namespace=namespace)
            found = [event async for event in events]

        assert {event.kind for event in found} == {EventKind.BOOKMARK}
        told = found[-1].object["metadata"]["resourceVersion"]
        assert int(told) >= int(other["metadata"]["resourceVersion"])
