import pytest

from hamid.codec.allocation_record import encode_allocation
from hamid.errors import KubeletError
from hamid.hooks.abi.contract import ENV_GRANT_ID
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import PODS
from hamid.kubelet.errors import CheckpointUnreadable, SocketGone
from hamid.kubelet.port import CheckpointEntry, ContainerDevices, PodDevices
from hamid.model.names import POD_ALLOCATION, ResourceNames
from hamid.plugin.journal import Journal
from hamid.plugin.owners import Owners
from hamid.plugin.pods import NodePods
from tests.builders import (
    UUID,
    container_object,
    make_allocation,
    make_container_allocation,
    make_share,
    pod_object,
    uuid,
)
from tests.plugin.doubles import FakeCheckpoint, FakePodResources
from tests.plugin.node import NODE, RESOURCE
from tests.plugin.values import make_grant

SLOT = f"{UUID}-0"
UNREADABLE = CheckpointUnreadable("a new format", hint="report it")
GONE = SocketGone("no socket", hint="wait")


def pod(name="pod-1", *container_names, memory_mib=1_000, is_decided=True, **status):
    """A pod as JSON, whose containers were each decided a share of so much."""
    uid = f"uid-of-{name}"
    names = container_names or ("train",)
    decided = make_allocation(
        *(
            make_container_allocation(make_share(memory_mib=memory_mib), container_name=n)
            for n in names
        ),
        pod_uid=uid,
    )
    annotations = {POD_ALLOCATION: encode_allocation(decided)} if is_decided else {}
    containers = [container_object(n, {"gpu": 1}) for n in names]
    made = pod_object(*containers, name=name, uid=uid, node_name=NODE, annotations=annotations)
    return {**made, "status": status}


def entry(pod_name="pod-1", grant_id="g1", **overrides):
    values = {
        "pod_uid": f"uid-of-{pod_name}",
        "container_name": "train",
        "resource_name": RESOURCE,
        "slot_ids": (SLOT,),
        "envs": {ENV_GRANT_ID: grant_id} if grant_id else {},
    }
    return CheckpointEntry(**(values | overrides))


def shown(pod_name="pod-1", *slot_ids):
    container = ContainerDevices(container_name="train", slot_ids=slot_ids or (SLOT,))
    return PodDevices(namespace="default", name=pod_name, containers=(container,))


class World:
    """What the kubelet, the watch and the journal say."""

    def __init__(self, journal):
        self.kube = FakeKube()
        self.owners = Owners(
            resource_name=RESOURCE,
            checkpoint=FakeCheckpoint(),
            pod_resources=FakePodResources(),
            pods=NodePods(node_name=NODE, names=ResourceNames(), kube=self.kube),
            journal=journal,
        )

    def bring(self, *pods):
        for each in pods:
            self.owners.pods.keep(each)

    async def owner(self, *slot_ids):
        """(pod, container, grant, MiB) of each owner of the slots."""
        return [
            (o.pod_name, o.container_name, o.grant_id, o.shares[0].memory_mib)
            for o in await self.owners.of(slot_ids or (SLOT,))
        ]


@pytest.fixture
async def world(tmp_path, thread):
    journal = Journal(directory=tmp_path / "journal", thread=thread)
    await journal.load()
    return World(journal)


async def test_the_checkpoint_says_who_holds_the_slots_and_by_which_grant(world):
    world.bring(pod())
    world.owners.checkpoint.entries = [entry()]

    assert await world.owner() == [("pod-1", "train", "g1", 1_000)]


async def test_an_owner_gets_what_was_decided_for_it_whatever_was_guessed(world):
    world.bring(pod("pod-1", memory_mib=1), pod("pod-2", memory_mib=2))
    await world.owners.journal.write(make_grant("g1", make_share(memory_mib=1)))
    world.owners.checkpoint.entries = [entry("pod-2", "g1")]

    assert await world.owner() == [("pod-2", "train", "g1", 2)]


async def test_an_app_that_reuses_its_inits_slots_is_an_owner_beside_it(world):
    world.bring(pod("pod-1", "prep", "web"))
    world.owners.checkpoint.entries = [
        entry(container_name="prep", grant_id="g1"),
        entry(container_name="web", grant_id="g2"),
    ]

    owners = await world.owner()

    assert [(name, grant_id) for _, name, grant_id, _ in owners] == [("prep", "g1"), ("web", "g2")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(entry("pod-2", resource_name="example.com/other"), id="another resource"),
        pytest.param(entry("pod-2", slot_ids=(SLOT, "more")), id="more slots than these"),
        pytest.param(entry("pod-3"), id="a pod that has finished"),
        pytest.param(entry("pod-4"), id="a pod that is gone"),
    ],
)
async def test_others_in_the_checkpoint_do_not_count(world, other):
    world.bring(pod(), pod("pod-2"), pod("pod-3", phase="Failed"))
    world.owners.checkpoint.entries = [other, entry()]

    assert await world.owner() == [("pod-1", "train", "g1", 1_000)]


async def test_a_pod_that_the_watch_has_not_brought_is_asked_for(world):
    created = pod(is_decided=False)
    del created["metadata"]["uid"]
    uid = (await world.kube.create(PODS, created))["metadata"]["uid"]
    await world.owners.journal.write(make_grant(pod_uid=uid))
    world.owners.checkpoint.entries = [entry(pod_uid=uid)]

    assert await world.owner() == [("pod-1", "train", "g1", 1_000)]


