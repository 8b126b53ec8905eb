"""What an idle daemon costs its node: memory and processor, with 8 cards and 100 running pods.

Idle means that no pod comes or goes. What is always there goes on: the driver is sampled, the
containers' usage pages are read, leases are renewed, the kubelet probes, Prometheus scrapes.
Measured as leader, whose caches hold the cluster's nodes and pods, and as follower.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.report import asked, emit, say
from benchmarks.scenarios import LEASE, MEMORY_MIB, OWN_NAMESPACE
from benchmarks.stand import NATIVE, BenchmarkFailed, stand, wall_clock
from hamid.aiokit.services import running
from hamid.aiokit.ticker import every
from hamid.codec.lease import format_micro_time
from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from hamid.kube.port import LEASES, PatchKind
from hamid.model.quantities import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.stand import DaemonProcess, Stand
    from hamid.kube.port import KubePort

BENCH: Final = "footprint"
PODS: Final = 100
WINDOW_S: Final = 60
SETTLE_S: Final = 20
"""After the last pod: what its coming cost is not idle any more."""
PROBE_INTERVAL_S: Final = 10
SCRAPE_INTERVAL_S: Final = 15
KIB_PER_MIB: Final = 1024
OTHER_LEADER: Final = "node-2_0badcafe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    pods: int = PODS
    window_s: int = WINDOW_S
    settle_s: int = SETTLE_S


async def main(size: Size) -> None:
    """Measure as leader, then the same node's daemon as follower."""
    async with stand() as made:
        async with made.daemon() as daemon:
            await daemon.wait_until_leading()
            say(f"{BENCH}: {size.pods} pods start")
            for number in range(size.pods):
                await made.run_and_report(await made.bind(f"train-{number}", card=number))
            _use_cards(made)
            await _measure(daemon, size, suffix="")
        async with _other_leader(made.kube), made.daemon() as daemon:
            await daemon.wait_until_following()
            await _measure(daemon, size, suffix="/follower")


async def _measure(daemon: DaemonProcess, size: Size, *, suffix: str) -> None:
    grants = (await daemon.page("allocations"))["grants"]
    if len(grants) != size.pods:
        raise BenchmarkFailed(f"the daemon has {len(grants)} grants, not {size.pods}")
    await _idle(daemon, size.settle_s)
    begun_s, begun_cpu_s = wall_clock(), cpu_s(daemon.pid)
    sizes = await _idle(daemon, size.window_s)
    passed_s, used_s = wall_clock() - begun_s, cpu_s(daemon.pid) - begun_cpu_s
    emit(BENCH, f"rss_mib{suffix}", unit="MiB", value=max(sizes), samples=sizes)
    emit(BENCH, f"cpu_percent{suffix}", unit="% of one core", value=100 * used_s / passed_s)


def _use_cards(made: Stand) -> None:
    """Give every container the usage page of a program that has used its card."""
    limits, usage = (made.root / f"tenant-{kind}" for kind in ("limits", "usage"))
    limits.mkdir()
    usage.mkdir()
    card = DeviceLimit(device_uuid=made.device_uuids[0], memory_bytes=MEMORY_MIB * MIB)
    control = ContainerLimits(devices=(card,), priority=1, generation=1)
    (limits / contract.CONTROL_PAGE_NAME).write_bytes(encode_control_page(control))
    subprocess.run(
        [NATIVE / "bin" / "alloc_mib", "100"],
        env={
            "LD_LIBRARY_PATH": str(NATIVE / "sim"),
            # Built for tests: it takes the directories from its environment.
            "LD_PRELOAD": str(NATIVE / "test" / "libhamid.so"),
            "HAMID_SIM_DEVICES": str(made.root / "devices"),
            "HAMID_SIM_STATE": str(made.root / "tenant-state"),
            "HAMID_TEST_LIMITS_DIR": str(limits),
            "HAMID_TEST_USAGE_DIR": str(usage),
        },
        check=True,
        stdout=subprocess.DEVNULL,
    )
    grants = tuple((made.root / "state" / "grants").iterdir())
    for grant in grants:
        shutil.copy(usage / contract.USAGE_PAGE_NAME, grant / "usage")


async def _idle(daemon: DaemonProcess, seconds: int) -> list[float]:
    """Let it idle, with what probes and scrapes it; returns its size of each second, in MiB."""
    sizes: list[float] = []
    async for _ in every(1.0):
        second = len(sizes)
        if second % PROBE_INTERVAL_S == 0:
            await _ask(daemon, "/healthz")
            await _ask(daemon, "/readyz")
        if second % SCRAPE_INTERVAL_S == 0:
            await _ask(daemon, "/metrics")
        sizes.append(rss_mib(daemon.pid))
        if len(sizes) > seconds:
            break
    return sizes


async def _ask(daemon: DaemonProcess, path: str) -> None:
    code, answer = await daemon.text(path)
    if code != HTTPStatus.OK:
        raise BenchmarkFailed(f"{path} answers {code}: {answer[:1000]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renewer:
    """Keeps the lease for somebody else; a service."""

    kube: KubePort
    name: str = "other-leader"

    async def run(self) -> None:
        async for _ in every(2.0):
            await self.step()

    async def step(self) -> None:
        spec = {
            "holderIdentity": OTHER_LEADER,
            "leaseDurationSeconds": 15,
            "renewTime": format_micro_time(wall_clock()),
        }
        await self.kube.patch(
            LEASES, LEASE, {"spec": spec}, kind=PatchKind.MERGE, namespace=OWN_NAMESPACE
        )


@asynccontextmanager
async def _other_leader(kube: KubePort) -> AsyncIterator[None]:
    renewer = _Renewer(kube=kube)
    await renewer.step()
    async with running(renewer):
        yield


def rss_mib(pid: int) -> float:
    """The resident memory of the process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / KIB_PER_MIB
    raise BenchmarkFailed(f"process {pid} has ended")


def cpu_s(pid: int) -> float:
    """The processor time that the process has used, its threads' included."""
    # The name, in brackets, may have spaces; times are the 14th and 15th field.
    rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    asyncio.run(main(Size(pods=3, window_s=1, settle_s=0) if asked(__doc__) else Size()))
