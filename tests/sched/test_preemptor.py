import asyncio
from contextlib import suppress

import pytest

from hamid.kube.port import PODS
from hamid.sched import preemptor as module
from tests.sched.builders import make_devices, make_share
from tests.sched.crowd import Crowd, pod, protect
from tests.sched.objects import bound, registered


@pytest.fixture
def crowd():
    return Crowd()


async def test_room_is_made_for_a_pod_of_high_priority(crowd):
    await crowd.place(pod("low-1"), pod("low-2", priority=1))
    (urgent,) = await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()
    await crowd.world.sync()

    assert await crowd.names() == {"low-2", "urgent"}
    assert len((await crowd.world.filter(urgent)).node_names) == 1
    assert crowd.count("evicted") == 1
    assert crowd.count("nominated", "preemptions") == 1


async def test_the_cards_are_kept_for_it_while_the_victim_ends(crowd):
    victim, other = await crowd.place(pod("victim", grace_s=20), pod("other", priority=99))
    (urgent,) = await crowd.refuse(pod("urgent", priority=10))
    await crowd.preemptor.step()
    await crowd.world.sync()
    assert crowd.count("evicted") == 1
    (thief,) = await crowd.refuse(pod("thief", priority=5))

    await crowd.world.kube.delete(PODS, "victim", namespace=victim.namespace, grace_period_s=0)
    await crowd.world.sync()

    assert not (await crowd.world.filter(thief)).node_names
    assert (await crowd.world.filter(urgent)).node_names
    assert await crowd.names() >= {other.name}


async def test_cards_that_are_kept_in_vain_are_given_back(crowd):
    await crowd.place(pod("victim", grace_s=20), pod("other", priority=99))
    (urgent,) = await crowd.refuse(pod("urgent", priority=10))
    await crowd.preemptor.step()
    await crowd.world.kube.delete(PODS, "urgent", namespace=urgent.namespace, grace_period_s=0)
    await crowd.world.kube.delete(PODS, "victim", namespace=urgent.namespace, grace_period_s=0)
    await crowd.world.sync()

    await crowd.preemptor.step()

    (late,) = await crowd.world.create(pod("late"))
    assert (await crowd.world.filter(late)).node_names


async def test_nobody_more_is_evicted_while_room_is_being_made(crowd):
    await crowd.place(pod("low-1", grace_s=20), pod("low-2", grace_s=20))
    (urgent,) = await crowd.refuse(pod("urgent", priority=10))
    await crowd.preemptor.step()
    await crowd.world.sync()
    assert not (await crowd.world.filter(urgent)).node_names

    await crowd.preemptor.step()

    assert crowd.count("evicted") == 1


async def test_two_at_once_get_a_victim_each(crowd):
    await crowd.place(pod("low-1", grace_s=20), pod("low-2", grace_s=20))
    await crowd.refuse(pod("urgent-1", priority=10), pod("urgent-2", priority=10))

    await crowd.preemptor.step()

    assert crowd.count("evicted") == 2
    nodes = {found.node_name for found in crowd.world.extender.nominations}
    assert nodes == {"node-a", "node-b"}


@pytest.mark.parametrize(
    ("low", "urgent"),
    [
        pytest.param({"priority": 10}, {}, id="where all are as important"),
        pytest.param({}, {"preemptionPolicy": "Never"}, id="for a pod that must not preempt"),
        pytest.param({}, {"mib": 50_000}, id="for a pod that fits on no card"),
        pytest.param({"namespace": "kube-system"}, {}, id="of the system"),
    ],
)
async def test_nobody_is_evicted(crowd, low, urgent):
    def of(name):
        made = pod(name, **{key: value for key, value in low.items() if key != "namespace"})
        made["metadata"]["namespace"] = low.get("namespace", "default")
        return made

    await crowd.place(of("low-1"), of("low-2"))
    await crowd.refuse(pod("urgent", **{"priority": 10, **urgent}))

    await crowd.preemptor.step()

    assert await crowd.names() == {"low-1", "low-2", "urgent"}
    assert not list(crowd.world.extender.nominations)


async def test_what_cannot_be_helped_is_not_worked_out_again_and_again(crowd):
    await crowd.place(*(pod(f"high-{n}", priority=99) for n in range(2)), pod("low", mib=1_000))
    await crowd.refuse(*(pod(f"urgent-{n}", priority=10) for n in range(3)))

    await crowd.preemptor.step()
    await crowd.preemptor.step()

    assert crowd.count("no-help", "preemptions") == 1
    crowd.world.clock.advance(11)
    await crowd.preemptor.step()
    assert crowd.count("no-help", "preemptions") == 2


async def test_a_budget_is_not_broken(crowd):
    await crowd.place(*(pod(f"low-{n}", labels={"app": "kept"}) for n in range(2)))
    await protect(crowd, allowed=0)
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()

    assert await crowd.names() == {"low-0", "low-1", "urgent"}
    assert crowd.count("no-help", "preemptions") == 1


