from __future__ import annotations

import asyncio

import pytest

from hamid.kube.errors import Forbidden, NotFound, Unavailable
from hamid.kube.fake import Attempt, FakeApi, FakeKube, Fault, FaultKind
from hamid.kube.port import CONFIG_MAPS, NAMESPACES, NODES, EventKind
from tests.contracts.kube_contract import config_map, events_since

pytestmark = pytest.mark.looptime


async def test_a_fault_fits_by_verb_resource_name_and_caller() -> None:
    api = FakeApi()
    one, two = FakeKube(api=api, caller="one"), FakeKube(api=api, caller="two")
    api.faults.add(
        Fault(
            kind=FaultKind.STATUS,
            code=503,
            verb="get",
            resource="namespaces",
            name="default",
            caller="one",
        )
    )

    await two.get(NAMESPACES, "default")
    await one.get(NAMESPACES, "kube-system")
    await one.list(NAMESPACES)
    with pytest.raises(Unavailable):
        await one.get(NAMESPACES, "default")
    await one.get(NAMESPACES, "default")


async def test_a_fault_may_let_some_pass_and_take_several() -> None:
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.DROP, after=1, times=2))
    answered = []
    for _ in range(4):
        try:
            await kube.list(NODES)
            answered.append(True)
        except Unavailable:
            answered.append(False)

    assert answered == [True, False, False, True]


async def test_a_lost_answer_comes_after_the_deed_and_a_drop_before() -> None:
    kube = FakeKube()
    for kind, name in ((FaultKind.DROP, "before"), (FaultKind.LOSE_ANSWER, "after")):
        kube.faults.add(Fault(kind=kind))
        with pytest.raises(Unavailable):
            await kube.create(CONFIG_MAPS, config_map(name), namespace="default")

    await kube.get(CONFIG_MAPS, "after", namespace="default")
    with pytest.raises(NotFound):
        await kube.get(CONFIG_MAPS, "before", namespace="default")


async def test_a_delay_delays() -> None:
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.DELAY, delay_s=30))

    await kube.list(NODES)

    assert asyncio.get_running_loop().time() == 30


async def test_an_event_can_be_lost() -> None:
    kube = FakeKube()
    since = (await kube.list(CONFIG_MAPS)).resource_version
    for name in ("a", "b"):
        await kube.create(CONFIG_MAPS, config_map(name), namespace="default")
    kube.faults.add(Fault(kind=FaultKind.LOSE_EVENT))

    events = await events_since(kube, CONFIG_MAPS, resource_version=since, count=1)

    assert [event.object["metadata"]["name"] for event in events] == ["b"]


async def test_a_watch_can_fall_silent() -> None:
    kube = FakeKube()
    since = (await kube.list(CONFIG_MAPS)).resource_version
    await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")
    kube.faults.add(Fault(kind=FaultKind.SILENCE_WATCH))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10_000):
            await events_since(kube, CONFIG_MAPS, resource_version=since, count=1)


async def test_requests_are_counted_with_who_asked_and_what_was_answered() -> None:
    api = FakeApi()
    one, two = FakeKube(api=api, caller="one"), FakeKube(api=api, caller="two")
    await one.list(NODES)
    await two.list(NODES)
    with pytest.raises(NotFound):
        await two.get(NODES, "none")

    requests = api.requests
    assert requests.count() == 3
    assert requests.count(caller="two") == 2
    assert requests.count(verb="get", code=404) == 1
    assert requests.by() == {("list", "nodes"): 2, ("get", "nodes"): 1}
    assert requests.recent[-1].attempt == Attempt(
        verb="get", resource="nodes", name="none", caller="two"
    )
    requests.clear()
    assert requests.count() == 0


async def test_what_is_not_allowed_is_forbidden() -> None:
    kube = FakeKube(caller="node-1")
    kube.api.gate.authorize = lambda attempt: attempt.resource != "nodes"

    with pytest.raises(Forbidden, match='User "node-1" cannot list resource "nodes"'):
        await kube.list(NODES)


async def test_bookmarks_come_by_the_minute() -> None:
    kube = FakeKube()
    since = (await kube.list(CONFIG_MAPS)).resource_version
    await kube.create(NODES, {"metadata": {"name": "n"}})

    found = [
        event async for event in kube.watch(CONFIG_MAPS, resource_version=since, timeout_s=150)
    ]

    assert [event.kind for event in found] == [EventKind.BOOKMARK] * 2
    assert int(found[0].object["metadata"]["resourceVersion"]) > int(since)
    assert asyncio.get_running_loop().time() == 150
