"""A node under test: the real device plugin role on a fake kubelet over real sockets."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from hamid.aiokit.blocking import OneThread
from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.codec.allocation_record import encode_allocation
from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import decode_control_page
from hamid.hooks.install import InstalledLibrary
from hamid.kube.fake import FakeKube
from hamid.kube.port import NODES, PODS
from hamid.kubelet.checkpoint import CheckpointFile
from hamid.kubelet.fake import FakeContainer, FakeKubelet, FakePod
from hamid.kubelet.pod_resources import PodResourcesClient
from hamid.kubelet.pods_api import PodsApiClient
from hamid.kubelet.registration import Registrar
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import DeviceShare
from hamid.model.names import POD_ALLOCATION, ResourceNames
from hamid.model.node import NodeInventory
from hamid.model.request import ContainerKind
from hamid.plugin.admission_view import AdmissionView
from hamid.plugin.grants import GrantFiles
from hamid.plugin.inventory import advertised
from hamid.plugin.journal import Journal
from hamid.plugin.metrics import PluginMetrics
from hamid.plugin.owners import Owners
from hamid.plugin.pods import NodePods
from hamid.plugin.service import DevicePlugin
from hamid.plugin.settings import GrantMode, PluginSettings
from hamid.plugin.undecided import UndecidedPolicy
from tests.builders import container_object, make_devices, pod_object, uuid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from hamid.hooks.abi.pages import ContainerLimits
    from hamid.kubelet.fake import FakeFeatures

RESOURCE = "nvidia.com/gpu"
NODE = "node-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A container: how many devices it asks for, and what was decided."""

    name: str
    devices: tuple[int, ...] = ()
    memory_mib: int = 1_000
    kind: ContainerKind = ContainerKind.APP


@dataclass(slots=True, kw_only=True)
class Node:
    """Everything on one node; `pods` are what the plugin's watch has brought."""

    root: Path
    kubelet: FakeKubelet
    kube: FakeKube
    plugin: DevicePlugin
    pods: NodePods
    settings: PluginSettings
    metrics: PluginMetrics
    checkpoint: CheckpointFile
    uids: dict[str, str] = field(default_factory=dict)

    async def bind(
        self,
        name: str,
        *asks: Ask,
        is_seen: bool = True,
        is_decided: bool = True,
        node_name: str = NODE,
    ) -> FakePod:
        """Create a pod that is bound to this node or another, with its decision."""
        resources = {ask.name: {"gpu": len(ask.devices)} for ask in asks if ask.devices}
        inits = [a for a in asks if a.kind is not ContainerKind.APP]
        pod = pod_object(
            *[container_object(a.name, resources.get(a.name)) for a in asks if a not in inits],
            name=name,
            init_containers=[
                container_object(
                    a.name,
                    resources.get(a.name),
                    **({"restartPolicy": "Always"} if a.kind is ContainerKind.SIDECAR else {}),
                )
                for a in inits
            ],
        )
        del pod["metadata"]["uid"]
        created = await self.kube.create(PODS, pod)
        uid = created["metadata"]["uid"]
        self.uids[name] = uid
        allocation = replace(decide(uid, asks), node_name=node_name)
        await self.kube.bind(
            namespace="default",
            name=name,
            uid=uid,
            node_name=node_name,
            annotations={POD_ALLOCATION: encode_allocation(allocation)} if is_decided else {},
        )
        if is_seen:
            self.pods.keep(await self.kube.get(PODS, name, namespace="default"))
        return FakePod(
            name=name,
            uid=uid,
            containers=tuple(
                FakeContainer(
                    name=ask.name,
                    count=len(ask.devices),
                    is_init=ask.kind is ContainerKind.INIT,
                    is_sidecar=ask.kind is ContainerKind.SIDECAR,
                )
                for ask in asks
            ),
        )

    def limits(self, pod_name: str, container_name: str) -> ContainerLimits:
        """What the container would find in its control page."""
        grant = self.kubelet.grant(self.uids[pod_name], container_name)
        assert grant is not None, f"{pod_name}/{container_name} was granted nothing"
        mounted = {mount.container_path: mount.host_path for mount in grant.mounts}
        directory = mounted.get(contract.LIMITS_DIR)
        if directory is None:  # CDI
            directory = self.plugin.files.limits_dir(grant.envs[contract.ENV_GRANT_ID])
        return decode_control_page(
            (self.root / directory / contract.CONTROL_PAGE_NAME).read_bytes()
        )

    def given(self, pod_name: str, container_name: str) -> dict[str, int]:
        """Device → MiB, as the container's control page has it."""
        limits = self.limits(pod_name, container_name)
        return {d.device_uuid: (d.memory_bytes or 0) >> 20 for d in limits.devices}


