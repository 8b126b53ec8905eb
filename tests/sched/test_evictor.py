"""All of the victims go or nobody, and what the API server says is heeded."""

import pytest

from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import EVENTS, PODS, PatchKind
from tests.sched.crowd import Crowd, pod, protect


@pytest.fixture
def crowd():
    return Crowd()


async def test_the_author_of_the_victim_is_told_why(crowd):
    await crowd.place(pod("low-1", priority=-1), pod("low-2"))
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()

    (event,) = (await crowd.world.kube.list(EVENTS)).items
    assert (event["reason"], event["involvedObject"]["name"]) == ("Preempted", "low-1")
    assert "needed by pod default/urgent of priority 10; this pod has -1" in event["message"]


@pytest.mark.parametrize("code", [429, 403, 500])
async def test_who_cannot_be_evicted_is_spared_and_the_next_best_goes(crowd, code):
    await crowd.place(pod("low"), pod("other", priority=1))
    crowd.world.kube.faults.add(
        Fault(
            kind=FaultKind.STATUS,
            verb="create",
            resource="pods/eviction",
            name="low",
            code=code,
            times=None,
        )
    )
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()
    await crowd.preemptor.step()

    assert await crowd.names() == {"low", "urgent"}
    assert [found.node_name for found in crowd.world.extender.nominations] == ["node-b"]


async def test_a_refusal_is_forgotten_after_a_while(crowd):
    await crowd.place(pod("low"), pod("other", priority=99))
    crowd.world.kube.faults.add(
        Fault(kind=FaultKind.STATUS, verb="create", resource="pods/eviction", code=429)
    )
    await crowd.refuse(pod("urgent", priority=10))
    while await crowd.preemptor.step():
        pass
    assert "low" in await crowd.names()

    crowd.world.clock.advance(61)
    await crowd.preemptor.step()

    assert "low" not in await crowd.names()


async def test_when_one_of_several_cannot_be_evicted_it_is_worked_out_anew_at_once(crowd):
    """One has gone already: it counts as leaving, and nobody has its place meanwhile.

    Both dry runs have been allowed.
    """
    halves = [pod(f"low-{n}", mib=15_000, grace_s=20) for n in range(2)]
    await crowd.place(*halves, pod("big", mib=40_000, priority=1))
    crowd.world.kube.faults.add(
        Fault(kind=FaultKind.STATUS, verb="create", resource="pods/eviction", code=429, after=3)
    )
    await crowd.refuse(pod("urgent", mib=40_000, priority=10))

    assert await crowd.preemptor.step()
    await crowd.world.sync()
    await crowd.preemptor.step()

    (found,) = crowd.world.extender.nominations
    assert found.node_name == "node-b"
    assert "big" not in await crowd.names()


async def test_where_the_api_server_says_no_nobody_else_is_evicted(crowd):
    await crowd.place(pod("low-1", mib=15_000), pod("low-2", mib=15_000), pod("other", priority=99))
    crowd.world.kube.faults.add(
        Fault(kind=FaultKind.STATUS, verb="create", resource="pods/eviction", code=429)
    )
    await crowd.refuse(pod("urgent", mib=40_000, priority=10))

    await crowd.preemptor.step()

    assert crowd.count("forbidden") == 1
    assert crowd.count("evicted") is None
    assert not list(crowd.world.extender.nominations)


def refuse_second(crowd, code):
    """Whoever is the second to be evicted is not to go, as often as it is tried."""
    fault = Fault(kind=FaultKind.STATUS, resource="pods/eviction", name="low-2", code=code)
    fault.times = None
    crowd.world.kube.faults.add(fault)


@pytest.mark.parametrize("code", [429, 403, 500])
async def test_where_the_second_of_two_may_not_go_the_first_stays(crowd, code):
    """By a budget, a webhook, or a webhook that fails: it is asked before anybody goes."""
    await crowd.place(pod("low-1", mib=15_000), pod("low-2", mib=15_000), pod("other", priority=99))
    refuse_second(crowd, code)
    await crowd.refuse(pod("urgent", mib=40_000, priority=10))

    while await crowd.preemptor.step():
        pass
    await crowd.preemptor.step()

    assert await crowd.names() == {"low-1", "low-2", "other", "urgent"}
    assert crowd.count("evicted") is None
    assert not list(crowd.world.extender.nominations)


