import asyncio

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from hamid.codec.extender import FilterResult
from hamid.kube.errors import Unavailable
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import NODES, PODS
from hamid.model import names as wire
from hamid.model.quantities import MemoryMib
from hamid.model.request import PolicyName
from hamid.sched.extender import IN_DOUBT, UNREADABLE
from hamid.sched.nominations import Nomination
from hamid.sched.placement.score import SCORED_COUNT
from hamid.sched.sinks import NodeSink, PodSink
from hamid.web.errors import Refusal
from hamid.web.middleware import errors_as_json
from tests.builders import container_object, node_object, pod_object
from tests.sched.builders import make_allocation, make_devices, make_share
from tests.sched.objects import bound, initialized, modified, registered, waiting
from tests.sched.world import Call, World

T4 = "NVIDIA-Tesla T4"


@pytest.fixture
def world():
    return World(pod_wait_s=0.01, sync_wait_s=0.01)


def reserved_on(world, call):
    kept = world.cache.reservation(call.uid)
    return kept.allocation.node_name if kept else None


async def test_filter_answers_with_all_nodes_that_fit_and_reserves_on_the_best(world):
    nodes = [registered("a"), registered("b", make_devices(2)), registered("c", [])]
    (call,) = await world.create(*nodes, waiting())

    result = await world.filter(call)

    assert result.node_names == ("a", "b")
    assert result.failed_unresolvable == {"c": "the node registers no card"}
    assert result.failed == {}
    assert reserved_on(world, call) == "a"


async def test_by_a_setting_filter_answers_with_the_best_node_alone():
    world = World(pod_wait_s=0.01, sync_wait_s=0.01, offered_count=1)
    nodes = [registered("a"), registered("b", make_devices(2)), registered("c", [])]
    (call,) = await world.create(*nodes, waiting())

    result = await world.filter(call)

    assert result.node_names == (reserved_on(world, call),) == ("a",)
    assert result.failed_unresolvable == {"c": "the node registers no card"}


async def test_what_is_reserved_is_not_offered_again(world):
    """Field report d 9: two filters in one turn of the loop, and room for one."""
    calls = await world.create(
        registered(devices=make_devices(1, memory_mib=8_000)),
        waiting(name="one", mib=8_000),
        waiting(name="two", mib=8_000),
    )

    first, second = await asyncio.wait_for(_both(world, calls), timeout=5)

    assert sorted([first.node_names, second.node_names]) == [(), ("node-a",)]
    world.assert_books_are_right()


async def test_what_is_reserved_is_not_offered_again_though_decisions_take_long(world):
    """Nodes are looked at in slices, with pauses in which others are decided about."""
    nodes = [registered(f"n{n:02}", make_devices(1, memory_mib=8_000)) for n in range(20)]
    two = tuple(container_object(name, {"gpu": 1, "gpumem": 4_000}) for name in "ab")
    calls = await world.create(*nodes, *(waiting(name=f"p{n}", containers=two) for n in range(30)))

    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(world.filter(call)) for call in calls]

    assert sum(bool(answer.result().node_names) for answer in answers) == 20
    assert len({kept.allocation.node_name for kept in world.cache.reservations()}) == 20
    world.assert_books_are_right()


async def _both(world, calls):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(world.filter(call, "node-a")) for call in calls]
    return [task.result() for task in tasks]


async def test_after_the_winner_fails_the_loser_fits(world):
    """Field report d 9: the write of the winner fails with 500."""
    winner, loser = await world.create(
        registered(devices=make_devices(1, memory_mib=8_000)),
        waiting(name="one", mib=8_000),
        waiting(name="two", mib=8_000),
    )
    before = world.cache.snapshots()
    await world.filter(winner)
    assert not (await world.filter(loser)).node_names
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, resource="pods/binding", code=500))

    with pytest.raises(Unavailable):
        await world.binder.bind(winner.bind("node-a"))

    assert world.cache.snapshots() == before
    assert (await world.filter(loser)).node_names == ("node-a",)


async def test_a_new_filter_of_the_same_pod_replaces_its_reservation(world):
    (call,) = await world.create(
        registered(devices=make_devices(1, memory_mib=8_000)), waiting(mib=8_000)
    )
    await world.filter(call)

    again = await world.filter(call)

    assert again.node_names == ("node-a",)
    assert len(world.cache.reservations()) == 1


async def test_no_room_is_kept_for_a_pod_that_goes_while_its_nodes_are_looked_at(world):
    (call,) = await world.create(registered(), waiting())

    def pausing(*_):
        world.cache.drop_pod(call.uid)
        yield

    world.extender._placer.warming = pausing

    answer = await world.filter(call)

    assert answer.error == "pod default/pod-uid-1 is gone"
    assert world.cache.reservations() == ()


