"""Quotas at filter and bind, with the reports that they come from."""

import asyncio

import pytest

from hamid.kube.errors import ApiError
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import PODS
from hamid.model.names import ResourceNames
from hamid.sched.bind import BindRefused
from hamid.sched.sinks import PodSink, QuotaSink
from tests.builders import container_object
from tests.sched.builders import make_device, make_devices
from tests.sched.objects import added, deleted, modified, quota_object, registered, waiting
from tests.sched.world import Call, World


@pytest.fixture
def world():
    return World(pod_wait_s=0.001)


def pod(name, **asked):
    return waiting(name=name, containers=(container_object("main", asked),))


def used(world, name="cards"):
    return next(u for quota, u in world.cache.quotas.all() if quota.name == name)


async def place(world, call):
    """Filter and bind; returns the node."""
    (name,) = (await world.filter(call)).node_names
    await world.binder.bind(call.bind(name))
    PodSink(world.cache).apply(modified(await world.pod(call)))
    return name


# Report d 15, Project-HAMi/HAMi#1393.


async def test_report_d15_several_cards_are_charged_each(world):
    first, second = await world.create(
        registered(devices=make_devices(2)),
        quota_object(gpumem=4_096, gpucores=50),
        pod("two", gpu=2, gpumem=2_048, gpucores=20),
        pod("one", gpu=1, gpumem=1, gpucores=10),
    )

    await place(world, first)
    refused = await world.filter(second)

    assert (used(world).memory_mib, used(world).core_percent) == (4_096, 40)
    assert refused.node_names == ()
    assert refused.failed_unresolvable == {
        "node-a": "quota of namespace default: limits.nvidia.com/gpumem in ResourceQuota cards "
        "allows 4096 MiB of card memory, 4096 used, 1 asked; wait until pods of the namespace "
        "end, ask for less, or have the quota raised"
    }


@pytest.mark.parametrize(
    ("hard", "charged"), [(24_000, 12_000), (11_000, 8_000), (8_000, 8_000), (7_999, None)]
)
async def test_report_d15_a_percentage_is_charged_on_the_card_really_chosen(world, hard, charged):
    large = make_device("card-0", memory_mib=24_000)
    small = make_device("card-1", device_index=1, memory_mib=16_000)
    half = pod("half", gpu=1, **{"gpumem-percentage": 50})
    # Both would be half full: the first of them is taken.
    half["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": "spread"}
    (call,) = await world.create(
        registered(devices=[small, large]), quota_object(gpumem=hard), half
    )

    result = await world.filter(call)

    if charged is None:
        assert result.node_names == ()
        assert (
            "7999 MiB of card memory, 0 used, at least 8000" in result.failed_unresolvable["node-a"]
        )
    else:
        assert result.node_names == ("node-a",)
        assert used(world).memory_mib == charged


# Report d 9, Project-HAMi/HAMi#2522.


async def both_at_once(world, one, other):
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(world.filter(one))
        second = tasks.create_task(world.filter(other))
    return {first.result().node_names, second.result().node_names}


async def test_report_d9_of_two_at_once_one_passes(world):
    one, other = await world.create(
        registered(devices=make_devices(2)),
        quota_object(gpumem=8_000),
        pod("one", gpu=1, gpumem=8_000),
        pod("other", gpu=1, gpumem=8_000),
    )

    assert await both_at_once(world, one, other) == {(), ("node-a",)}
    assert used(world).memory_mib == 8_000


async def test_report_d9_of_many_at_once_no_more_pass_though_decisions_take_long(world):
    """Nodes are looked at in slices, with pauses in which others are decided about."""
    nodes = [registered(f"n{n:02}", make_devices(2)) for n in range(20)]
    two = tuple(container_object(name, {"gpu": 1, "gpumem": 4_000}) for name in "ab")
    pods = (waiting(name=f"p{n}", containers=two) for n in range(9))
    calls = await world.create(*nodes, quota_object(gpumem=24_000), *pods)

    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(world.filter(call)) for call in calls]

    assert sum(bool(answer.result().node_names) for answer in answers) == 3
    assert used(world).memory_mib == 24_000


async def test_report_d9_a_failed_bind_gives_all_back_and_the_loser_fits(world):
    winner, loser = await world.create(
        registered(devices=make_devices(2)),
        quota_object(gpumem=8_000),
        pod("winner", gpu=1, gpumem=8_000),
        pod("loser", gpu=1, gpumem=8_000),
    )
    before = world.cache.snapshots()
    await both_at_once(world, winner, loser)

    world.kube.faults.add(Fault(kind=FaultKind.STATUS, resource="pods/binding", code=500))
    with pytest.raises(ApiError):
        await world.binder.bind(winner.bind("node-a"))
    world.kube.faults.clear()

    assert world.cache.snapshots() == before
    assert used(world).memory_mib == 0
    assert (await world.filter(loser)).node_names == ("node-a",)
    world.assert_books_are_right()


# The rest.


