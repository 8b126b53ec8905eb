"""A node under measurement: the real daemon, in a process of its own, on simulated surroundings.

API server (over HTTP), kubelet (over its unix sockets) and cards (a simulated driver library) are
the package's own fakes and run here, so what is measured of the daemon's process is its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import yaml

from benchmarks.scenarios import (
    CARDS,
    CONTAINER,
    MODEL,
    OWN_NAMESPACE,
    RESOURCE,
    bind_pod,
    create_node,
    install,
    report_running,
)
from hamid.aiokit.ticker import every
from hamid.kube.fake import FakeApi, FakeApiServer, FakeKube
from hamid.kubelet.fake import FakeContainer, FakeKubelet, FakePod, Phase
from hamid.nvml.profiles import format_profile, simulated_cards

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from benchmarks.scenarios import BoundPod
    from hamid.kubelet.fake import FakeFeatures
    from hamid.model.device import DeviceUuid

NATIVE: Final = Path(__file__).parents[1] / "native" / "build"
NODE: Final = "node-1"
SLOTS_PER_CARD: Final = 20
"""More than the default of 10, so that 8 cards hold 100 pods."""
START_DEADLINE_S: Final = 30.0
LOOK_INTERVAL_S: Final = 0.02
_CONDITIONS: Final = frozenset({"scheduler", "kubelet", "own-pods", "certificates"})
"""Declared one after another as the daemon starts; ready means all of them."""


class BenchmarkFailed(Exception):
    """What was to be measured did not happen; the text says what, and where to look."""


def wall_clock() -> float:
    """Seconds since 1970."""
    return time.clock_gettime(time.CLOCK_REALTIME)


@dataclass(slots=True, kw_only=True)
class DaemonProcess:
    """The daemon as a process; made by `Stand.daemon`."""

    process: subprocess.Popen[bytes]
    session: aiohttp.ClientSession
    url: str
    extender_url: str
    log: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    async def text(self, path: str) -> tuple[int, str]:
        """What it answers on its status site: the code and the body."""
        async with self.session.get(f"{self.url}{path}") as response:
            return response.status, await response.text()

    async def page(self, name: str) -> Any:
        """A page of /debug."""
        async with self.session.get(f"{self.url}/debug/{name}") as response:
            return await response.json()

    async def wait_until_leading(self) -> None:
        """Return once it leads and knows the cluster."""
        await self._wait_for(lambda lease: bool(lease["may_act"]))
        async for _ in every(0.1):
            if (await self.page("cache"))["is_synced"]:
                return

    async def wait_until_following(self) -> None:
        """Return once it knows of another leader."""
        await self._wait_for(lambda lease: bool(lease["holder"]) and not lease["may_act"])

    async def _wait_for(self, wanted: Callable[[Any], bool]) -> None:
        async with asyncio.timeout(START_DEADLINE_S):
            async for _ in every(0.1):
                if wanted(await self.page("leases")):
                    return

    async def wait_until_ready(self) -> None:
        """Return once /readyz says yes."""
        answer = "nothing"
        try:
            async with asyncio.timeout(START_DEADLINE_S):
                while True:
                    if self.process.poll() is not None:
                        raise BenchmarkFailed(f"the daemon ended:\n{self.last_words()}")
                    try:
                        code, answer = await self.text("/readyz")
                    except aiohttp.ClientConnectionError:
                        code = 0
                    if (
                        code == HTTPStatus.OK
                        and json.loads(answer)["conditions"].keys() >= _CONDITIONS
                    ):
                        return
                    await asyncio.sleep(LOOK_INTERVAL_S)
        except TimeoutError:
            raise BenchmarkFailed(
                f"the daemon is not ready: {answer}\n{self.last_words()}"
            ) from None

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


@dataclass(slots=True, kw_only=True)
class Stand:
    """Everything around the daemon.

    Attributes:
        kube: the cluster's own client, whose requests are counted apart from the daemon's.
        has_plain_extender: the extender takes plain HTTP, from a benchmark that plays
            kube-scheduler.
    """

    root: Path
    server: FakeApiServer
    kube: FakeKube
    kubelet: FakeKubelet
    device_uuids: tuple[DeviceUuid, ...]
    has_plain_extender: bool = False

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[DaemonProcess]:
        """The daemon, ready, for as long as the block lasts; its books outlive it."""
        port, extender_port = free_port(), free_port()
        config = self.root / "config.yaml"
        config.write_text(yaml.safe_dump(self._config(port, extender_port)))
        log = self.root / "daemon.log"
        with _process(config, log, self._environment()) as process:
            async with aiohttp.ClientSession() as session:
                daemon = DaemonProcess(
                    process=process,
                    session=session,
                    url=f"http://127.0.0.1:{port}",
                    extender_url=f"http://127.0.0.1:{extender_port}/scheduler",
                    log=log,
                )
                await daemon.wait_until_ready()
                await self.kubelet.wait_for_allocatable(
                    RESOURCE, len(self.device_uuids) * SLOTS_PER_CARD
                )
                yield daemon

    async def bind(self, name: str, *, card: int) -> BoundPod:
        """A pod bound to the node, with a slice of this card."""
        device = self.device_uuids[card % len(self.device_uuids)]
        return await bind_pod(self.kube, name, node_name=NODE, device=device)

    async def run(self, pod: BoundPod) -> None:
        """Let the kubelet admit and start the pod."""
        status = await self.kubelet.run_pod(fake_pod(pod))
        if status.phase is not Phase.RUNNING:
            raise BenchmarkFailed(f"pod {pod.name} does not run: {status}")

    async def run_and_report(self, pod: BoundPod) -> None:
        """Run the pod and write its status."""
        await self.run(pod)
        await report_running(self.kube, pod)

    def _config(self, status_port: int, extender_port: int) -> dict[str, Any]:
        kubelet = self.kubelet
        return {
            "identity": {"node_name": NODE, "namespace": OWN_NAMESPACE, "pod_ip": "10.0.0.1"},
            "kube": {"server": self.server.url},
            "roles": {"plugin": "always"},
            "log": {"format": "json"},
            "nvml": {
                "library": str(NATIVE / "sim" / "libnvidia-ml.so.1"),
                "host_root": str(self.root / "host"),
            },
            "hooks": {"library": str(NATIVE / "libhamid.so")},
            "plugin": {
                "device_split_count": SLOTS_PER_CARD,
                "state_dir": str(self.root / "state"),
                "cdi_dir": str(self.root / "cdi"),
                "device_plugin_dir": str(kubelet.device_plugin_directory),
                "pod_resources_dir": str(kubelet.pod_resources_socket.parent),
                "pods_api_dir": str(kubelet.pods_api_socket.parent),
            },
            "addresses": {
                "status_port": status_port,
                "webhook_host": "127.0.0.1",
                "webhook_port": 0,
                "extender_host": "127.0.0.1",
                "extender_port": extender_port,
                "extender_is_plain": self.has_plain_extender,
            },
        }

    def _environment(self) -> dict[str, str]:
        return {
            "HAMID_SIM_DEVICES": str(self.root / "devices"),
            "HAMID_SIM_STATE": str(self.root / "sim-state"),
        }


@asynccontextmanager
async def stand(
    *,
    cards: int = CARDS,
    features: FakeFeatures | None = None,
    has_plain_extender: bool = False,
) -> AsyncIterator[Stand]:
    """The surroundings of a daemon on one node, in a folder of their own on the disk."""
    simulated = simulated_cards([(MODEL, cards)], node_name=NODE)
    # Short, for unix sockets live in it.
    root = Path(tempfile.mkdtemp(prefix="hamid-bench-"))
    try:
        (root / "host").mkdir()
        (root / "devices").write_text(format_profile(simulated))
        api = FakeApi(clock=wall_clock)
        async with (
            FakeApiServer.serve(api) as server,
            FakeKubelet(root / "kubelet", features=features) as kubelet,
        ):
            kube = FakeKube(api=api, caller="cluster")
            await install(kube)
            await create_node(kube, NODE)
            yield Stand(
                root=root,
                server=server,
                kube=kube,
                kubelet=kubelet,
                device_uuids=tuple(card.device.device_uuid for card in simulated),
                has_plain_extender=has_plain_extender,
            )
    finally:
        shutil.rmtree(root, ignore_errors=True)


def fake_pod(pod: BoundPod) -> FakePod:
    """The pod as the fake kubelet takes it."""
    return FakePod(name=pod.name, uid=pod.uid, containers=(FakeContainer(name=CONTAINER, count=1),))


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _process(
    config: Path, log: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hamid", "run", "--config", str(config)],
            env={**os.environ, **environment},  # noqa: TID251 - the child's, with two more
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
