"""What a thousand replicas together ask of the API server, in virtual time.

The replicas are composed as the daemon composes them; what touches the machine is left out: kubelet,
driver, listening sockets.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.daemon.compose import Clocks, _Parts
from hamid.daemon.plugin_role import PluginPorts, RoleMetrics, own_node_watch, own_pod_watch
from hamid.daemon.settings import Identity, Settings
from hamid.kube.fake import FakeApi, FakeKube
from hamid.kube.port import NODES, PODS, SECRETS
from hamid.kubelet.metrics import KubeletMetrics
from hamid.nvml.fake import FakeNvml
from hamid.plugin.metrics import PluginMetrics
from hamid.plugin.publisher import InventoryPublisher, RegistrationGuard
from tests.builders import container_object, make_inventory, node_object, pod_object

FOLLOWERS = 1_000
LEASE = "leases.coordination.k8s.io"


class Heard:
    """A sink that keeps how often it was told of what, and tells another."""

    def __init__(self, behind=None):
        self.told = Counter()
        self.behind = behind

    def replace(self, objects):
        self.told.update(found["metadata"]["name"] for found in objects)
        if self.behind is not None:
            self.behind.replace(objects)

    def apply(self, event):
        self.told[event.object["metadata"]["name"]] += 1
        if self.behind is not None:
            self.behind.apply(event)


class Replica:
    """All that one daemon asks of the API server, as far as it needs no machine; a service."""

    def __init__(self, api, node_name):
        loop = asyncio.get_running_loop()
        self.node_name, self.kube = node_name, FakeKube(api=api, caller=node_name)
        self.settings = Settings(identity=Identity(node_name=node_name))
        self.clocks = Clocks(monotonic=loop.time, wall=lambda: 1_700_000_000.0 + loop.time())
        self.pods = Heard()

        self.parts = _Parts.of(self.settings, self.kube, CollectorRegistry(), self.clocks)
        self.scheduler = self.parts.scheduler()
        self.name = node_name

    async def run(self):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(*self._node_services(self.parts)))
            await self.parts.open_scheduler(stack, self.scheduler, 31_998)
            await asyncio.Event().wait()

    def _node_services(self, parts):
        ports = PluginPorts(
            kube=self.kube,
            nvml=FakeNvml([]),
            metrics=RoleMetrics(
                plugin=PluginMetrics.create(parts.registry),
                kubelet=KubeletMetrics(parts.registry),
                watch=parts.watch_metrics,
            ),
            clock=self.clocks.monotonic,
            wall_clock=self.clocks.wall,
        )
        publisher = InventoryPublisher(
            kube=self.kube,
            nvml=ports.nvml,
            inventory=Latest(make_inventory(self.node_name)),
            backoff=Backoff(),
        )
        guard = RegistrationGuard(publisher=publisher)
        self.nodes = Heard(guard)
        return (
            publisher,
            guard,
            own_node_watch(self.node_name, ports, sink=self.nodes),
            own_pod_watch(self.node_name, ports, sink=self.pods),
        )


@asynccontextmanager
async def cluster(count):
    """So many replicas, one a node, of which the first leads; a pod on each node."""
    loop = asyncio.get_running_loop()
    api = FakeApi(clock=loop.time)
    admin = FakeKube(api=api, caller="admin")
    names = [f"node-{n}" for n in range(count)]
    for name in names:
        await admin.create(NODES, node_object(name))
        pod = pod_object(container_object("main", {"gpu": 1}), name=f"on-{name}")
        del pod["metadata"]["uid"]
        await admin.create(PODS, pod | {"spec": pod["spec"] | {"nodeName": name}})
    replicas = [Replica(api, name) for name in names]
    first, *others = replicas
    async with running(first):
        await asyncio.sleep(5)
        async with running(*others):
            yield api, replicas


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.looptime(noop_cycles=5)
async def test_a_thousand_followers_watch_their_own_node_and_pods_and_nothing_else():
    async with cluster(FOLLOWERS + 1) as (api, replicas):
        await asyncio.sleep(300)
        lasted_s = 600
        api.requests.clear()

        await asyncio.sleep(lasted_s)

        leader, *followers = replicas
        assert leader.scheduler.elector.may_act()
        assert not any(f.scheduler.elector.may_act() for f in followers)
        rate = requests_of_followers(api, leader, per_s=lasted_s)
        assert set(rate) == {
            ("get", LEASE),  # who leads; fewer than ten a second
            ("watch", "nodes"),  # its own, and its pods: taken up again when the server ends them
            ("watch", "pods"),
            ("update", LEASE),  # standbys sign up
        }
        assert rate["get", LEASE] < 10
        assert rate["watch", "nodes"] < FOLLOWERS / 300
        assert rate["watch", "pods"] < FOLLOWERS / 300
        assert rate["update", LEASE] < 1
        for f in followers:
            assert f.pods.told == {f"on-{f.node_name}": 1}
            assert set(f.nodes.told) == {f.node_name}
        assert all(f.scheduler.cache.is_synced is False for f in followers)


@pytest.mark.looptime(noop_cycles=5)
async def test_followers_serve_with_new_certificates_soon_and_read_them_once():
    async with cluster(11) as (api, replicas):
        await asyncio.sleep(300)
        leader, *followers = replicas
        before = leader.parts.webhook_tls.fingerprint
        own = leader.settings.certificates
        admin = FakeKube(api=api, caller="admin")
        await admin.delete(SECRETS, own.tls_secret, namespace=own.namespace)
        api.requests.clear()

        await asyncio.sleep(own.interval_s + 2 * leader.settings.lease.slow_poll_s)

        rate = requests_of_followers(api, leader, per_s=1)
        assert leader.parts.webhook_tls.fingerprint != before
        assert {f.parts.webhook_tls.fingerprint for f in followers} == {
            leader.parts.webhook_tls.fingerprint
        }
        assert rate["get", "secrets"] == len(followers)


def requests_of_followers(api, leader, *, per_s):
    """By verb and resource, a second."""
    counts = Counter()
    for (verb, resource, caller, _), number in api.requests._counts.items():
        if caller != leader.node_name:
            counts[verb, resource] += number
    return {kind: number / per_s for kind, number in counts.items()}
