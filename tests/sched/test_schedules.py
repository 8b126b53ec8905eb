"""Random schedules of everything that can happen; the books must be right after each step.

Two hundred of them, or with HAMID_LONG=1 ten thousand.
"""

import asyncio
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamid.codec.allocation_record import read_allocation
from hamid.errors import HamidError
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import NODES, PODS, PatchKind
from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.quota import charge
from hamid.sched.sinks import NodeSink, PodSink
from tests.builders import container_object
from tests.sched.builders import make_devices
from tests.sched.objects import added, deleted, modified, quota_object, registered, waiting
from tests.sched.world import Call, World

NODE_COUNT = 2
CARD_COUNT = 2
CARD_MIB = 8_000
SLOTS = 3

SHAPES = (
    {"containers": (container_object("a", {"gpu": 1, "gpumem": 3_000, "gpucores": 30}),)},
    {"containers": (container_object("a", {"gpu": 2, "gpumem": 5_000}),)},
    {"containers": (container_object("a", {"gpu": 1}),)},
    {
        "containers": (container_object("a", {"gpu": 1, "gpumem": 2_000}),),
        "init_containers": [container_object("i", {"gpu": 1, "gpumem": 6_000})],
    },
    {
        "containers": (container_object("a", {"gpu": 1, "gpumem": 2_000}),),
        "init_containers": [container_object("i", {"gpu": 2, "gpumem": 1_000})],
    },
    {
        "containers": (
            container_object("a", {"gpu": 1, "gpumem": 2_000, "gpucores": 50}),
            container_object("b", {"gpu": 1, "gpumem": 3_000, "gpucores": 60}),
        ),
        "init_containers": [
            container_object("s", {"gpu": 1, "gpumem": 1_000}, restartPolicy="Always")
        ],
    },
    {"containers": (container_object("a"),)},
)

IS_LONG = os.environ.get("HAMID_LONG") == "1"  # noqa: TID251 - whoever runs the tests says so

INITIALIZED = {"type": "Initialized", "status": "True"}


