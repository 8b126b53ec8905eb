"""The contract of the kubelet, on a real one."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cluster.harness import BUSYBOX
from tests.contracts.kubelet_contract import KubeletContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hamid.kubelet.fake import FakeContainer, FakePod, Phase
    from tests.cluster.harness import Cluster, Object

SELECTOR = "suite=kubelet-contract"


class RealWorld:
    """The kubelet of node-1; pods are bound to it by name, so no scheduler takes part."""

    resource_name = "contract.example.com/slot"

    def __init__(self, cluster: Cluster) -> None:
        node = cluster.node(1)
        self.device_plugin_directory = node.device_plugins
        self.checkpoint_path = node.checkpoint
        self.pod_resources_socket = node.pod_resources_socket
        self.pods_api_socket = node.pods_api_socket
        self._node_name = node.name
        self._cluster = cluster

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(
                self._cluster.kubectl, "delete", "pods", "--selector", SELECTOR, "--wait"
            )
            await self.wait_for_allocatable(0)  # else the next test would see this one's

    async def create(self, pod: FakePod) -> str:
        manifest = json.dumps(_manifest(pod, self._node_name))
        await asyncio.to_thread(self._cluster.apply, manifest)
        created = await asyncio.to_thread(
            self._cluster.get, "pod", pod.name, namespace=pod.namespace
        )
        return created["metadata"]["uid"]

    async def wait_for_phase(self, pod: FakePod, phase: Phase) -> tuple[str, str]:
        found = await asyncio.to_thread(
            self._cluster.wait_for_phase, pod.name, phase, namespace=pod.namespace
        )
        return found["status"].get("reason", ""), found["status"].get("message", "")

    async def wait_for_allocatable(self, count: int) -> None:
        def wanted(nodes: dict[str, Object]) -> bool:
            allocatable = nodes[self._node_name]["status"]["allocatable"]
            return allocatable.get(self.resource_name, "0") == str(count)

        await asyncio.to_thread(self._cluster.wait_for, "nodes", wanted, namespace=None)

    async def restart(self) -> None:
        await asyncio.to_thread(self._cluster.restart_kubelet)


def _manifest(pod: FakePod, node_name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "labels": dict([SELECTOR.split("=")]),
            "annotations": dict(pod.annotations),
        },
        "spec": {
            "nodeName": node_name,
            "terminationGracePeriodSeconds": 0,
            "initContainers": [_container(c) for c in pod.containers if c.is_init],
            "containers": [_container(c) for c in pod.containers if not c.is_init],
        },
    }


def _container(container: FakeContainer) -> Object:
    ends = container.is_init and not container.is_sidecar
    return {
        "name": container.name,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["true"] if ends else ["sleep", "1000"],
        "resources": {"limits": {container.resource_name: str(container.count)}},
        **({"restartPolicy": "Always"} if container.is_sidecar else {}),
    }


@pytest.mark.slow
class TestRealKubelet(KubeletContract):
    @pytest.fixture
    def world(self, real_cluster):
        return RealWorld(real_cluster)