async def test_who_is_counted_by_several_budgets_is_spared(crowd):
    """The API server evicts no such pod, whatever its budgets allow."""
    await crowd.place(pod("low", labels={"app": "kept"}), pod("other", priority=1))
    for name in ("one", "two"):
        await protect(crowd, allowed=5, name=name)
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()

    assert await crowd.names() == {"low", "urgent"}


async def test_the_operator_may_want_nobody_evicted():
    crowd = Crowd(preempts=False)
    await crowd.place(pod("low-1"), pod("low-2"))
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()

    assert await crowd.names() == {"low-1", "low-2", "urgent"}


@pytest.mark.parametrize("settings", [{}, {"preempts": False, "wakes_waiting_pods": False}])
async def test_pods_that_went_while_they_waited_are_forgotten(settings):
    crowd = Crowd(**settings)
    await crowd.place(pod("low-1", priority=99), pod("low-2", priority=99))
    gone, stays = await crowd.refuse(pod("gone"), pod("stays"))
    await crowd.world.kube.delete(PODS, "gone", namespace=gone.namespace, grace_period_s=0)
    await crowd.world.sync()

    await crowd.preemptor.step()

    assert set(crowd.world.extender.refused.tries()) == {stays.uid}


async def test_a_pod_that_leaves_anyway_is_waited_for(crowd):
    leaving, _ = await crowd.place(pod("leaving", priority=99, grace_s=20), pod("low"))
    await crowd.world.kube.delete(PODS, "leaving", namespace=leaving.namespace)
    await crowd.world.sync()
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()

    assert "low" in await crowd.names()
    assert [found.node_name for found in crowd.world.extender.nominations]


async def test_nobody_is_evicted_where_there_is_room_by_now(crowd):
    """A node without any pod could be used again, and kube-scheduler has yet to try."""
    crowd.nodes[1] = registered("node-b", make_devices(1), cordoned=["card-0"])
    await crowd.place(pod("low"))
    await crowd.refuse(pod("urgent", priority=10))
    crowd.world.cache.take_node(registered("node-b", make_devices(1)))

    await crowd.preemptor.step()

    assert "low" in await crowd.names()
    assert [found.node_name for found in crowd.world.extender.nominations] == ["node-b"]


async def node_of(crowd, call):
    return (await crowd.world.pod(call))["spec"]["nodeName"]


async def test_one_who_cannot_be_helped_keeps_nobody_waiting_who_may_go_to_other_nodes(crowd):
    high, low = await crowd.place(pod("high", priority=99), pod("low"))
    first, second = await crowd.world.create(pod("first", priority=10), pod("second", priority=10))
    await crowd.world.filter(first, await node_of(crowd, high))
    await crowd.world.filter(second, await node_of(crowd, low))

    while await crowd.preemptor.step():
        pass

    assert [found.pod_uid for found in crowd.world.extender.nominations] == [second.uid]
    assert "low" not in await crowd.names()


def meanwhile(monkeypatch, act):
    """Let something happen while it is worked out whom to evict, the first time."""
    real, acts = module.eviction, [act]

    def busy(*args):
        found = real(*args)
        if acts:
            acts.pop()()
        return found

    monkeypatch.setattr(module, "eviction", busy)


async def test_nobody_is_evicted_in_vain_where_the_room_beside_him_was_given_away_meanwhile(
    crowd, monkeypatch
):
    low, _ = await crowd.place(pod("low"), pod("high", priority=99))
    await crowd.refuse(pod("urgent", mib=35_000, priority=10))
    thief = bound(make_share("card-0", memory_mib=9_000), uid="thief", priority=50)
    thief["spec"]["nodeName"] = await node_of(crowd, low)
    meanwhile(monkeypatch, lambda: crowd.world.cache.take_pod(thief))

    await crowd.preemptor.step()

    assert "low" in await crowd.names()
    assert not list(crowd.world.extender.nominations)
    assert crowd.count("no-help", "preemptions") == 1


async def test_what_was_known_of_refusals_when_it_led_before_counts_no_more(crowd):
    await crowd.place(pod("low-1"), pod("low-2"))
    await crowd.refuse(pod("urgent", priority=10))

    with suppress(TimeoutError):
        await asyncio.wait_for(crowd.preemptor.run(), timeout=0.01)

    assert not crowd.world.extender.refused.tries()


async def test_one_whose_room_goes_to_a_pod_of_higher_priority_gets_other_room(crowd):
    """And not only once the time is over for which its own was promised."""
    await crowd.place(pod("low-1", grace_s=20), pod("low-2", priority=1, grace_s=20))
    (first,) = await crowd.refuse(pod("first", priority=10))
    await crowd.preemptor.step()
    assert [found.node_name for found in crowd.world.extender.nominations] == ["node-a"]
    await crowd.world.sync()
    (above,) = await crowd.refuse(pod("above", priority=20))

    await crowd.preemptor.step()
    await crowd.preemptor.step()

    promised = {found.pod_uid: found.node_name for found in crowd.world.extender.nominations}
    assert promised == {above.uid: "node-a", first.uid: "node-b"}
    assert crowd.count("evicted") == 2
