from dataclasses import fields

import pytest
from prometheus_client import CollectorRegistry

from hamid.errors import StateError
from hamid.hooks.abi.contract import ENV_GRANT_ID
from hamid.hooks.install import InstalledLibrary
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import EVENTS
from hamid.kubelet.errors import CheckpointUnreadable, NotServed
from hamid.kubelet.port import CheckpointEntry, ContainerDevices, PodDevices
from hamid.plugin.events import NodeEvents
from hamid.plugin.grants import GrantFiles
from hamid.plugin.journal import Journal
from hamid.plugin.metrics import PluginMetrics
from hamid.plugin.reconciler import (
    MISSES_BEFORE_FREE,
    Drift,
    DriftKind,
    Reconciler,
    books,
    drifts,
)
from hamid.plugin.settings import GrantMode
from tests.builders import UUID, make_share
from tests.plugin.doubles import FakeCheckpoint, FakePodResources
from tests.plugin.node import NODE, RESOURCE
from tests.plugin.values import asking, make_grant, pod_on_node

SLOT = f"{UUID}-0"
KEY = ("uid-of-pod-1", "train")


def entry(*slot_ids, grant_id="g1", **overrides):
    values = {
        "pod_uid": KEY[0],
        "container_name": KEY[1],
        "resource_name": RESOURCE,
        "envs": {ENV_GRANT_ID: grant_id} if grant_id else {},
    }
    return CheckpointEntry(slot_ids=slot_ids or (SLOT,), **(values | overrides))


def shown(*slot_ids):
    container = ContainerDevices(container_name="train", slot_ids=slot_ids)
    return PodDevices(namespace="default", name="pod-1", containers=(container,))


def drift(kind):
    return Drift(kind=kind, pod_key="default/pod-1", container_name="train")


FINAL = make_grant(is_final=True)


@pytest.mark.parametrize(
    ("grants", "entries", "known", "kinds"),
    [
        pytest.param([FINAL], [entry()], [shown(SLOT)], [], id="all books agree"),
        pytest.param([], [], [], [], id="nothing is granted yet"),
        pytest.param([make_grant()], [], [], [], id="granted, and not in the checkpoint yet"),
        pytest.param(
            [FINAL], [], [shown(SLOT)], [DriftKind.NOT_HELD], id="the checkpoint lost what runs"
        ),
        pytest.param([FINAL], [entry()], [shown()], [], id="not shown yet"),
        pytest.param([], [entry()], [], [DriftKind.NOT_GRANTED], id="held without a grant"),
        pytest.param(
            [make_grant("g1", make_share(memory_mib=9))],
            [entry()],
            [],
            [DriftKind.SHARES_DIFFER],
            id="granted other than decided",
        ),
        pytest.param(
            [FINAL], [entry("another-1")], [], [DriftKind.SLOTS_DIFFER], id="other slots are held"
        ),
        pytest.param(
            [make_grant()], [entry("another-1")], [], [], id="a guess that is not final is no drift"
        ),
        pytest.param(
            [FINAL],
            [entry()],
            [shown("another-1")],
            [DriftKind.KUBELET_DIFFERS],
            id="the kubelet's books differ from each other",
        ),
        pytest.param(
            [make_grant("g1", make_share(memory_mib=9), is_final=True)],
            [entry("another-1")],
            [shown(SLOT)],
            [DriftKind.SHARES_DIFFER, DriftKind.SLOTS_DIFFER, DriftKind.KUBELET_DIFFERS],
            id="everything at once",
        ),
    ],
)
def test_drift_is_found(grants, entries, known, kinds):
    found = drifts([pod_on_node()], books(grants, entries, known))

    assert found == {drift(kind) for kind in kinds}


@pytest.mark.parametrize(
    ("grants", "entries", "kinds"),
    [
        ([], [], [DriftKind.UNLIMITED]),
        ([], [entry()], [DriftKind.NOT_GRANTED]),
        ([FINAL], [], [DriftKind.NOT_HELD]),
        ([FINAL], [entry()], []),
    ],
)
def test_a_container_that_runs_and_that_nobody_gave_anything_is_found(grants, entries, kinds):
    pods = [pod_on_node(running=frozenset({"train"}))]

    assert drifts(pods, books(grants, entries)) == {drift(kind) for kind in kinds}


def test_a_finished_pod_has_no_drift():
    assert drifts([pod_on_node(is_terminal=True)], books([], [entry()])) == frozenset()


def test_a_slice_without_a_decision_is_no_drift():
    assert drifts([pod_on_node(allocation=None)], books([FINAL], [entry()])) == frozenset()


class FakePods:
    """The part of `NodePods` that is compared."""

    def __init__(self):
        self.present = []

    def pods(self):
        return tuple(self.present)