class Schedule:
    """Steps, each picked by numbers; those that make no sense at the moment do nothing."""

    def __init__(self, quota_mib=None):
        self.quota_mib = quota_mib
        self.world = World(pod_wait_s=0.001, sync_wait_s=0.001)
        self.count = 0

    async def begin(self):
        devices = make_devices(CARD_COUNT, memory_mib=CARD_MIB, slot_count=SLOTS)
        self.nodes = {f"n{i}": registered(f"n{i}", devices) for i in range(NODE_COUNT)}
        quotas = [] if self.quota_mib is None else [quota_object(gpumem=self.quota_mib)]
        await self.world.create(*self.nodes.values(), *quotas)

    async def pods(self):
        return (await self.world.kube.list(PODS)).items

    async def pick(self, number, *, is_bound):
        found = [pod for pod in await self.pods() if ("nodeName" in pod["spec"]) is is_bound]
        return found[number % len(found)] if found else None

    async def tell(self, pod):
        PodSink(self.world.cache).apply(modified(pod))

    async def create(self, number, _):
        self.count += 1
        shape = SHAPES[number % len(SHAPES)]
        created = await self.world.kube.create(PODS, waiting(name=f"p{self.count:03}", **shape))
        PodSink(self.world.cache).apply(added(created))

    async def place(self, number, is_shown):
        """A pod all the way, with or without news of its binding."""
        await self.create(number, 0)
        pod = (await self.pods())[-1]
        if (await self.world.filter(call_of(pod))).node_names:
            await self.bind_as_reserved_of(pod)
        if is_shown % 2:
            await self.tell(await self.world.pod(call_of(pod)))

    async def filter(self, number, _):
        if pod := await self.pick(number, is_bound=False):
            await self.world.filter(call_of(pod))

    async def bind(self, number, where):
        if pod := await self.pick(number, is_bound=False):
            await self.bind_to(pod, where)

    async def bind_as_reserved(self, number, _):
        if pod := await self.pick(number, is_bound=False):
            await self.bind_as_reserved_of(pod)

    async def bind_as_reserved_of(self, pod):
        kept = self.world.cache.reservation(pod["metadata"]["uid"])
        await self.bind_to(pod, int(kept.allocation.node_name[1:]) if kept else 0)

    async def bind_to(self, pod, where):
        call = call_of(pod)
        try:
            await self.world.binder.bind(call.bind(f"n{where % NODE_COUNT}"))
        except HamidError:
            return

    async def bind_and_lose(self, number, where):
        kinds = (FaultKind.LOSE_ANSWER, FaultKind.DROP, FaultKind.STATUS)
        fault = Fault(kind=kinds[where % len(kinds)], resource="pods/binding", code=500)
        self.world.kube.faults.add(fault)
        await self.bind_as_reserved(number, where)
        self.world.kube.faults.clear()

    async def show(self, number, _):
        if pod := await self.pick(number, is_bound=True):
            await self.tell(pod)

    async def delete(self, number, is_lost):
        if pod := await self.pick(number, is_bound=number % 4 > 0):
            meta = pod["metadata"]
            await self.world.kube.delete(PODS, meta["name"], namespace="default", grace_period_s=0)
            if is_lost % 2:
                PodSink(self.world.cache).apply(deleted(pod))

    async def end_init(self, number, _):
        await self.set_status(number, {"conditions": [INITIALIZED]})

    async def end(self, number, _):
        await self.set_status(number, {"phase": "Succeeded"})

    async def set_status(self, number, status):
        if pod := await self.pick(number, is_bound=True):
            pod = await self.world.kube.patch(
                PODS,
                pod["metadata"]["name"],
                {"status": status},
                kind=PatchKind.MERGE,
                namespace="default",
                subresource="status",
            )
            await self.tell(pod)

    async def end_all(self, picks):
        """Init phases first, so that nobody holds more than its last containers do."""
        await self.relist()
        for number, _ in enumerate(await self.pods()):
            await self.end_init(number, 0)
        for number in picks:
            await self.delete(4 * number + 1, is_lost=1)
            await self.assert_right()

    async def relist(self, *_):
        await self.world.sync()

    async def wait(self, number, _):
        self.world.clock.advance(number % 10)

    async def lose_node(self, number, _):
        name = f"n{number % NODE_COUNT}"
        NodeSink(self.world.cache).apply(deleted(self.nodes[name]))

    async def change_node(self, number, how):
        name = f"n{number % NODE_COUNT}"
        devices = make_devices(
            CARD_COUNT, memory_mib=CARD_MIB, slot_count=SLOTS, is_healthy=how % 3 > 0
        )
        node = registered(name, devices, cordoned=["card-0"] if how % 3 == 1 else ())
        await self.world.kube.patch(
            NODES,
            name,
            {"metadata": {"annotations": node["metadata"]["annotations"]}},
            kind=PatchKind.MERGE,
        )
        NodeSink(self.world.cache).apply(modified(node))

    async def restart(self, *_):
        self.world.cache.reset()
        await self.world.sync()

    async def assert_right(self):
        self.world.assert_books_are_right()
        for node in self.world.cache.snapshots():
            for usage in node.usages:
                assert usage.memory_free_mib >= 0
                assert usage.core_free_percent >= 0
                assert usage.slots_free >= 0
                assert usage.exclusive_count <= 1
        await self.assert_cluster_is_within_capacity()

    async def assert_cluster_is_within_capacity(self):
        """By what the pods themselves say, whatever our books think."""
        used, charged_mib = {}, 0
        for pod in await self.pods():
            status = pod.get("status") or {}
            if "nodeName" not in pod["spec"] or status.get("phase") == "Succeeded":
                continue
            if (allocation := read_allocation(pod)) is None:
                continue
            is_initialized = INITIALIZED in status.get("conditions", ())
            charged_mib += charge(allocation, is_initialized=is_initialized).memory_mib
            for uuid, hold in allocation.holds(is_initialized=is_initialized).items():
                used.setdefault((allocation.node_name, uuid), []).append(hold)
        for holds in used.values():
            assert sum(hold.memory_mib for hold in holds) <= CARD_MIB
            assert sum(hold.core_percent for hold in holds) <= WHOLE_DEVICE_PERCENT
            assert sum(hold.slots for hold in holds) <= SLOTS
            assert len(holds) == 1 or not any(hold.is_exclusive for hold in holds)
        assert self.quota_mib is None or charged_mib <= self.quota_mib


STEPS = (
    "place",
    "place",
    "place",
    "place",
    "place",
    "create",
    "create",
    "filter",
    "filter",
    "bind_as_reserved",
    "bind_as_reserved",
    "bind",
    "bind_and_lose",
    "show",
    "delete",
    "end_init",
    "end",
    "relist",
    "wait",
    "wait",
    "lose_node",
    "change_node",
    "restart",
)


def call_of(pod):
    meta = pod["metadata"]
    return Call(meta["uid"], meta["namespace"], meta["name"])


async def run(steps, quota_mib, picks):
    schedule = Schedule(quota_mib)
    await schedule.begin()
    for name, first, second in steps:
        await getattr(schedule, name)(first, second)
        await schedule.assert_right()
    await schedule.relist()
    await schedule.assert_right()
    await schedule.end_all(picks)


@pytest.mark.slow
@pytest.mark.timeout(14_400 if IS_LONG else 120)
@settings(max_examples=10_000 if IS_LONG else 200)
@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 99)),
        min_size=10,
        max_size=40,
    ),
    st.sampled_from([None, 12_000, 21_000]),
    st.lists(st.integers(0, 9), max_size=10),
)
def test_the_books_are_right_and_nothing_is_promised_twice_nor_beyond_a_quota(
    steps, quota_mib, picks
):
    asyncio.run(run(steps, quota_mib, picks))
