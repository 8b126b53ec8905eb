"""Replicas and time: what the leader makes up for, and what becomes of leaders that are lost.

In virtual time: what happens within seconds does so on a machine of any speed. "d" with a number
is one of the inputs that every part must pass.
"""

import asyncio
from collections import Counter

import pytest

from hamid.codec.allocation_record import read_allocation
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import NODES, PODS, RESOURCE_QUOTAS, PatchKind
from hamid.model.quota import charge
from hamid.web.errors import Refusal
from tests.daemon.replicas import fleet
from tests.sched.objects import quota_object
from tests.sched.recount import assert_books_are_right

pytestmark = pytest.mark.slow

GPUMEM = "limits.nvidia.com/gpumem"


def fault(leader, kind, *, after=0):
    """Of the leader's own watch of pods."""
    return Fault(kind=kind, verb="watch", resource="pods", caller=leader.name, after=after)


def charged_mib(made, *names):
    """What these pods have, by what stands on them."""
    return sum(charge(read_allocation(made.pod(name))).memory_mib for name in names)


def quota_used_mib(leader):
    labels = {"namespace": "default", "quota": "cards", "key": GPUMEM}
    return leader.metric("hamid_sched_quota_used", **labels)


@pytest.mark.looptime
async def test_d12_a_leader_that_goes_on_makes_up_for_a_deletion_that_it_never_saw():
    loop = asyncio.get_running_loop()
    async with fleet("a") as made:
        leader = await made.leader()
        cache = leader.role.cache
        await made.admin.create(RESOURCE_QUOTAS, quota_object(gpumem=10_000_000))
        await made.create_node("n-1", cards=8, memory_mib=80_000)
        holder = await made.create_pod("holder", gpu=8, gpumem=80_000)
        await made.until(lambda: made.node_of("holder"))
        await asyncio.sleep(1)
        assert quota_used_mib(leader) == charged_mib(made, "holder") == 8 * 80_000

        # The first event is that the pod is to end, the next that it has.
        made.api.faults.add(fault(leader, FaultKind.LOSE_EVENT, after=1))
        await made.delete_pod("holder")
        await asyncio.sleep(1)
        await made.create_pod("next", gpu=8, gpumem=80_000)
        await asyncio.sleep(5)
        assert not made.api.faults.waiting
        assert made.node_of("next") is None
        assert quota_used_mib(leader) == 8 * 80_000

        made.api.faults.add(fault(leader, FaultKind.CUT_WATCH))
        cut_at_s = loop.time()
        label = {"metadata": {"labels": {"a": "b"}}}
        await made.admin.patch(PODS, "next", label, kind=PatchKind.MERGE, namespace="default")
        made.api.store.compact()
        await asyncio.sleep(0.1)  # in which kube-scheduler tries the pod, for it is another now
        assert not made.api.faults.waiting

        made.extender.opened.clear()
        await made.until(lambda: cache.pod(holder["metadata"]["uid"]) is None)
        (node,) = cache.snapshots()
        assert [usage.slots_used for usage in node.usages] == [0] * 8
        assert [usage.memory_free_mib for usage in node.usages] == [80_000] * 8
        assert quota_used_mib(leader) == 0
        assert leader.metric("hamid_sched_pods") == 1
        made.extender.opened.set()
        await made.until(lambda: made.node_of("next"))
        assert loop.time() - cut_at_s < 10

        await asyncio.sleep(1)
        assert leader.metric("hamid_kube_watch_relists_total", watch="pod-watch") == 1
        assert leader.metric("hamid_sched_is_leader") == 1
        assert leader.metric("hamid_sched_reservations") == 0
        assert quota_used_mib(leader) == charged_mib(made, "next") == 8 * 80_000
        assert_books_are_right(cache)


