"""The real client against the fake server, over real HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hamid.kube.client import KubeClient
from hamid.kube.fake import FakeApiServer
from hamid.kube.port import NAMESPACES
from hamid.kube.settings import KubeSettings
from tests.contracts.kube_contract import WholeKubeContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer.serve() as server:
        yield server


@pytest.fixture
async def kube(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient.open(KubeSettings(server=server.url, page_size=2)) as client:
        yield client


class TestKubeClient(WholeKubeContract):
    @pytest.fixture
    def node_name(self) -> str:
        return "n1"

    @pytest.fixture
    async def forgotten_version(self, server: FakeApiServer, kube: KubeClient) -> str:
        found = await kube.list(NAMESPACES)
        await kube.create(NAMESPACES, {"metadata": {"name": "more"}})
        server.api.store.compact()
        return found.resource_version