async def test_where_our_answer_cannot_be_read_the_journal_names_the_grant(world):
    world.bring(pod())
    await world.owners.journal.write(make_grant())
    world.owners.checkpoint.entries = [entry(grant_id=None)]

    assert await world.owner() == [("pod-1", "train", "g1", 1_000)]


async def test_the_grant_for_the_same_slots_is_the_owners_whoever_was_guessed(world):
    world.bring(pod("pod-1"), pod("pod-2"))
    await world.owners.journal.write(make_grant("g1"))
    await world.owners.journal.write(make_grant("g2", pod_name="pod-2", slot_ids=("other",)))
    world.owners.checkpoint.entries = [entry("pod-2", grant_id=None)]

    assert await world.owner() == [("pod-2", "train", "g1", 1_000)]


async def test_without_a_checkpoint_pod_resources_say_who_it_is(world, assert_logged):
    world.bring(pod(), pod("pod-2"))
    await world.owners.journal.write(make_grant())
    world.owners.checkpoint.error = UNREADABLE
    world.owners.pod_resources.pods = [shown("pod-2", "other"), shown(), shown("gone")]

    assert await world.owner() == [("pod-1", "train", "g1", 1_000)]
    assert_logged("checkpoint not read")


async def test_without_either_the_journals_guess_must_do(world, assert_logged):
    world.bring(pod())
    await world.owners.journal.write(make_grant())
    await world.owners.journal.write(make_grant("g2", pod_name="gone", slot_ids=(SLOT,)))
    world.owners.checkpoint.error = UNREADABLE
    world.owners.pod_resources.error = GONE

    assert await world.owner() == [("pod-1", "train", "g1", 1_000)]
    assert_logged("pod resources not read")


async def test_slots_that_nobody_is_on_record_for_are_an_error_that_passes(world):
    with pytest.raises(KubeletError, match=f"nobody is on record for the slots {SLOT}"):
        await world.owner()


async def test_an_owner_whose_grant_nobody_knows_cannot_be_told_apart_yet(world):
    world.bring(pod())
    world.owners.checkpoint.entries = [entry(grant_id=None)]

    with pytest.raises(KubeletError, match="nobody is on record"):
        await world.owner()


async def test_a_container_that_another_device_plugin_has_served_does_not_start_as_ours(world):
    """As HAMi's has, before hamid came to the node."""
    world.bring(pod())
    await world.owners.journal.write(make_grant("g2", pod_name="pod-2", slot_ids=(SLOT,)))
    world.owners.checkpoint.entries = [entry(envs={"NVIDIA_VISIBLE_DEVICES": UUID})]

    with pytest.raises(KubeletError, match="given its devices by another device plugin"):
        await world.owner()


async def test_a_pod_without_a_decision_keeps_the_slice_that_it_was_given(world):
    world.bring(pod(is_decided=False))
    await world.owners.journal.write(make_grant("g1", make_share(memory_mib=50)))
    world.owners.checkpoint.entries = [entry()]

    assert await world.owner() == [("pod-1", "train", "g1", 50)]


async def test_a_pod_without_a_decision_never_starts_with_anothers_grant(world):
    world.bring(pod(is_decided=False))
    await world.owners.journal.write(
        make_grant("g1", make_share(device_uuid=uuid(2)), pod_name="pod-2")
    )
    world.owners.checkpoint.entries = [entry()]

    with pytest.raises(KubeletError, match="nothing was decided for container 'train'") as caught:
        await world.owner()
    assert "not placed by hamid" in caught.value.hint


async def test_a_pod_whose_allocation_cannot_be_read_says_why_it_does_not_start(world):
    broken = pod()
    broken["metadata"]["annotations"] = {POD_ALLOCATION: "{"}
    world.bring(broken)
    world.owners.checkpoint.entries = [entry()]

    with pytest.raises(KubeletError) as caught:
        await world.owner()
    assert "cannot be read" in caught.value.hint


def cut_off(world):
    """No API server answers from now on."""
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="list", code=503, times=None))


async def test_what_kubelet_and_journal_agree_on_needs_no_api_server(world):
    await world.owners.journal.write(make_grant("g1", make_share(memory_mib=7), slot_ids=(SLOT,)))
    world.owners.checkpoint.entries = [entry()]
    cut_off(world)

    assert await world.owner() == [("pod-1", "train", "g1", 7)]


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param(entry("pod-2"), id="the grant was guessed for another pod"),
        pytest.param(entry(grant_id="g2"), id="the grant is not in the journal"),
        pytest.param(entry("pod-2", grant_id=None), id="no grant is known for the container"),
    ],
)
async def test_what_was_decided_cannot_be_known_without_the_api_server(world, recorded):
    await world.owners.journal.write(make_grant("g1", slot_ids=(SLOT,)))
    world.owners.checkpoint.entries = [recorded]
    cut_off(world)

    with pytest.raises(KubeletError, match="tries again, and the container starts once"):
        await world.owner()


async def test_a_pod_that_is_gone_owns_nothing_though_it_is_in_both_records(world):
    await world.owners.journal.write(make_grant("g1", slot_ids=(SLOT,)))
    world.owners.checkpoint.entries = [entry()]
    world.owners.pods.replace(())

    with pytest.raises(KubeletError, match="nobody is on record"):
        await world.owner()
