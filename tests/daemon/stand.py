"""What is around a daemon: API server over HTTP, kubelet over unix sockets, simulated driver.

`Stand.serve` runs the real daemon of `hamid.daemon.compose` in this process.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import Background
from hamid.aiokit.ticker import every
from hamid.codec.secret import decode_secret
from hamid.daemon.compose import daemon
from hamid.daemon.settings import (
    AddressSettings,
    HookSettings,
    Identity,
    NvmlSettings,
    RoleSettings,
    Settings,
    Switch,
)
from hamid.kube.errors import NotFound
from hamid.kube.fake import FakeApi, FakeApiServer, FakeKube
from hamid.kube.port import (
    ENDPOINT_SLICES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
)
from hamid.kube.settings import KubeSettings
from hamid.kubelet.fake import FakeContainer, FakeKubelet, FakePod
from hamid.model.names import ResourceNames
from hamid.nvml.profiles import format_profile, simulated_cards
from hamid.plugin.settings import PluginSettings
from hamid.sched.certificate_settings import CertificateSettings
from hamid.sched.leader_settings import EndpointSettings, LeaseSettings
from hamid.web.certs import TlsMaterial, load_into
from tests.nvml.machine import built

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import pytest

    from hamid.daemon.compose import Daemon
    from hamid.kube.fake import FakeFeatures
    from hamid.kube.port import JsonObject
    from hamid.kubelet.fake import FakeFeatures as KubeletFeatures

T = TypeVar("T")

NODE = "node-1"
NAMESPACE = "hamid"
RESOURCE = ResourceNames().count
DEADLINE_S = 30.0
# Soon looked at, so that a follower learns at once that it leads; not soon lost by a slow machine.
LEASE = LeaseSettings(namespace=NAMESPACE, retry_period_s=0.2)


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """What the function returns once it is something; asked again and again."""
    async with asyncio.timeout(DEADLINE_S):
        async for _ in every(0.02):
            found = await look()
            if found:
                return found
    raise AssertionError


@dataclass(slots=True, kw_only=True)
class Served:
    """A running daemon, and how to reach it."""

    daemon: Daemon
    session: aiohttp.ClientSession
    task: asyncio.Task[None]

    def url(self, site: str = "status") -> str:
        """Where the site is."""
        scheme = "http" if site == "status" else "https"
        return f"{scheme}://127.0.0.1:{self.daemon.web.ports.get()[site]}"

    async def get(self, path: str) -> tuple[int, Any]:
        """What the status site answers: code and body."""
        async with self.session.get(self.url() + path) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())

    async def conditions(self) -> dict[str, bool]:
        """What /readyz says of each condition."""
        _, body = await self.get("/readyz")
        return {name: told["true"] for name, told in body["conditions"].items()}

    async def wait_until_ready(self, *conditions: str) -> None:
        """Wait until these are among the conditions, and all there are true."""

        async def look() -> bool:
            code, body = await self.get("/readyz")
            return code == HTTPStatus.OK and body["conditions"].keys() >= set(conditions)

        await eventually(look)

    async def stop(self) -> None:
        """End it as a signal does, farewells included."""
        self.task.cancel()
        await asyncio.wait({self.task})


@dataclass(slots=True, kw_only=True)
class Stand:
    """Everything around the daemons; open it with `stand`."""

    root: Path
    api: FakeApi
    server: FakeApiServer
    kube: FakeKube
    kubelet: FakeKubelet
    session: aiohttp.ClientSession
    _background: Background
    _stack: AsyncExitStack

    def settings(self, node_name: str = NODE, **changed: Any) -> Settings:
        """Settings of a daemon on this stand; all ports are free ones."""
        kubelet = self.kubelet
        values: dict[str, Any] = {
            "identity": Identity(node_name=node_name, namespace=NAMESPACE, pod_ip="10.0.0.1"),
            "kube": KubeSettings(server=self.server.url, retry_count=0),
            "roles": RoleSettings(plugin=Switch.ALWAYS if node_name == NODE else Switch.NEVER),
            "nvml": NvmlSettings(library=built("libnvidia-ml.so.1"), host_root=self.root / "host"),
            "hooks": HookSettings(library=self.root / "libhamid.so"),
            "plugin": PluginSettings(
                state_dir=self.root / "state",
                cdi_dir=self.root / "cdi",
                device_plugin_dir=kubelet.device_plugin_directory,
                pod_resources_dir=kubelet.pod_resources_socket.parent,
                pods_api_dir=kubelet.pods_api_socket.parent,
            ),
            "lease": LEASE,
            "endpoint": EndpointSettings(namespace=NAMESPACE),
            "certificates": CertificateSettings(namespace=NAMESPACE),
            "addresses": AddressSettings(
                status_port=0,
                webhook_host="127.0.0.1",
                webhook_port=0,
                extender_host="127.0.0.1",
                extender_port=0,
            ),
        }
        return Settings(**(values | changed))

    async def serve(self, settings: Settings | None = None) -> Served:
        """Start a daemon, and wait until its web server listens; it may not be all up then."""
        started: Latest[Daemon | None] = Latest(None)
        task = self._background.start(
            self._run(settings or self.settings(), started), name="daemon"
        )
        waiting = self._background.start(_wait(started), name="wait-for-daemon")
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        found = started.get()
        if found is None:
            waiting.cancel()
            await task
            raise AssertionError("the daemon ended before it had begun")
        return Served(daemon=found, session=self.session, task=task)

    async def _run(self, settings: Settings, started: Latest[Daemon | None]) -> None:
        async with daemon(settings) as running_daemon:
            started.publish(running_daemon)
            await asyncio.Event().wait()

    async def create_pod(self, name: str, **limits: object) -> JsonObject:
        """Create a pod that asks for this (`gpu=1, gpumem=3000`), as a user does."""
        asked = {f"nvidia.com/{key}": str(value) for key, value in limits.items()}
        container = {"name": "main", "image": "x:1", "resources": {"limits": asked}}
        pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        return await self.kube.create(PODS, pod, namespace="default")

    async def run_pod(self, name: str) -> Any:
        """Let the kubelet admit and start a pod that is bound; returns its status."""
        pod = await self.kube.get(PODS, name, namespace="default")
        containers = tuple(
            FakeContainer(name=c["name"], count=int(c["resources"]["limits"][RESOURCE]))
            for c in pod["spec"]["containers"]
        )
        metadata = pod["metadata"]
        return await self.kubelet.run_pod(
            FakePod(
                name=name,
                uid=metadata["uid"],
                containers=containers,
                annotations=metadata["annotations"],
            )
        )

    async def scheduler_session(self) -> aiohttp.ClientSession:
        """An HTTP session with the certificate that the leader made for kube-scheduler."""

        async def look() -> dict[str, bytes] | None:
            secret = await self.kube.get(SECRETS, "hamid-scheduler-client", namespace=NAMESPACE)
            values = decode_secret(secret)
            return values if "tls.key" in values else None

        values = await eventually(look)
        context = ssl.create_default_context(cadata=values["ca.crt"].decode())
        material = TlsMaterial(certificate_pem=values["tls.crt"], key_pem=values["tls.key"])
        load_into(context, material)
        connector = aiohttp.TCPConnector(ssl=context)
        return await self._stack.enter_async_context(aiohttp.ClientSession(connector=connector))

    async def leader_port(self) -> int:
        """Where the EndpointSlice leads, once it is there."""

        async def look() -> int | None:
            with suppress(NotFound):
                found = await self.kube.get(ENDPOINT_SLICES, "hamid-scheduler", namespace=NAMESPACE)
                return int(found["ports"][0]["port"])
            return None

        return await eventually(look)

    async def trust(self, served: Served) -> None:
        """Lead the API server's calls of the webhook to this daemon, once its CA is known there."""
        await served.wait_until_ready("certificates")
        base = served.url("webhook")
        self.api.admission.service_url = lambda _namespace, _name, _port: base

        async def look() -> bool:
            hook = await self.kube.get(MUTATING_WEBHOOKS, "hamid")
            return bool(hook["webhooks"][0]["clientConfig"].get("caBundle"))

        await eventually(look)


