import asyncio
from contextlib import asynccontextmanager

import pytest

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.codec.allocation_record import encode_allocation
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import NODES, PODS, PatchKind
from hamid.kube.watch import Reflector
from hamid.model.names import NODE_AMOUNTS, POD_ALLOCATION, ResourceNames
from hamid.model.node import NodeInventory
from hamid.plugin.amounts_writer import AmountsDeriver, AmountsWriter
from tests.builders import (
    container_object,
    make_allocation,
    make_container_allocation,
    make_devices,
    make_inventory,
    make_share,
    pod_object,
)

NODE = "node-1"
NAMES = ResourceNames()
OURS = NAMES.all()[1:]
pytestmark = pytest.mark.looptime


class World:
    """A node of two cards, whose daemon has known of its pods since it began."""

    def __init__(self, *, is_on=True, names=NAMES):
        self.kube = FakeKube()
        self.inventory = Latest(NodeInventory(node_name=NODE, devices=()))
        self.writer = AmountsWriter(
            kube=self.kube,
            node_name=NODE,
            names=names,
            is_on=is_on,
            backoff=Backoff(first_s=1, max_s=30, jitter=0),
        )
        self.deriver = AmountsDeriver(inventory=self.inventory, writer=self.writer)
        self.cards(2)

    def cards(self, count, **fields):
        self.inventory.publish(make_inventory(NODE, *make_devices(count, **fields)))

    def watch(self, resource, field, sink):
        return Reflector(
            kube=self.kube,
            resource=resource,
            field_selector=f"{field}={NODE}",
            sink=sink,
            name=resource.plural,
            clock=lambda: 0.0,
        )

    @asynccontextmanager
    async def run(self):
        pods = self.watch(PODS, "spec.nodeName", self.deriver)
        node = self.watch(NODES, "metadata.name", self.writer)
        async with running(pods):
            await pods.synced.wait_for(bool)
            async with running(self.deriver, self.writer, node):
                await asyncio.sleep(1)
                yield

    async def create_node(self):
        capacity = {"cpu": "8", "nvidia.com/gpu": "20"}
        status = {"capacity": capacity, "allocatable": capacity}
        await self.kube.create(NODES, {"metadata": {"name": NODE}, "status": status})

    async def create_pod(self, limits, *, init=(), held=None):
        pod = pod_object(
            container_object("train", limits), init_containers=list(init), node_name=NODE
        )
        uid = (await self.kube.create(PODS, pod))["metadata"]["uid"]
        if held is not None:
            text = encode_allocation(make_allocation(held, pod_uid=uid))
            await self.kube.patch(
                PODS,
                "pod-1",
                {"metadata": {"annotations": {POD_ALLOCATION: text}}},
                kind=PatchKind.MERGE,
                namespace="default",
            )
        await asyncio.sleep(0.1)

    async def set_capacity(self, **sums):
        capacity = {f"nvidia.com/{name}": amount for name, amount in sums.items()}
        patch = {"status": {"capacity": capacity, "allocatable": capacity}}
        await self.kube.patch(NODES, NODE, patch, kind=PatchKind.MERGE, subresource="status")
        self.kube.requests.clear()

    async def stated(self, section="capacity"):
        status = (await self.kube.get(NODES, NODE))["status"]
        return {name: text for name, text in status[section].items() if name in OURS}

    def writes(self):
        return self.kube.requests.count(verb="patch")


@pytest.fixture
async def world():
    world = World()
    await world.create_node()
    return world


FULL = dict(zip(OURS, ("80000", "200", "200", "20"), strict=True))


async def test_the_sums_of_the_cards_are_stated_once_and_slots_left_to_the_kubelet(world):
    async with world.run():
        await asyncio.sleep(600)

        assert await world.stated() == await world.stated("allocatable") == FULL
        node = await world.kube.get(NODES, NODE)
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "20"
    assert node["metadata"]["annotations"][NODE_AMOUNTS].split(",") == sorted(OURS)
    assert world.writes() == 1


async def test_a_card_that_breaks_is_stated_no_more_until_it_is_well(world):
    async with world.run():
        world.cards(2, is_healthy=False)
        await asyncio.sleep(1)
        broken = await world.stated()
        world.cards(2)
        await asyncio.sleep(1)

        assert set(broken.values()) == {"0"}
        assert await world.stated() == FULL


