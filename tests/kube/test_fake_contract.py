"""The contract of the Kubernetes port, on the fake in the process."""

from __future__ import annotations

import pytest

from hamid.kube.fake import FakeKube
from hamid.kube.port import NAMESPACES
from tests.contracts.kube_contract import WholeKubeContract


@pytest.mark.looptime
class TestFakeKube(WholeKubeContract):
    """In virtual time."""

    @pytest.fixture
    def kube(self) -> FakeKube:
        return FakeKube()

    @pytest.fixture
    def node_name(self) -> str:
        return "n1"

    @pytest.fixture
    async def forgotten_version(self, kube: FakeKube) -> str:
        found = await kube.list(NAMESPACES)
        await kube.create(NAMESPACES, {"metadata": {"name": "more"}})
        kube.api.store.compact()
        return found.resource_version