def decide(uid: str, asks: Sequence[Ask]) -> PodAllocation:
    """The allocation in which each container got what its `Ask` says."""
    return PodAllocation(
        pod_uid=uid,
        node_name=NODE,
        containers=tuple(
            ContainerAllocation(
                container_name=ask.name,
                kind=ask.kind,
                shares=tuple(
                    DeviceShare(device_uuid=uuid(n), memory_mib=ask.memory_mib, core_percent=0)
                    for n in ask.devices
                ),
            )
            for ask in asks
            if ask.devices
        ),
    )


@asynccontextmanager
async def running_node(
    root: Path,
    *,
    device_count: int = 2,
    seed: int = 0,
    features: FakeFeatures | None = None,
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[Node]:
    """A node with a kubelet and a registered plugin."""
    kube = FakeKube()
    await kube.create(NODES, {"metadata": {"name": NODE}})
    async with (
        FakeKubelet(root / "kubelet", seed=seed, features=features) as kubelet,
        plugin_on(root, kubelet, kube, device_count=device_count, settings=settings) as node,
    ):
        yield node


@asynccontextmanager
async def plugin_on(
    root: Path,
    kubelet: FakeKubelet,
    kube: FakeKube,
    *,
    device_count: int = 2,
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[Node]:
    """The plugin alone, on a kubelet that runs already: what a restart of the daemon does."""
    own = replace(
        PluginSettings(state_dir=root / "state", cdi_dir=root / "cdi", grant_mode=GrantMode.ENV),
        **(settings or {}),
    )
    thread = OneThread(name="files")
    inventory = NodeInventory(node_name=NODE, devices=make_devices(device_count))
    journal = Journal(directory=own.state_dir / "journal", thread=thread)
    await journal.load()
    files = GrantFiles(
        directory=own.state_dir / "grants",
        cdi_dir=own.cdi_dir,
        mode=own.grant_mode,
        library=InstalledLibrary(
            library_path=root / "libhamid.so", preload_path=root / "ld.so.preload"
        ),
        thread=thread,
        host_root=root,
    )
    pods = NodePods(node_name=NODE, names=ResourceNames(), kube=kube)
    pods.replace((await kube.list(PODS, field_selector=f"spec.nodeName={NODE}")).items)
    resources = PodResourcesClient(resource_name=RESOURCE, socket_path=kubelet.pod_resources_socket)
    pods_api = PodsApiClient(socket_path=kubelet.pods_api_socket)
    checkpoint = CheckpointFile(path=kubelet.checkpoint_path)
    metrics = PluginMetrics.create(CollectorRegistry())
    plugin = DevicePlugin(
        devices=Latest(advertised(inventory, report_numa=own.report_numa)),
        pods=pods,
        view=AdmissionView(pod_resources=resources, pods_api=pods_api),
        journal=journal,
        files=files,
        owners=Owners(
            resource_name=RESOURCE,
            checkpoint=checkpoint,
            pod_resources=resources,
            pods=pods,
            journal=journal,
        ),
        undecided=UndecidedPolicy(
            settings=own, node_name=NODE, inventory=Latest(inventory), pods=pods, kube=kube
        ),
        metrics=metrics,
    )
    registrar = Registrar(
        handler=plugin, resource_name=RESOURCE, directory=kubelet.device_plugin_directory
    )
    node = Node(
        root=root,
        kubelet=kubelet,
        kube=kube,
        plugin=plugin,
        pods=pods,
        settings=own,
        metrics=metrics,
        checkpoint=checkpoint,
    )
    node.uids |= {pod.name: pod.pod_uid for pod in pods.pods()}
    try:
        async with running(registrar):
            await kubelet.wait_for_allocatable(RESOURCE, device_count * 10)
            yield node
    finally:
        resources.close()
        pods_api.close()
        thread.close()