async def test_where_the_second_of_two_may_not_go_others_do(crowd):
    halves = [pod(f"low-{n}", mib=15_000) for n in (1, 2)]
    await crowd.place(*halves, pod("big", mib=40_000, priority=1))
    refuse_second(crowd, 429)
    await crowd.refuse(pod("urgent", mib=40_000, priority=10))

    while await crowd.preemptor.step():
        pass

    assert await crowd.names() == {"low-1", "low-2", "urgent"}
    assert [found.node_name for found in crowd.world.extender.nominations] == ["node-b"]
    assert (crowd.count("forbidden"), crowd.count("evicted")) == (1, 1)


async def run_protected(crowd, *names):
    """Have these pods run, of which disruption budgets count those that are labelled so."""
    for name in names:
        await crowd.world.kube.patch(
            PODS,
            name,
            {"status": {"phase": "Running"}},
            kind=PatchKind.MERGE,
            namespace="default",
            subresource="status",
        )


@pytest.mark.parametrize(("allowed", "left"), [(1, 4), (2, 2)])
async def test_two_of_one_budget_go_only_where_it_allows_both(crowd, allowed, left):
    """Each dry run is allowed where one alone would be."""
    halves = [pod(f"low-{n}", mib=15_000, labels={"app": "kept"}) for n in (1, 2)]
    await crowd.place(*halves, pod("other", priority=99))
    await run_protected(crowd, "low-1", "low-2")
    await protect(crowd, allowed=allowed)
    await crowd.refuse(pod("urgent", mib=40_000, priority=10))

    while await crowd.preemptor.step():
        pass

    assert len(await crowd.names()) == left


async def test_what_a_budget_allows_is_counted_anew_before_two_of_it_go(crowd):
    """An eviction for another pod has used it up since it was read."""
    small = [pod(f"small-{n}", mib=15_000, labels={"app": "kept"}) for n in (1, 2)]
    await crowd.place(pod("large", mib=30_000, labels={"app": "kept"}), *small)
    await run_protected(crowd, "large", "small-1", "small-2")
    await protect(crowd, allowed=2)
    await crowd.refuse(
        pod("first", mib=30_000, priority=20), pod("second", mib=40_000, priority=10)
    )

    while await crowd.preemptor.step():
        pass

    assert {"small-1", "small-2"} <= await crowd.names()
    assert crowd.count("evicted") == 1


async def test_one_of_two_who_has_gone_by_itself_meanwhile_keeps_nobody(crowd):
    first, _, _ = await crowd.place(
        pod("low-1", mib=15_000), pod("low-2", mib=15_000), pod("other", priority=99)
    )
    await crowd.refuse(pod("urgent", mib=40_000, priority=10))
    # The books have not heard of it yet.
    await crowd.world.kube.delete(PODS, "low-1", namespace=first.namespace, grace_period_s=0)

    await crowd.preemptor.step()

    assert await crowd.names() == {"other", "urgent"}
    assert (crowd.count("gone"), crowd.count("evicted")) == (1, 1)


async def test_a_victim_alone_is_asked_but_once(crowd):
    await crowd.place(pod("low"), pod("other", priority=99))
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()

    assert crowd.world.kube.requests.count(resource="pods/eviction") == 1


async def test_without_the_right_to_it_says_so_once(crowd, logs):
    await crowd.place(pod("low-1"), pod("low-2"))
    crowd.world.kube.faults.add(
        Fault(kind=FaultKind.STATUS, resource="pods/eviction", code=403, times=None)
    )
    await crowd.refuse(pod("urgent", priority=10))

    await crowd.preemptor.step()
    await crowd.preemptor.step()

    assert [line["event"] for line in logs].count("no room can be made") == 1
    assert not list(crowd.world.extender.nominations)


async def test_who_does_not_lead_evicts_nobody(crowd):
    await crowd.place(pod("low-1"), pod("low-2"))
    await crowd.refuse(pod("urgent", priority=10))
    crowd.world.leadership.is_leader = False

    await crowd.preemptor.step()

    assert await crowd.names() == {"low-1", "low-2", "urgent"}


async def test_who_is_placed_while_others_are_evicted_for_it_makes_nobody_else_go(crowd):
    halves = [pod(f"low-{n}", mib=20_000) for n in range(2)]
    await crowd.place(*halves, pod("high", mib=40_000, priority=99))
    (urgent,) = await crowd.refuse(pod("urgent", mib=40_000, priority=10))
    kube = crowd.preemptor.kube

    class Busy:
        create, list = kube.create, kube.list

        async def evict(self, **options):
            await kube.evict(**options)
            if not options["is_dry_run"]:
                await kube.delete(PODS, "urgent", namespace=urgent.namespace, grace_period_s=0)
                await crowd.world.sync()

    crowd.preemptor.evictor.kube = Busy()

    await crowd.preemptor.step()

    assert crowd.count("evicted") == 1
    assert len(await crowd.names()) == 2