async def test_a_pod_that_fits_nowhere_keeps_no_room(world):
    (call,) = await world.create(registered(), waiting(mib=50_000))

    result = await world.filter(call)

    assert result.node_names == ()
    assert result.failed_unresolvable == {
        "node-a": "no card of 1 fits: 1 is too small (need 50000 MiB, largest has 40000 MiB)"
    }
    assert world.cache.reservations() == ()


async def test_kube_scheduler_looks_for_nobody_to_evict_where_cards_are_short(world):
    first, second = await world.create(
        registered(), waiting(name="one", mib=39_000), waiting(name="two", mib=3_000)
    )
    await world.filter(first)

    result = await world.filter(second)

    assert result.failed_unresolvable == {
        "node-a": "no card of 1 fits: 1 lacks memory (need 3000 MiB, most free 1000 MiB)"
    }
    assert result.failed == {}


async def test_the_second_pod_fits_after_the_init_phase_of_the_first(world):
    """Field report d 2: three init containers of 10000, an app of 4000, a card of 16000."""
    inits = [container_object(f"i{n}", {"gpu": 1, "gpumem": 10_000}) for n in range(3)]
    app = (container_object("app", {"gpu": 1, "gpumem": 4_000}),)
    first, second = await world.create(
        registered(devices=make_devices(1, memory_mib=16_000)),
        waiting(name="one", containers=app, init_containers=inits),
        waiting(name="two", containers=app, init_containers=inits),
    )
    await world.filter(first)
    await world.binder.bind(first.bind("node-a"))
    await world.sync()
    assert (await world.filter(second)).failed_unresolvable == {
        "node-a": "no card of 1 fits: 1 lacks memory (need 10000 MiB, most free 6000 MiB)"
    }

    PodSink(world.cache).apply(modified(initialized(await world.pod(first))))

    assert (await world.filter(second)).node_names == ("node-a",)


async def test_nodes_that_refuse_alike_say_the_same(world):
    nodes = [registered(f"n{i}", make_devices(8, model=T4)) for i in range(3)]
    (call,) = await world.create(*nodes, waiting(annotations={wire.USE_MODEL: "A100"}))

    result = await world.filter(call)

    assert set(result.failed_unresolvable.values()) == {
        "no card of 24 on 3 nodes fits: 24 are of another model (A100 asked)"
    }


async def test_a_pod_that_asks_for_no_device_fits_everywhere(world):
    (call,) = await world.create(registered(), pod_object(container_object("main")))

    result = await world.filter(call, "x", "y")

    assert result == FilterResult(node_names=("x", "y"))
    assert await world.extender.prioritize(call.filter(["x", "y"])) == {}


async def test_a_request_that_cannot_be_is_refused_with_its_reason(world):
    bad = pod_object(container_object("main", {"gpu": 1, "gpumem": "3Ki"}))
    (call,) = await world.create(registered(), bad)

    result = await world.filter(call)

    assert result.node_names == ()
    assert "gpumem" in result.failed_unresolvable["node-a"]


async def test_a_registration_that_cannot_be_read_is_said_so(world):
    broken = node_object("node-a", annotations={wire.NODE_REGISTER: "[{]"})
    (call,) = await world.create(broken, waiting())

    result = await world.filter(call)

    assert result.failed_unresolvable == {"node-a": UNREADABLE}


async def test_whole_nodes_are_refused_with_what_to_set(world):
    result = await world.extender.filter(Call("uid", "default", "pod").filter(None))

    assert "nodeCacheCapable" in result.error


async def test_a_pod_that_is_gone_is_an_error(world):
    result = await world.extender.filter(Call("uid", "default", "pod").filter(["node-a"]))

    assert "not found" in result.error


async def test_a_pod_newer_than_our_watch_is_placed(world):
    await world.create(registered())
    created = await world.kube.create(PODS, waiting(name="new"))
    call = Call(created["metadata"]["uid"], "default", "new")

    result = await world.filter(call)

    assert result.node_names == ("node-a",)
    assert reserved_on(world, call) == "node-a"


@pytest.mark.parametrize(
    ("priority", "mib", "names"), [(11, 40_000, ("node-a",)), (-20, 20_000, ())]
)
async def test_a_pod_newer_than_our_watch_is_as_important_as_it_says(world, priority, mib, names):
    """Room is being made for others, whom it has to respect or not."""
    await world.create(registered())
    for uid, theirs in (("high", 10), ("low", -10)):
        world.extender.nominations.put(
            Nomination(
                allocation=make_allocation(make_share("card-0", memory_mib=20_000), uid=uid),
                priority=theirs,
                victims=frozenset(),
                expires_at=world.clock() + 60,
            )
        )
    created = await world.kube.create(PODS, waiting(name="new", mib=mib, priority=priority))

    result = await world.filter(Call(created["metadata"]["uid"], "default", "new"))

    assert result.node_names == names