@pytest.mark.looptime
async def test_d13_a_pod_is_bound_within_three_seconds_though_the_leader_learns_late_of_the_room():
    """kube-scheduler tries it at once, in vain, and would not do so again by itself."""
    loop = asyncio.get_running_loop()
    async with fleet("a") as made:
        leader = await made.leader()
        await made.create_node("n-1", cards=1, memory_mib=16_000)
        await made.create_pod("x", gpu=1, gpumem=16_000)
        await made.until(lambda: made.node_of("x"))
        await made.delete_pod("x", grace_s=20)
        calls = made.extender.calls
        before = calls["filter"]
        await made.create_pod("y", gpu=1, gpumem=16_000)
        await asyncio.sleep(19)
        assert calls["filter"] == before + 1

        made.api.faults.add(fault(leader, FaultKind.CUT_WATCH, after=1))
        ended_at_s = loop.time()
        await made.delete_pod("x")
        await made.until(lambda: made.node_of("y"))

        assert loop.time() - ended_at_s < 3
        assert not made.api.faults.waiting
        assert calls["filter"] == before + 3
        assert leader.metric("hamid_sched_wakes_total", outcome="woken") == 1


KILLED_S, FROZEN_S, RESUMED_S, END_S = 120, 170, 260, 300
GAP_S = 20
"""The lease's duration, and two looks of a standby: how long nobody may lead."""


class Watcher:
    """Looks at all replicas once a second."""

    def __init__(self, made, *, nodes):
        self.made, self.nodes = made, nodes
        self.led = Counter()
        self.gaps = []

    def look(self, second):
        acting = [each for each in self.made.replicas if each.role.elector.may_act()]
        assert len(acting) <= 1
        leading = [each for each in acting if each.leads and not each.is_frozen]
        if not leading:
            self.gaps.append(second)
        for leader in leading:
            self.led[leader.name] += 1
            assert leader.metric("hamid_sched_nodes") == self.nodes
            snapshots = leader.role.cache.snapshots()
            assert [len(node.usages) for node in snapshots] == [8] * self.nodes


@pytest.mark.timeout(300)
@pytest.mark.looptime(noop_cycles=5)
async def test_d14_nodes_never_vanish_and_pods_are_bound_once_while_leaders_are_killed_and_frozen():
    async with fleet("a", "b", "c") as made:
        for name in ("n-1", "n-2"):
            await made.create_node(name, cards=8, memory_mib=40_000)
        killed = await made.leader()
        watcher, names = Watcher(made, nodes=2), []
        for second in range(END_S):
            if second == KILLED_S:
                await made.kill(killed)
            if second == FROZEN_S:
                frozen = await made.leader()
                late_bind = await caught_half_way(made, frozen)
            if second == RESUMED_S:
                frozen.thaw()
                resumed_at_s = asyncio.get_running_loop().time()
            if second % 3 == 0:
                names.append(f"pod-{second:03}")
                await made.create_pod(names[-1], gpu=1, gpumem=1_000)
            if second % 10 == 0:
                await report(made, second)
            watcher.look(second)
            await asyncio.sleep(1)
        await made.until(lambda: all(map(made.node_of, names)))

        (last,) = set(made.replicas) - {killed, frozen}
        assert set(watcher.gaps) <= {
            *range(KILLED_S, KILLED_S + GAP_S),
            *range(FROZEN_S, FROZEN_S + GAP_S),
        }
        assert watcher.led.keys() == {replica.name for replica in made.replicas}
        assert made.bindings() == Counter(names)
        assert await made.leader() is last

        # It signs up as one who would lead, and that is all.
        assert made.written(by=frozen, since_s=resumed_at_s) <= {"leases.coordination.k8s.io"}
        assert "pods/binding" in made.written(by=frozen)
        assert isinstance(late_bind.result(), Refusal)
        assert made.node_of("caught") is None
        assert frozen.role.knows_leader() == (True, f"follows {last.identity}")
        assert frozen.role.cache.snapshots() == ()
        assert_books_are_right(last.role.cache)
        assert len(last.role.cache.reservations()) == 0


async def caught_half_way(made, leader):
    """A pod for which the leader has kept room, and is asked to bind it in the moment it freezes."""
    pod = await made.create_pod("caught", scheduler_name="another", gpu=1, gpumem=1_000)
    found = await leader.ask("filter", {"Pod": pod, "Nodes": None, "NodeNames": ["n-1", "n-2"]})
    leader.freeze()
    metadata = pod["metadata"]
    return leader.ask(
        "bind",
        {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": found["NodeNames"][0],
        },
    )


async def report(made, second):
    """Something of each node is new, as it is all the time."""
    for name in ("n-1", "n-2"):
        patch = {"metadata": {"annotations": {"example.com/reported": str(second)}}}
        await made.admin.patch(NODES, name, patch, kind=PatchKind.MERGE)