class World:
    """A reconciler with the books that it compares."""

    def __init__(self, tmp_path, thread):
        self.kube = FakeKube()
        self.checkpoint = FakeCheckpoint()
        self.pod_resources = FakePodResources()
        self.pods = FakePods()
        self.journal = Journal(directory=tmp_path / "journal", thread=thread)
        self.files = GrantFiles(
            directory=tmp_path / "grants",
            cdi_dir=tmp_path / "cdi",
            mode=GrantMode.CDI,
            library=InstalledLibrary(
                library_path=tmp_path / "libhamid.so", preload_path=tmp_path / "ld.so.preload"
            ),
            thread=thread,
            host_root=tmp_path,
        )
        self.registry = CollectorRegistry()
        self.reconciler = Reconciler(
            resource_name=RESOURCE,
            pods=self.pods,
            journal=self.journal,
            files=self.files,
            checkpoint=self.checkpoint,
            pod_resources=self.pod_resources,
            metrics=PluginMetrics.create(self.registry),
            events=NodeEvents(kube=self.kube, node_name=NODE, clock=lambda: 0.0),
            interval_s=15,
        )

    async def grant(self, grant=FINAL):
        await self.journal.write(grant)
        await self.files.write(grant)

    async def steps(self, count=1):
        for _ in range(count):
            await self.reconciler.step()

    async def messages(self):
        return [event["message"] for event in (await self.kube.list(EVENTS)).items]

    def drift_count(self, kind):
        return self.registry.get_sample_value("hamid_plugin_drift", {"kind": kind})

    async def granted(self):
        """Which grants have a journal entry, and which have files."""
        return {g.grant_id for g in self.journal.grants()}, await self.files.grant_ids()


@pytest.fixture
async def world(tmp_path, thread):
    world = World(tmp_path, thread)
    await world.journal.load()
    return world


async def test_drift_that_passes_by_itself_is_not_reported(world):
    world.pods.present = [pod_on_node()]
    world.checkpoint.entries = [entry()]
    await world.steps()
    await world.grant()
    await world.steps(2)

    assert await world.messages() == []
    assert world.drift_count(DriftKind.NOT_GRANTED) == 0


async def test_drift_that_stays_is_an_event_once_and_a_metric_as_long(world, assert_logged):
    world.pods.present = [pod_on_node()]
    world.checkpoint.entries = [entry()]

    await world.steps(4)

    assert await world.messages() == ["container train of pod default/pod-1: not_granted"]
    assert world.drift_count(DriftKind.NOT_GRANTED) == 1
    assert world.reconciler.known == {drift(DriftKind.NOT_GRANTED)}
    assert_logged("books differ", pod="default/pod-1", container="train")


async def test_slots_that_run_but_that_the_kubelet_forgot_are_told_of_after_a_while(world):
    await world.grant()
    world.pods.present = [pod_on_node()]

    await world.steps()
    assert await world.messages() == []
    await world.steps()

    assert await world.messages() == ["container train of pod default/pod-1: not_held"]
    assert world.drift_count(DriftKind.NOT_HELD) == 1
    assert await world.granted() == ({"g1"}, {"g1"})


async def test_drift_that_is_over_and_comes_again_is_an_event_again(world):
    world.pods.present = [pod_on_node()]
    world.checkpoint.entries = [entry()]
    await world.steps(2)
    world.checkpoint.entries = []
    await world.steps()
    assert world.drift_count(DriftKind.NOT_GRANTED) == 0
    world.checkpoint.entries = [entry()]
    await world.steps(2)

    assert len(await world.messages()) == 2


async def test_much_drift_at_once_does_not_flood_the_events(world):
    names = [f"c{n:02}" for n in range(30)]
    world.pods.present = [pod_on_node("pod-1", *map(asking, names))]
    world.checkpoint.entries = [entry(container_name=name) for name in names]

    await world.steps(2)

    messages = await world.messages()
    assert len(messages) == 6
    assert any("and 25 more" in message for message in messages)
    assert world.drift_count(DriftKind.NOT_GRANTED) == 30


async def test_of_much_drift_what_runs_without_limits_is_told_first(world):
    names = [f"c{n:02}" for n in range(30)]
    world.pods.present = [pod_on_node("pod-1", *map(asking, names), running=frozenset({"c29"}))]
    world.checkpoint.entries = [entry(container_name=name) for name in names[:-1]]

    await world.steps(2)

    assert "container c29 of pod default/pod-1: unlimited" in await world.messages()


async def test_an_api_server_that_is_down_stops_no_comparison(world, assert_logged):
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="create", code=503))
    world.pods.present = [pod_on_node()]
    world.checkpoint.entries = [entry()]

    await world.steps(2)

    assert world.drift_count(DriftKind.NOT_GRANTED) == 1
    assert_logged("event not written")


