"""Random schedules of everything that can happen; the books must be right after each step.

Two hundred of them, or with HAMID_LONG=1 ten thousand.
"""

import asyncio
import os
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamid.codec.allocation_record import read_allocation
from hamid.errors import HamidError
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import NODES, PODS, PatchKind
from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.quota import NO_CHARGE, QuotaResource, charge
from hamid.sched.sinks import NodeSink, PodSink
from tests.builders import container_object
from tests.sched.builders import make_devices
from tests.sched.crowd import preemptor_of
from tests.sched.objects import added, deleted, modified, quota_object, registered, waiting
from tests.sched.world import Call, World

QUOTA_RESOURCES = {
    "gpu": QuotaResource.CARDS,
    "gpumem": QuotaResource.MEMORY_MIB,
    "gpucores": QuotaResource.CORE_PERCENT,
}

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
    {"containers": (container_object("a", {"gpu": 1, "gpumem-percentage": 40, "gpucores": 20}),)},
)

IS_LONG = os.environ.get("HAMID_LONG") == "1"  # noqa: TID251 - whoever runs the tests says so

INITIALIZED = {"type": "Initialized", "status": "True"}


class Size(NamedTuple):
    """What there is of a node, each of whose cards is like the others."""

    cards: int
    card_mib: int
    slots: int

    def devices(self, **options):
        return make_devices(self.cards, memory_mib=self.card_mib, slot_count=self.slots, **options)


class Schedule:
    """Steps, each picked by numbers; those that make no sense at the moment do nothing.

    Args:
        sizes: of the nodes `n0`, `n1`, …
        quotas: what each allows, by the short name of the resource.
    """

    def __init__(self, sizes, quotas):
        self.sizes = {f"n{number}": size for number, size in enumerate(sizes)}
        self.quotas = quotas
        self.world = World(pod_wait_s=0.001, sync_wait_s=0.001)
        self.preemptor = preemptor_of(self.world)
        self.count = 0

    async def begin(self):
        self.nodes = {name: registered(name, size.devices()) for name, size in self.sizes.items()}
        quotas = (quota_object(f"q{n}", **hard) for n, hard in enumerate(self.quotas))
        await self.world.create(*self.nodes.values(), *quotas)

    def name(self, number):
        return f"n{number % len(self.sizes)}"

    async def pods(self):
        return (await self.world.kube.list(PODS)).items

    async def pick(self, number, *, is_bound):
        found = [pod for pod in await self.pods() if ("nodeName" in pod["spec"]) is is_bound]
        return found[number % len(found)] if found else None

    async def tell(self, pod):
        PodSink(self.world.cache).apply(modified(pod))

    async def create(self, number, _=0, *, priority=0):
        self.count += 1
        shape = SHAPES[number % len(SHAPES)]
        pod = waiting(name=f"p{self.count:03}", priority=priority, **shape)
        created = await self.world.kube.create(PODS, pod)
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

    async def prioritize(self, number, _):
        if pod := await self.pick(number, is_bound=False):
            names = await self.world.node_names()
            await self.world.extender.prioritize(call_of(pod).filter(names))

    async def preempt(self, number, is_shown):
        """An important pod comes, and others have to go; what is promised to it is no booking."""
        await self.create(number, priority=9)
        await self.world.filter(call_of((await self.pods())[-1]))
        await self.preemptor.step()
        if is_shown % 2:
            await self.relist()

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
            await self.world.binder.bind(call.bind(self.name(where)))
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
        self.world.clock.advance(self.world.settings.confirmation_ttl_s)
        await self.relist()
        await self.assert_right()
        await self.assert_metrics_are_right()

    async def relist(self, *_):
        await self.world.sync()

    async def wait(self, number, _):
        self.world.clock.advance(number % 10)

    async def lose_node(self, number, _):
        NodeSink(self.world.cache).apply(deleted(self.nodes[self.name(number)]))

    async def change_node(self, number, how):
        name = self.name(number)
        devices = self.sizes[name].devices(is_healthy=how % 3 > 0)
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
        used, charged = {}, NO_CHARGE
        for pod in await self.pods():
            status = pod.get("status") or {}
            if "nodeName" not in pod["spec"] or status.get("phase") == "Succeeded":
                continue
            if (allocation := read_allocation(pod)) is None:
                continue
            is_initialized = INITIALIZED in status.get("conditions", ())
            charged += charge(allocation, is_initialized=is_initialized)
            for uuid, hold in allocation.holds(is_initialized=is_initialized).items():
                used.setdefault((allocation.node_name, uuid), []).append(hold)
        for (node_name, _), holds in used.items():
            size = self.sizes[node_name]
            assert sum(hold.memory_mib for hold in holds) <= size.card_mib
            assert sum(hold.core_percent for hold in holds) <= WHOLE_DEVICE_PERCENT
            assert sum(hold.slots for hold in holds) <= size.slots
            assert len(holds) == 1 or not any(hold.is_exclusive for hold in holds)
        for hard in self.quotas:
            for key, amount in hard.items():
                assert charged.of(QUOTA_RESOURCES[key]) <= amount
        return charged

    async def assert_metrics_are_right(self):
        """Once the watches have told all: /metrics says what the pods say."""
        charged = await self.assert_cluster_is_within_capacity()
        for number, hard in enumerate(self.quotas):
            for key in hard:
                labels = {"quota": f"q{number}", "key": f"limits.nvidia.com/{key}"}
                said = self.world.metric("hamid_sched_quota_used", namespace="default", **labels)
                assert said == charged.of(QUOTA_RESOURCES[key])


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
    "prioritize",
    "preempt",
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


async def run(steps, sizes, quotas, picks):
    schedule = Schedule(sizes, quotas)
    await schedule.begin()
    for name, first, second in steps:
        await getattr(schedule, name)(first, second)
        await schedule.assert_right()
    await schedule.relist()
    await schedule.assert_right()
    await schedule.end_all(picks)


SIZES = st.builds(
    Size, st.integers(1, 3), st.sampled_from([8_000, 5_000, 12_000]), st.integers(1, 4)
)
QUOTAS = st.fixed_dictionaries(
    {},
    optional={
        "gpumem": st.sampled_from([12_000, 21_000]),
        "gpucores": st.sampled_from([60, 150]),
        "gpu": st.integers(1, 5),
    },
)


@pytest.mark.slow
@pytest.mark.timeout(14_400 if IS_LONG else 120)
@settings(max_examples=10_000 if IS_LONG else 200)
@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 99)),
        min_size=10,
        max_size=40,
    ),
    st.lists(SIZES, min_size=1, max_size=3),
    st.lists(QUOTAS, max_size=2),
    st.lists(st.integers(0, 9), max_size=10),
)
def test_the_books_are_right_and_nothing_is_promised_twice_nor_beyond_a_quota(
    steps, sizes, quotas, picks
):
    asyncio.run(run(steps, sizes, quotas, picks))