async def test_a_pod_waits_for_its_own_namespace_only(world):
    one, other = await world.create(
        registered(),
        quota_object(gpu=0),
        pod("one", gpu=1, gpumem=10),
        waiting(name="other", namespace="kube-system"),
    )

    assert (await world.filter(one)).node_names == ()
    assert (await world.filter(other)).node_names == ("node-a",)


async def test_the_tightest_of_several_objects_counts(world):
    (call,) = await world.create(
        registered(),
        quota_object("wide", gpumem=9_000),
        quota_object("narrow", gpumem=999),
        pod("one", gpu=1, gpumem=1_000),
    )

    (said,) = (await world.filter(call)).failed_unresolvable.values()

    assert "ResourceQuota narrow allows 999" in said

    QuotaSink(world.cache).apply(deleted(quota_object("narrow")))
    assert (await world.filter(call)).node_names == ("node-a",)


async def test_scopes_are_honoured(world):
    short = pod("short", gpu=1, gpumem=1_000)
    short["spec"]["activeDeadlineSeconds"] = 60
    one, other = await world.create(
        registered(),
        quota_object(gpumem=10, scopes=["Terminating"]),
        short,
        pod("long", gpu=1, gpumem=1_000),
    )

    assert (await world.filter(one)).node_names == ()
    assert (await world.filter(other)).node_names == ("node-a",)


async def test_renamed_resources_have_renamed_keys(world):
    world = World(resources=ResourceNames(memory="example.com/vram"))
    quota = quota_object()
    quota["spec"]["hard"] = {"limits.example.com/vram": "999"}
    card = {
        "name": "main",
        "image": "app",
        "resources": {"limits": {"nvidia.com/gpu": 1, "example.com/vram": 1_000}},
    }
    (call,) = await world.create(registered(), quota, waiting(containers=(card,)))

    (said,) = (await world.filter(call)).failed_unresolvable.values()

    assert "limits.example.com/vram" in said


async def test_a_pod_that_asks_again_is_not_charged_for_its_own_reservation(world):
    (call,) = await world.create(
        registered(), quota_object(gpumem=1_000), pod("one", gpu=1, gpumem=1_000)
    )

    for _ in range(3):
        assert (await world.filter(call)).node_names == ("node-a",)
    assert used(world).memory_mib == 1_000


async def test_what_is_kept_for_a_pod_that_never_comes_is_given_back(world):
    one, other = await world.create(
        registered(),
        quota_object(gpu=1),
        pod("one", gpu=1, gpumem=1_000),
        pod("other", gpu=1, gpumem=1_000),
    )
    await world.filter(one)
    assert (await world.filter(other)).node_names == ()

    world.clock.advance(world.settings.reservation_ttl_s + 1)

    assert (await world.filter(other)).node_names == ("node-a",)


async def test_a_pod_that_is_gone_gives_back(world):
    one, other = await world.create(
        registered(),
        quota_object(gpu=1),
        pod("one", gpu=1, gpumem=1_000),
        pod("other", gpu=1, gpumem=1_000),
    )
    await place(world, one)
    assert (await world.filter(other)).node_names == ()

    PodSink(world.cache).apply(deleted(await world.pod(one)))

    assert (await world.filter(other)).node_names == ("node-a",)


async def test_a_pod_that_the_watch_does_not_show_is_charged_all_the_same(world):
    await world.create(registered(), quota_object(gpu=1))
    calls = []
    for name in ("one", "other"):
        meta = (await world.kube.create(PODS, pod(name, gpu=1, gpumem=1_000)))["metadata"]
        calls.append(Call(meta["uid"], meta["namespace"], meta["name"]))

    assert (await world.filter(calls[0])).node_names == ("node-a",)
    assert (await world.filter(calls[1])).node_names == ()


async def test_a_bind_elsewhere_is_held_to_the_quota_too(world):
    (call,) = await world.create(
        registered("node-a"), registered("node-b"), pod("one", gpu=1, gpumem=1_000)
    )
    await world.filter(call)
    kept = world.cache.reservation(call.uid).allocation.node_name
    other = "node-b" if kept == "node-a" else "node-a"
    QuotaSink(world.cache).apply(added(quota_object(gpumem=999)))

    with pytest.raises(BindRefused, match="ResourceQuota cards allows 999"):
        await world.binder.bind(call.bind(other))


async def test_a_bind_as_reserved_stands_even_if_the_quota_was_lowered(world):
    (call,) = await world.create(registered(), pod("one", gpu=1, gpumem=1_000))
    await world.filter(call)
    QuotaSink(world.cache).apply(added(quota_object(gpumem=999)))

    await world.binder.bind(call.bind("node-a"))

    assert (await world.pod(call))["spec"]["nodeName"] == "node-a"


async def test_the_verdict_says_why_it_waits(world):
    (call,) = await world.create(registered(), quota_object(gpu=0), pod("one", gpu=1, gpumem=1))

    await world.filter(call)

    assert (
        "allows 0 cards, 0 used, 1 asked" in world.extender.explanations.verdict(call.uid).sentence
    )
