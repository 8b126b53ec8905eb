import asyncio
from contextlib import asynccontextmanager

import pytest

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.codec.node_annotation import (
    decode_link_scores,
    decode_node_inventory,
    encode_node_inventory,
)
from hamid.kube.errors import Unavailable
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import NODES, PatchKind
from hamid.kube.watch import Reflector
from hamid.model.names import NODE_REGISTER, NODE_SCORE
from hamid.model.node import NodeInventory
from hamid.nvml.errors import DriverUnavailable
from hamid.nvml.fake import FakeNvml
from hamid.plugin.publisher import InventoryPublisher, RegistrationGuard
from tests.builders import make_devices, make_inventory, uuid
from tests.plugin.values import nvml_device


class World:
    """A node whose registration is kept by a publisher."""

    def __init__(self, kube):
        self.kube = kube
        self.nvml = FakeNvml(
            [nvml_device(1), nvml_device(2)],
            link_scores={uuid(1): {uuid(2): 100}, uuid(2): {uuid(1): 100}},
        )
        self.inventory = Latest(NodeInventory(node_name="node-1", devices=()))
        self.publisher = InventoryPublisher(
            kube=kube,
            nvml=self.nvml,
            inventory=self.inventory,
            backoff=Backoff(first_s=1, max_s=30, jitter=0),
        )

    async def annotations(self):
        node = await self.kube.get(NODES, "node-1")
        return node["metadata"].get("annotations") or {}

    async def registered(self):
        return decode_node_inventory((await self.annotations())[NODE_REGISTER], node_name="node-1")

    def writes(self, **which):
        return self.kube.requests.count(verb="patch", resource="nodes", **which)

    async def overwrite(self, text):
        patch = {"metadata": {"annotations": {NODE_REGISTER: text}}}
        await self.kube.patch(NODES, "node-1", patch, kind=PatchKind.MERGE)
        self.kube.requests.clear()

    def change(self, **health):
        self.inventory.publish(make_inventory("node-1", *make_devices(2, **health)))


@pytest.fixture
async def world():
    kube = FakeKube()
    await kube.create(NODES, {"metadata": {"name": "node-1"}})
    return World(kube)


async def test_the_inventory_and_the_links_between_cards_are_written(world):
    world.change()

    await world.publisher.step()

    assert await world.registered() == world.inventory.get()
    scores = decode_link_scores((await world.annotations())[NODE_SCORE])
    assert scores[uuid(1)] == {uuid(2): 100}


async def test_what_has_not_changed_is_not_written_again(world):
    world.change()

    for _ in range(3):
        await world.publisher.step()

    assert world.writes() == 1


async def test_changed_health_is_written(world):
    world.change()
    await world.publisher.step()
    world.change(is_healthy=False)

    await world.publisher.step()

    assert not any(d.is_healthy for d in (await world.registered()).devices)


async def test_without_link_scores_the_inventory_is_written_all_the_same(world):
    world.change()
    world.nvml.fail_driver(DriverUnavailable("no driver", hint="load it"))

    await world.publisher.step()

    assert NODE_SCORE not in await world.annotations()
    assert await world.registered() == world.inventory.get()


async def test_a_write_that_fails_is_no_write(world):
    world.change()
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=500))

    with pytest.raises(Unavailable):
        await world.publisher.step()
    await world.publisher.step()

    assert await world.registered() == world.inventory.get()


@pytest.mark.parametrize("others", ["[]", "gone"])
async def test_what_somebody_else_has_changed_is_written_again(world, others, assert_logged):
    world.change()
    await world.publisher.step()
    await world.overwrite(None if others == "gone" else others)

    await world.publisher.restore()

    assert await world.registered() == world.inventory.get()
    assert_logged("registration changed by somebody else")


async def test_a_look_at_what_is_right_writes_nothing(world):
    world.change()
    await world.publisher.step()
    world.kube.requests.clear()

    await world.publisher.restore()

    assert world.writes() == 0


@pytest.mark.looptime
async def test_a_node_that_shares_no_card_takes_back_what_it_registered_before(world):
    await world.overwrite(encode_node_inventory(make_inventory("node-1")))
    async with running(world.publisher):
        await asyncio.sleep(1)

    assert (await world.registered()).devices == ()