async def test_a_pod_that_is_bound_is_not_placed_again(world):
    (call,) = await world.create(registered(), waiting())
    await world.filter(call)
    await world.binder.bind(call.bind("node-a"))
    await world.sync()

    result = await world.filter(call)

    assert "bound to node-a already" in result.error


async def in_doubt(world):
    """A pod that may be bound to node-a."""
    (call,) = await world.create(registered(), registered("node-b"), waiting())
    await world.filter(call)
    world.kube.faults.add(Fault(kind=FaultKind.DROP, resource="pods/binding"))
    with pytest.raises(Unavailable):
        await world.binder.bind(call.bind("node-a"))
    return call


async def test_a_pod_that_may_be_bound_is_offered_the_same_node_only(world):
    call = await in_doubt(world)

    result = await world.filter(call)

    assert result == FilterResult(node_names=("node-a",), failed={"node-b": IN_DOUBT})
    assert await world.extender.prioritize(call.filter(["node-a"])) == {"node-a": 128}


async def test_a_pod_that_may_be_bound_is_not_offered_other_nodes(world):
    call = await in_doubt(world)

    result = await world.filter(call, "node-b")

    assert IN_DOUBT in result.error


async def test_scores_follow_the_ranking_and_have_no_ties(world):
    nodes = [registered(f"n{i}", make_devices(1, memory_mib=10_000 * (i + 1))) for i in range(3)]
    (call,) = await world.create(*nodes, waiting())
    await world.filter(call)

    scores = await world.extender.prioritize(call.filter(["n2", "n1", "n0"]))

    assert scores == {"n0": 384, "n1": 256, "n2": 128}
    assert reserved_on(world, call) == "n0"


async def test_room_moves_with_the_pod_when_another_extender_drops_the_best_node(world):
    (call,) = await world.create(registered("a"), registered("b"), waiting())
    await world.filter(call)

    scores = await world.extender.prioritize(call.filter(["b"]))

    assert scores == {"b": 128}
    assert reserved_on(world, call) == "b"


async def test_prioritize_without_filter_places_the_pod(world):
    (call,) = await world.create(registered("a"), registered("b"), waiting())

    scores = await world.extender.prioritize(call.filter(["a", "b"]))

    assert scores == {"a": 256, "b": 128}
    assert reserved_on(world, call) == "a"


async def test_nodes_that_were_not_ranked_get_no_score(world):
    (call,) = await world.create(registered("a"), registered("z"), waiting())
    await world.filter(call, "z")

    assert await world.extender.prioritize(call.filter(["a", "z"])) == {"z": 128}


@pytest.mark.parametrize("is_shuffled", [False, True])
async def test_of_many_nodes_all_are_offered_and_only_the_best_get_scores(world, is_shuffled):
    names = [f"n{number:02}" for number in range(3 * SCORED_COUNT)]
    (call,) = await world.create(*(registered(name) for name in names), waiting())
    asked = names[::-1] if is_shuffled else names

    result = await world.filter(call, *asked)
    scores = await world.extender.prioritize(call.filter(result.node_names))

    assert result.node_names == tuple(asked)
    assert list(scores) == names[:SCORED_COUNT]
    assert len(set(scores.values())) == SCORED_COUNT
    assert reserved_on(world, call) == max(scores, key=scores.__getitem__) == "n00"


async def test_the_last_verdict_of_a_pod_can_be_asked_for(world):
    placed, refused = await world.create(
        registered(), waiting(name="one"), waiting(name="two", mib=50_000)
    )
    await world.filter(placed)
    await world.filter(refused)

    good = world.extender.explanations.verdict(placed.uid)
    bad = world.extender.explanations.verdict(refused.uid)

    assert (good.node_name, good.sentence, good.fitting_count) == ("node-a", "", 1)
    assert good.node_policies == (PolicyName.FRAGMENTATION,)
    assert [len(found.costs) for found in good.best] == [1]
    assert bad.pod_key == "default/two"
    assert "too small" in bad.sentence
    assert bad.reasons == {bad.sentence: 1}


# Over HTTP.


class Http:
    def __init__(self, client):
        self.client = client

    async def post(self, path, body):
        response = await self.client.post(path, data=orjson.dumps(body))
        return response, await response.json()


@pytest.fixture
async def http(world):
    app = web.Application(middlewares=[errors_as_json(site="extender", deadline_s=5)])
    app.add_routes(world.extender.routes())
    async with TestClient(TestServer(app)) as client:
        yield Http(client)


def filter_body(call, names):
    """As kube-scheduler sends it: the whole pod, of which only the identity is read."""
    meta = {"name": call.name, "namespace": call.namespace, "uid": call.uid}
    lies = {"containers": [container_object("main", {"gpu": 8})]}
    return {"Pod": {"metadata": meta, "spec": lies}, "Nodes": None, "NodeNames": list(names)}


