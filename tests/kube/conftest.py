from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hamid.kube.client import KubeClient
from hamid.kube.fake import FakeApiServer
from hamid.kube.settings import KubeSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer.serve() as server:
        yield server


@pytest.fixture
async def kube(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    settings = KubeSettings(server=server.url, page_size=2, retry_first_wait_s=0)
    async with KubeClient.open(settings) as client:
        yield client
