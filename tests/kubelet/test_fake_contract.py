"""The contract of the kubelet, on the fake."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from hamid.kubelet.fake import FakeKubelet, Phase
from tests.contracts.kubelet_contract import KubeletContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from hamid.kubelet.fake import FakePod


class FakeWorld:
    """The fake kubelet; what a real one retries by itself is retried here."""

    resource_name = "nvidia.com/gpu"

    def __init__(self, root: Path) -> None:
        kubelet = FakeKubelet(root)
        self.device_plugin_directory = kubelet.device_plugin_directory
        self.checkpoint_path = kubelet.checkpoint_path
        self.pod_resources_socket = kubelet.pod_resources_socket
        self.pods_api_socket = kubelet.pods_api_socket
        self._kubelet = kubelet

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with self._kubelet:
            yield

    async def create(self, pod: FakePod) -> str:
        await self._kubelet.run_pod(pod)
        return pod.uid

    async def wait_for_phase(self, pod: FakePod, phase: Phase) -> tuple[str, str]:
        status = self._kubelet.statuses[pod.uid]
        if status.phase is Phase.PENDING:
            status = await self._kubelet.start_pod(pod.uid)
        assert status.phase is phase, status
        return status.reason, status.message

    async def wait_for_allocatable(self, count: int) -> None:
        await self._kubelet.wait_for_allocatable(self.resource_name, count)

    async def restart(self) -> None:
        await self._kubelet.restart()


class TestFakeKubelet(KubeletContract):
    @pytest.fixture
    def world(self, short_path):
        return FakeWorld(short_path)
