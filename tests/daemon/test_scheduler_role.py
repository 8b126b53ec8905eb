"""The scheduler role put together, on a fake API server in the process."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.latest import Latest
from hamid.codec.allocation_record import encode_allocation
from hamid.daemon.scheduler_role import SchedulerPorts, SchedulerRole
from hamid.daemon.settings import Identity, Settings
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import LEASES, NODES, PODS, RESOURCE_QUOTAS
from hamid.kube.watch import WatchMetrics
from hamid.model import names as wire
from hamid.plugin.settings import PluginSettings
from hamid.sched.leader_settings import LeaseSettings
from tests.builders import node_object
from tests.sched.builders import make_allocation, make_share
from tests.sched.objects import quota_object, registered, waiting

LEASE = LeaseSettings(
    namespace="default",
    lease_duration_s=2.0,
    renew_deadline_s=1.0,
    retry_period_s=0.1,
    slow_poll_s=2.0,
)


def make_role(kube, identity="node-1_a", **settings):
    registry = CollectorRegistry()
    loop = asyncio.get_running_loop()
    return SchedulerRole.assemble(
        Settings(identity=Identity(node_name="node-1"), lease=LEASE, **settings),
        SchedulerPorts(
            kube=kube,
            identity=identity,
            registry=registry,
            watch_metrics=WatchMetrics(registry),
            clock=loop.time,
            wall_clock=lambda: 1_700_000_000.0 + loop.time(),
        ),
    )


class Recorder:
    """Leader-only work that says whether it goes on."""

    name = "recorder"

    def __init__(self):
        self.running_count = Latest(0)

    def __call__(self):
        return self

    async def run(self):
        self.running_count.publish(1)
        try:
            await asyncio.Event().wait()
        finally:
            self.running_count.publish(0)


@asynccontextmanager
async def leading(role, *makers):
    work = Recorder()
    async with role.running(work, *makers):
        await work.running_count.wait_for(bool)
        yield work


@pytest.mark.looptime
async def test_who_leads_lists_the_cluster_and_is_ready_then():
    kube = FakeKube()
    await kube.create(NODES, node_object())
    role = make_role(kube)
    assert role.knows_leader() == (True, "follows nobody yet")

    async with leading(role):
        await asyncio.sleep(5)

        assert role.knows_leader() == (True, "leads")
        assert [node.node_name for node in role.cache.snapshots()] == ["node-1"]


@pytest.mark.slow
@pytest.mark.looptime
async def test_who_begins_to_lead_lists_each_resource_once_however_many_pods_there_are():
    kube = FakeKube()
    await kube.create(NODES, registered("node-1"))
    await kube.create(RESOURCE_QUOTAS, quota_object(gpu=1_000))
    for number in range(120):  # several slices of the list
        meta = (await kube.create(PODS, waiting(f"uid-{number}")))["metadata"]
        allocation = make_allocation(make_share("card-0"), uid=meta["uid"], node_name="node-1")
        await kube.bind(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            node_name="node-1",
            annotations={wire.POD_ALLOCATION: encode_allocation(allocation)},
        )
    kube.requests.clear()
    role = make_role(kube)

    async with leading(role):
        await asyncio.sleep(60)

        lists = {kind: count for kind, count in kube.requests.by().items() if kind[0] == "list"}
        assert lists == {("list", "nodes"): 1, ("list", "pods"): 1, ("list", "resourcequotas"): 1}
        (node,) = role.cache.snapshots()
        assert [usage.slots_used for usage in node.usages] == [120]


@pytest.mark.looptime
async def test_who_leads_is_not_ready_before_the_cluster_is_listed():
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.SILENCE, verb="list", resource="nodes"))
    role = make_role(kube)

    async with leading(role):
        await asyncio.sleep(5)

        assert role.knows_leader() == (False, "leads, but the cluster is not listed yet")


@pytest.mark.looptime
async def test_a_follower_knows_the_leader_and_lists_nothing():
    kube = FakeKube()
    follower = make_role(FakeKube(api=kube.api, caller="follower"), "node-2_b")
    async with leading(make_role(kube)), follower.running():
        await asyncio.sleep(5)

        assert follower.knows_leader() == (True, "follows node-1_a")
        assert kube.requests.count(verb="list", caller="follower") == 0


@pytest.mark.looptime
async def test_a_stall_of_nearly_the_renew_deadline_leaves_no_leader_that_sees_nothing():
    """The last renewal is done, after the watches have stopped for want of it."""
    kube = FakeKube()
    role = make_role(kube)
    async with leading(role) as work:
        await asyncio.sleep(5)
        renewal = {"verb": "update", "resource": LEASES.label}
        kube.faults.add(Fault(kind=FaultKind.STATUS, code=500, times=None, **renewal))
        await asyncio.sleep(0.75)
        kube.faults.clear()
        kube.faults.add(Fault(kind=FaultKind.DELAY, delay_s=0.4, **renewal))
        await work.running_count.wait_for(lambda count: not count)
        await asyncio.sleep(0.01)
        assert not role.cache.is_synced

        await asyncio.sleep(5)
        await kube.create(NODES, node_object())
        await asyncio.sleep(1)

        assert role.knows_leader() == (True, "leads")
        assert [node.node_name for node in role.cache.snapshots()] == ["node-1"]


@pytest.mark.looptime
async def test_the_lease_is_released_after_the_work_has_stopped():
    kube = FakeKube()
    async with leading(make_role(kube)) as work:
        pass

    lease = await kube.get(LEASES, LEASE.name, namespace="default")
    assert work.running_count.get() == 0
    assert not lease["spec"].get("holderIdentity")


@pytest.mark.looptime
async def test_a_replica_that_may_only_follow_never_takes_the_lease():
    kube = FakeKube()
    role = make_role(kube)
    role.only_follow()

    async with role.running():
        await asyncio.sleep(60)

        assert not role.elector.may_act()
    assert kube.requests.count(verb="create") == 0


@pytest.mark.looptime
async def test_pages_show_lease_and_cache():
    kube = FakeKube()
    await kube.create(NODES, node_object())
    role = make_role(kube)

    async with leading(role):
        pages = {name: page() for name, page in role.pages().items()}

    assert pages["leases"] == {"holder": "node-1_a", "identity": "node-1_a", "may_act": True}
    assert pages["cache"].keys() == {
        "is_synced",
        "nodes",
        "node_problems",
        "pods",
        "reservations",
        "quotas",
        "quota_remarks",
    }


@pytest.mark.parametrize("hami_metrics", [False, True])
@pytest.mark.parametrize("hami_legacy_metrics", [False, True])
async def test_hamis_names_of_quotas_are_shown_by_setting(hami_metrics, hami_legacy_metrics):
    role = make_role(FakeKube(), hami_metrics=hami_metrics, hami_legacy_metrics=hami_legacy_metrics)

    names = {family.name for family in role.ports.registry.collect()}

    assert "hamid_sched_quota_used" in names
    assert ("hami_resource_quota_used" in names) is hami_metrics
    assert ("QuotaUsed" in names) is hami_legacy_metrics


async def test_who_explains_knows_of_the_room_that_is_being_made():
    role = make_role(FakeKube())

    assert role.explainer().nominations is role.extender.nominations
    assert role.preemptor.nominations is role.extender.nominations


async def test_it_serves_webhook_and_extender():
    role = make_role(FakeKube())

    assert "/webhook" in {route.path for route in role.webhook_routes()}
    assert {route.path for route in role.extender_routes()} == {
        "/scheduler/filter",
        "/scheduler/prioritize",
        "/scheduler/bind",
        "/scheduler/preempt",
    }


@pytest.mark.parametrize("advertises", [False, True])
async def test_its_webhook_writes_amounts_in_full_where_nodes_state_them(advertises):
    role = make_role(FakeKube(), plugin=PluginSettings(advertise_amounts=advertises))

    assert role.admission.rules.spells_out is advertises
