import pytest

from hamid.aiokit.latest import Latest
from hamid.codec.allocation_record import decode_allocation, encode_allocation
from hamid.errors import KubeletError
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import PODS
from hamid.model.names import POD_ALLOCATION, ResourceNames
from hamid.model.request import ContainerKind
from hamid.plugin.matching import next_match
from hamid.plugin.pods import NodePods
from hamid.plugin.settings import PluginSettings, UndecidedPods
from hamid.plugin.undecided import UndecidedPolicy
from tests.builders import (
    container_object,
    make_allocation,
    make_container_allocation,
    make_devices,
    make_inventory,
    make_share,
    pod_object,
    uuid,
)
from tests.plugin.node import NODE

SLOT = f"{uuid(1)}-4"


class World:
    """A node with two cards of 40 000 MiB, whose policy gives slices of 10 000."""

    def __init__(self, **settings):
        self.kube = FakeKube()
        self.pods = NodePods(node_name=NODE, names=ResourceNames(), kube=self.kube)
        self.policy = UndecidedPolicy(
            settings=PluginSettings(
                **{
                    "undecided_pods": UndecidedPods.SLICE,
                    "default_slice_memory_mib": 10_000,
                    **settings,
                }
            ),
            node_name=NODE,
            inventory=Latest(make_inventory(NODE, *make_devices(2))),
            pods=self.pods,
            kube=self.kube,
        )

    async def bound(self, name="stray", *shares, **pod):
        """A pod of this node, with a decision only if there are shares."""
        pod.setdefault("init_containers", ())
        made = pod_object(container_object(limits={"gpu": 1}), name=name, node_name=NODE, **pod)
        del made["metadata"]["uid"]
        created = await self.kube.create(PODS, made)
        if shares:
            decided = make_allocation(
                make_container_allocation(*shares), pod_uid=created["metadata"]["uid"]
            )
            created["metadata"].setdefault("annotations", {})[POD_ALLOCATION] = encode_allocation(
                decided
            )
            created = await self.kube.replace(PODS, created)
        self.pods.keep(created)
        return self.pods.pod(created["metadata"]["uid"])

    async def shares(self, pod, *slot_ids, served=()):
        match = next_match(pod, served=[(pod.pod_uid, name) for name in served])
        return await self.policy.shares(match, slot_ids or (SLOT,))

    async def recorded(self, name="stray"):
        pod = await self.kube.get(PODS, name, namespace="default")
        return decode_allocation(pod["metadata"]["annotations"][POD_ALLOCATION])


async def test_by_default_a_pod_without_a_decision_is_refused_in_words():
    world = World(undecided_pods=UndecidedPods.REFUSE)
    pod = await world.bound()

    with pytest.raises(KubeletError, match="pod default/stray was not placed") as caught:
        await world.shares(pod)

    assert "plugin.undecided_pods: slice" in caught.value.hint
    assert world.kube.requests.count(verb="patch") == 0


async def test_a_slice_is_of_the_cards_that_the_kubelet_chose_and_is_on_record():
    world = World()
    pod = await world.bound()

    shares = await world.shares(pod, f"{uuid(1)}-4", f"{uuid(2)}-0")

    assert [(s.device_uuid, s.memory_mib, s.core_percent) for s in shares] == [
        (uuid(1), 10_000, 0),
        (uuid(2), 10_000, 0),
    ]
    allocation = await world.recorded()
    assert (allocation.pod_uid, allocation.node_name) == (pod.pod_uid, NODE)
    assert allocation.container("train").shares == shares
    assert world.pods.pod(pod.pod_uid).allocation == allocation


async def test_each_container_is_recorded_as_what_it_is():
    world = World()
    pod = await world.bound(
        init_containers=[
            container_object("prep", {"gpu": 1}),
            container_object("side", {"gpu": 1}, restartPolicy="Always"),
        ]
    )

    served = []
    for name in ("prep", "side", "train"):
        await world.shares(world.pods.pod(pod.pod_uid), served=served)
        served.append(name)

    assert [(c.container_name, c.kind) for c in (await world.recorded()).containers] == [
        ("prep", ContainerKind.INIT),
        ("side", ContainerKind.SIDECAR),
        ("train", ContainerKind.APP),
    ]


async def test_the_books_are_the_same_for_all_pods():
    world = World()
    await world.bound("placed", make_share(memory_mib=30_001))
    pod = await world.bound()

    with pytest.raises(KubeletError, match=r"no slice of 10000 MiB is free .*free are 9999 MiB"):
        await world.shares(pod)
    assert await world.shares(pod, f"{uuid(2)}-0")


async def test_a_card_that_somebody_has_alone_has_nothing_free():
    world = World()
    await world.bound("placed", make_share(memory_mib=1, core_percent=100))
    pod = await world.bound()

    with pytest.raises(KubeletError, match="free are 0 MiB"):
        await world.shares(pod)


async def test_a_card_that_is_not_in_the_inventory_has_nothing_free():
    world = World()
    pod = await world.bound()

    with pytest.raises(KubeletError, match="free are 0 MiB"):
        await world.shares(pod, f"{uuid(9)}-0")


async def test_two_slots_of_one_card_count_twice():
    world = World(default_slice_memory_mib=25_000)
    pod = await world.bound()

    with pytest.raises(KubeletError, match="free are 15000 MiB"):
        await world.shares(pod, f"{uuid(1)}-0", f"{uuid(1)}-1")


async def test_finished_pods_leave_their_memory():
    world = World()
    placed = await world.bound("placed", make_share(memory_mib=40_000))
    over = await world.kube.get(PODS, "placed", namespace="default")
    world.pods.keep({**over, "status": {"phase": "Succeeded"}})
    assert world.pods.pod(placed.pod_uid).is_terminal

    assert await world.shares(await world.bound())


async def test_a_slice_that_cannot_be_recorded_is_not_given():
    world = World()
    pod = await world.bound()
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=503))

    with pytest.raises(KubeletError, match="could not be recorded"):
        await world.shares(pod)


@pytest.mark.looptime
async def test_an_api_server_that_hangs_is_not_waited_for_long(looptime):
    world = World()
    pod = await world.bound()
    world.kube.faults.add(Fault(kind=FaultKind.DELAY, verb="patch", delay_s=60))

    with pytest.raises(KubeletError, match="could not be recorded"):
        await world.shares(pod)
    assert looptime < 2


async def test_a_slice_is_never_recorded_on_a_pod_made_anew_under_the_same_name():
    world = World()
    pod = await world.bound()
    await world.kube.delete(PODS, "stray", namespace="default", grace_period_s=0)
    await world.bound()

    with pytest.raises(KubeletError, match="could not be recorded"):
        await world.shares(pod)


async def test_an_allocation_that_cannot_be_read_is_no_reason_for_a_slice():
    world = World()
    pod = await world.bound(annotations={POD_ALLOCATION: "{"})

    with pytest.raises(KubeletError, match="the allocation of pod default/stray cannot be read"):
        await world.shares(pod)