@pytest.mark.looptime
async def test_cards_that_are_gone_are_registered_as_gone(world):
    world.change()
    async with running(world.publisher):
        await asyncio.sleep(1)
        world.inventory.publish(NodeInventory(node_name="node-1", devices=()))
        await asyncio.sleep(1)

    assert (await world.registered()).devices == ()


@pytest.mark.looptime
async def test_an_outage_is_outlasted_with_growing_pauses_and_said_once(world, logs):
    world.change()
    for nth, code in enumerate((500, 409, 429, 503)):
        world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=code, after=nth))
    async with running(world.publisher):
        await asyncio.sleep(1 + 2 + 4 + 7.5)
        assert world.writes() == 4
        await asyncio.sleep(1)

    assert await world.registered() == world.inventory.get()
    assert world.writes(code=200) == 1
    warnings = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert warnings == ["registration delayed"]
    assert world.publisher.backoff.failures == 0


@pytest.mark.looptime
async def test_a_server_that_names_a_time_is_given_it(world):
    world.change()
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=429, retry_after_s=20))
    async with running(world.publisher):
        await asyncio.sleep(19)
        assert world.writes() == 1
        await asyncio.sleep(2)

    assert world.writes(code=200) == 1


@pytest.mark.looptime
async def test_after_an_outage_the_newest_inventory_is_written(world):
    world.kube.faults.add(Fault(kind=FaultKind.DROP, verb="patch", times=5))
    world.change()
    async with running(world.publisher):
        await asyncio.sleep(5)
        world.change(is_healthy=False)
        await asyncio.sleep(60)

    assert await world.registered() == world.inventory.get()
    assert world.writes(code=200) == 1


# The guard, on a watch of the node.


@asynccontextmanager
async def guarded(world):
    guard = RegistrationGuard(publisher=world.publisher)
    watch = Reflector(
        kube=world.kube,
        resource=NODES,
        field_selector="metadata.name=node-1",
        sink=guard,
        name="own-node-watch",
        clock=lambda: 0.0,
    )
    world.change()
    async with running(world.publisher, guard, watch):
        await asyncio.sleep(guard.settle_s + 1)
        world.kube.requests.clear()
        yield guard


@pytest.mark.looptime
@pytest.mark.parametrize("others", ["[]", "gone"])
async def test_a_registration_that_somebody_changes_is_restored_in_seconds(world, others):
    async with guarded(world) as guard:
        await world.overwrite(None if others == "gone" else others)
        await asyncio.sleep(guard.settle_s + 1)

    assert await world.registered() == world.inventory.get()
    assert world.writes() == 1


@pytest.mark.looptime
async def test_a_node_made_anew_is_registered(world):
    async with guarded(world) as guard:
        await world.kube.delete(NODES, "node-1")
        await asyncio.sleep(60)
        await world.kube.create(NODES, {"metadata": {"name": "node-1"}})
        await asyncio.sleep(guard.settle_s + world.publisher.backoff.max_s)

    assert await world.registered() == world.inventory.get()
    assert world.writes() == 1


@pytest.mark.looptime
async def test_a_node_that_nobody_else_writes_to_is_neither_read_nor_written(world):
    async with guarded(world):
        for beat in range(100):
            status = {"status": {"conditions": [{"type": "Ready", "reason": str(beat)}]}}
            await world.kube.patch(NODES, "node-1", status, kind=PatchKind.MERGE)
            await asyncio.sleep(10)

        assert world.kube.requests.count(verb="get") == 0
        assert world.writes() == 100


@pytest.mark.looptime
async def test_one_who_always_writes_back_does_not_set_off_a_storm(world):
    others = {"metadata": {"annotations": {NODE_REGISTER: "[]"}}}
    async with guarded(world) as guard:
        for _ in range(600):
            await world.kube.patch(NODES, "node-1", others, kind=PatchKind.MERGE)
            await asyncio.sleep(0.1)
        ours = world.writes() - 600
        await asyncio.sleep(guard.settle_s + 1)

    assert 1 <= ours <= 60 / guard.settle_s
    assert await world.registered() == world.inventory.get()