@asynccontextmanager
async def stand(
    monkeypatch: pytest.MonkeyPatch,
    *,
    cards: tuple[tuple[str, int], ...] = (("A100-40GB", 2),),
    features: FakeFeatures | None = None,
    kubelet_features: KubeletFeatures | None = None,
) -> AsyncIterator[Stand]:
    """The surroundings, the chart's objects installed; daemons end with the block."""
    wall_clock = time.time  # noqa: TID251 - certificates are compared with the real clock
    api = (
        FakeApi(clock=wall_clock)
        if features is None
        else FakeApi(clock=wall_clock, features=features)
    )
    async with AsyncExitStack() as stack:
        # Short, for unix sockets live in it.
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="d-", dir="/tmp")))
        simulated = simulated_cards(cards, node_name=NODE)
        (root / "devices").write_text(format_profile(simulated))
        (root / "libhamid.so").write_bytes(b"\x7fELF and nothing more")
        monkeypatch.setenv("HAMID_SIM_DEVICES", str(root / "devices"))
        monkeypatch.setenv("HAMID_SIM_STATE", str(root / "sim-state"))
        kube = FakeKube(api=api, caller="cluster")
        await install(kube)
        yield Stand(
            root=root,
            api=api,
            server=await stack.enter_async_context(FakeApiServer.serve(api)),
            kube=kube,
            kubelet=await stack.enter_async_context(
                FakeKubelet(root / "kubelet", features=kubelet_features)
            ),
            session=await stack.enter_async_context(aiohttp.ClientSession()),
            _background=await stack.enter_async_context(Background()),
            _stack=stack,
        )


async def install(kube: FakeKube) -> None:
    """What the chart creates, all of it empty, and the node."""
    await kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for name in ("hamid-tls", "hamid-scheduler-client"):
        await kube.create(SECRETS, {"metadata": {"name": name}}, namespace=NAMESPACE)
    await kube.create(SERVICES, {"metadata": {"name": "hamid-scheduler"}}, namespace=NAMESPACE)
    await kube.create(
        MUTATING_WEBHOOKS,
        {
            "metadata": {"name": "hamid"},
            "webhooks": [
                {
                    "name": "pods.hamid.io",
                    "failurePolicy": "Fail",
                    "clientConfig": {
                        "service": {"namespace": NAMESPACE, "name": "hamid", "path": "/webhook"}
                    },
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["pods"],
                        }
                    ],
                }
            ],
        },
    )
    status = {"nodeInfo": {"kubeletVersion": "v1.37.2"}}
    await kube.create(NODES, {"metadata": {"name": NODE}, "status": status})


async def _wait(started: Latest[Daemon | None]) -> None:
    await started.wait_for(lambda found: found is not None)