async def test_slots_of_other_resources_are_none_of_ours(world):
    world.pods.present = [pod_on_node()]
    world.checkpoint.entries = [entry(resource_name="example.com/other")]

    await world.steps(2)

    assert world.reconciler.known == frozenset()


async def test_without_pod_resources_the_other_books_are_compared(world):
    world.pods.present = [pod_on_node()]
    world.checkpoint.entries = [entry()]
    world.pod_resources.error = NotServed("no socket", hint="none")

    await world.steps(2)

    assert world.reconciler.known == {drift(DriftKind.NOT_GRANTED)}


async def test_without_the_checkpoint_nothing_is_freed_and_it_is_said_once(world, logs):
    await world.grant()
    world.checkpoint.error = CheckpointUnreadable("a new format", hint="report it")
    await world.steps(9)
    assert await world.granted() == ({"g1"}, {"g1"})

    world.checkpoint.error = None
    await world.steps()

    events = [line["event"] for line in logs if line["event"].startswith("books")]
    assert events == ["books not compared", "books compared again"]


async def test_a_grant_that_nobody_holds_is_freed_after_some_comparisons(world, assert_logged):
    await world.grant()

    await world.steps(MISSES_BEFORE_FREE - 1)
    assert await world.granted() == ({"g1"}, {"g1"})
    await world.steps()

    assert await world.granted() == (set(), frozenset())
    assert_logged("grant freed", pod="default/pod-1")


async def test_misses_must_follow_one_another(world):
    await world.grant()
    await world.steps(MISSES_BEFORE_FREE - 1)
    world.checkpoint.entries = [entry()]
    await world.steps()
    world.checkpoint.entries = []

    await world.steps(MISSES_BEFORE_FREE - 1)

    assert await world.granted() == ({"g1"}, {"g1"})


@pytest.mark.parametrize(
    ("pods", "entries"),
    [
        pytest.param([pod_on_node()], [], id="its pod is there"),
        pytest.param([], [entry()], id="its pod is gone, but the kubelet holds it"),
        pytest.param([pod_on_node(is_terminal=True)], [entry()], id="finished, but still held"),
        pytest.param([], [entry(pod_uid="of-another")], id="another container was given it"),
        pytest.param([], [entry(grant_id=None)], id="held, by an answer that cannot be read"),
    ],
)
async def test_a_grant_that_somebody_holds_is_never_freed(world, pods, entries):
    await world.grant()
    world.pods.present, world.checkpoint.entries = pods, entries

    await world.steps(MISSES_BEFORE_FREE * 2)

    assert await world.granted() == ({"g1"}, {"g1"})


async def test_the_grant_of_a_finished_pod_is_freed_when_the_kubelet_has_let_go(world):
    await world.grant()
    world.pods.present = [pod_on_node(is_terminal=True)]

    await world.steps(MISSES_BEFORE_FREE)

    assert await world.granted() == (set(), frozenset())


async def test_files_without_a_grant_are_removed_too(world):
    await world.files.write(FINAL)

    await world.steps(MISSES_BEFORE_FREE)

    assert await world.granted() == (set(), frozenset())


async def test_a_disk_that_lets_go_of_nothing_ends_nothing_and_is_said_once(world, logs):
    await world.grant()
    await world.grant(make_grant("g2", pod_name="pod-2", container_name="b", is_final=True))
    stays = world.journal.directory / "g1.json"
    stays.unlink()
    stays.mkdir()

    await world.steps(MISSES_BEFORE_FREE * 2)

    assert await world.granted() == (set(), {"g1"})
    assert [line["event"] for line in logs if "freed" in line["event"]] == [
        "grant freed",
        "grants not freed",
    ]

    stays.rmdir()
    await world.steps()

    assert await world.granted() == (set(), frozenset())


async def test_files_that_cannot_be_listed_end_nothing(world, assert_logged):
    class Unlisted(GrantFiles):
        async def grant_ids(self):
            raise StateError("the disk is gone", hint="mend it")

    own = {field.name: getattr(world.files, field.name) for field in fields(world.files)}
    world.reconciler.files = Unlisted(**own)

    await world.steps()

    assert_logged("grants not freed", error="the disk is gone", hint="mend it")


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(entry(), id="named by the checkpoint"),
        pytest.param(
            entry(pod_uid="of-another", grant_id=None), id="maybe meant by an unreadable answer"
        ),
    ],
)
async def test_files_that_a_lost_journal_forgot_stay_while_a_container_may_mount_them(world, held):
    await world.files.write(FINAL)
    world.checkpoint.entries = [held]

    await world.steps(MISSES_BEFORE_FREE * 2)

    assert await world.granted() == (set(), {"g1"})