async def test_what_a_pod_asks_beyond_what_it_holds_is_stated_while_it_is_there(world):
    init = container_object("first", {"gpu": 1, "gpumem": 9_000})
    share = make_share(memory_mib=1_000, core_percent=0)
    held = make_container_allocation(share)
    async with world.run():
        await world.create_pod({"gpu": 1, "gpumem": 1_000}, init=[init], held=held)
        there = await world.stated()
        ended = {"status": {"phase": "Succeeded"}}
        await world.kube.patch(
            PODS,
            "pod-1",
            ended,
            kind=PatchKind.MERGE,
            namespace="default",
            subresource="status",
        )
        await asyncio.sleep(0.1)

        assert there == FULL | {NAMES.memory: "88000"}
        assert await world.stated() == FULL


async def test_what_a_pod_asks_without_slots_takes_nothing_from_others(world):
    """The kubelet counts it, whoever let it onto the node."""
    async with world.run():
        await world.create_pod({"gpumem": 70_000})
        there = await world.stated()
        await world.kube.delete(PODS, "pod-1", namespace="default", grace_period_s=0)
        await asyncio.sleep(0.1)

        assert there == FULL | {NAMES.memory: "150000"}
        assert await world.stated() == FULL


async def test_pods_that_were_there_before_count_from_the_first_write(world):
    await world.create_pod({"gpumem": "1Gi"})
    async with world.run():
        assert (await world.stated())[NAMES.memory] == str(80_000 + 1024**3)
    assert world.writes() == 1


async def test_sums_that_are_there_already_are_not_written_again(world):
    """As the API server writes them."""
    await world.set_capacity(**{"gpumem": "80k", "gpumem-percentage": "200", "gpucores": "200"})
    await world.set_capacity(priority="20")

    async with world.run():
        await asyncio.sleep(60)

    assert world.writes() == 0


async def test_a_kubelet_that_lost_its_books_and_zeroed_all_is_told_again(world):
    async with world.run():
        await world.set_capacity(gpumem="0", gpucores="0")
        await asyncio.sleep(world.writer.settle_s + 1)

        assert await world.stated() == FULL
    assert world.writes() == 1


async def test_a_node_that_is_made_anew_is_told(world):
    async with world.run():
        await world.kube.delete(NODES, NODE)
        await asyncio.sleep(60)
        await world.create_node()
        await asyncio.sleep(world.writer.settle_s + world.writer.backoff.max_s)

        assert await world.stated() == FULL


async def test_a_change_is_written_at_once_even_while_another_is_being_mended(world):
    async with world.run():
        await world.set_capacity(gpumem="0")
        await asyncio.sleep(1)
        world.cards(3)
        await asyncio.sleep(0.1)

        assert (await world.stated())[NAMES.memory] == "120000"


async def test_an_outage_is_outlasted(world, logs):
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=500, times=3))
    async with world.run():
        await asyncio.sleep(10)

        assert await world.stated() == FULL
    warnings = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert warnings == ["registration delayed"]


async def test_resources_of_other_names_are_stated_by_these():
    world = World(names=ResourceNames(memory="example.com/mem"))
    await world.create_node()
    async with world.run():
        capacity = (await world.kube.get(NODES, NODE))["status"]["capacity"]

    assert capacity["example.com/mem"] == "80000"
    assert "nvidia.com/gpumem" not in capacity


async def turned_off(world):
    """The same node, with a daemon that states nothing."""
    async with world.run():
        pass
    later = World(is_on=False)
    later.kube, later.writer.kube = world.kube, world.kube
    world.kube.requests.clear()
    return later


async def test_turned_off_the_sums_are_taken_away_and_not_made_zero(world):
    later = await turned_off(world)
    async with later.run():
        await asyncio.sleep(60)

        assert await later.stated() == await later.stated("allocatable") == {}
        node = await later.kube.get(NODES, NODE)
    assert node["status"]["capacity"] == {"cpu": "8", "nvidia.com/gpu": "20"}
    assert NODE_AMOUNTS not in node["metadata"]["annotations"]
    assert later.writes() == 1


async def test_without_the_right_to_take_them_away_it_says_so_once(world, logs):
    later = await turned_off(world)
    later.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=403, times=None))
    logs.clear()
    async with later.run():
        await asyncio.sleep(600)

    assert later.writes() == 1
    said = [entry["event"] for entry in logs if entry["event"].startswith("amounts")]
    assert said == ["amounts not taken away"]


async def test_what_somebody_else_states_stays_while_it_is_off():
    world = World(is_on=False)
    await world.create_node()
    await world.set_capacity(gpumem="5")
    async with world.run():
        await asyncio.sleep(60)

        assert await world.stated() == {NAMES.memory: "5"}
    assert world.writes() == 0