async def test_a_pod_goes_all_the_way_over_http(world, http):
    (call,) = await world.create(registered("a"), registered("b"), waiting())

    _, filtered = await http.post("/scheduler/filter", filter_body(call, ["a", "b"]))
    _, scores = await http.post("/scheduler/prioritize", filter_body(call, ["a", "b"]))
    _, bound = await http.post(
        "/scheduler/bind",
        {"PodName": call.name, "PodNamespace": "default", "PodUID": call.uid, "Node": "a"},
    )

    assert filtered["NodeNames"] == ["a", "b"]
    assert scores == [{"Host": "a", "Score": 256}, {"Host": "b", "Score": 128}]
    assert bound == {"Error": ""}
    assert (await world.pod(call))["spec"]["nodeName"] == "a"
    assert world.metric("hamid_sched_call_seconds_count", verb="filter") == 1
    assert world.metric("hamid_sched_decisions_total", outcome="placed") == 1


async def test_a_bind_that_is_refused_says_why(world, http):
    (call,) = await world.create(registered("a"), waiting(mib=50_000))
    body = {"PodName": call.name, "PodNamespace": "default", "PodUID": call.uid, "Node": "a"}

    response, answer = await http.post("/scheduler/bind", body)

    assert response.status == 200
    assert "does not fit on a any more" in answer["Error"]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
async def test_a_follower_says_who_leads_and_closes_the_connection(world, http, verb):
    await world.create(registered())
    world.leadership.is_leader = False
    world.leadership.holder = "replica-7"

    response, answer = await http.post(f"/scheduler/{verb}", {})

    assert response.status == 503
    assert response.headers["Connection"] == "close"
    assert "replica-7" in answer["message"]


async def test_a_leader_that_does_not_know_the_cluster_yet_says_so(world, http):
    response, answer = await http.post("/scheduler/filter", {})

    assert response.status == 503
    assert "lists the cluster" in answer["message"]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
async def test_a_call_is_not_answered_from_the_half_known_books_of_the_next_term(verb):
    """It came in one term, and waits for its pod while the next one begins."""
    world = World(pod_wait_s=5)
    (call,) = await world.create(registered("a"), waiting())
    world.cache.drop_pod(call.uid)
    ask = {
        "filter": lambda: world.extender.filter(call.filter(("a",))),
        "prioritize": lambda: world.extender.prioritize(call.filter(("a",))),
        "bind": lambda: world.binder.bind(call.bind("a")),
    }[verb]

    asked = asyncio.ensure_future(ask())  # noqa: TID251 - awaited below
    await asyncio.sleep(0)
    world.cache.reset()
    NodeSink(world.cache).replace((await world.kube.list(NODES)).items)
    world.cache.take_pod(await world.pod(call))

    with pytest.raises(Refusal, match="still lists the cluster"):
        await asked
    assert not world.cache.reservations()


async def test_a_call_that_comes_before_the_lists_waits_for_them():
    world = World(sync_wait_s=5)
    await world.kube.create(PODS, waiting(name="early"))
    app = web.Application(middlewares=[errors_as_json(site="extender", deadline_s=5)])
    app.add_routes(world.extender.routes())
    async with TestClient(TestServer(app)) as client, asyncio.TaskGroup() as group:
        answer = group.create_task(client.post("/scheduler/filter", data=b"{}"))
        await asyncio.sleep(0)
        await world.sync()

        assert (await answer).status == 400


async def test_a_call_that_cannot_be_read_is_the_callers_fault(world, http):
    await world.sync()

    response, answer = await http.post("/scheduler/filter", {"Pod": 1})

    assert response.status == 400
    assert "Pod" in answer["message"]


async def test_the_same_running_pods_teach_every_leader_the_same():
    def running(number):
        pod = bound(make_share(memory_mib=1_000 + number % 7), uid=f"running-{number:02}")
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{number:02}Z"
        return pod

    async def learned(numbers):
        world = World()
        (call,) = await world.create(registered(), waiting())
        for number in numbers:
            world.cache.take_pod(running(number))
        await world.filter(call)
        return world.extender._placer.arrivals.typical

    assert await learned(range(30)) == await learned(reversed(range(30)))


async def test_after_a_start_running_pods_tell_what_usually_comes(world):
    (call,) = await world.create(registered(), waiting())
    for number in range(9):
        world.cache.take_pod(bound(make_share(memory_mib=2_000), uid=f"running-{number}"))
    await world.filter(call)

    (shape, _), *_ = world.extender._placer.arrivals.typical.shapes

    assert shape.cards.memory == MemoryMib(mib=2_000)
