import pytest

from hamid.kube.errors import NotFound, Unavailable
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import PODS
from hamid.sched.lookup import PodLookup
from hamid.sched.sinks import PodSink
from tests.sched.objects import added, waiting
from tests.sched.world import Call, World


@pytest.fixture
def world():
    return World(pod_wait_s=0.01)


def lookup(world):
    return PodLookup(kube=world.kube, cache=world.cache)


def gets(world):
    return world.kube.requests.count(verb="get", resource="pods")


async def test_a_pod_that_the_watch_has_shown_costs_no_call(world):
    (call,) = await world.create(waiting())

    record = await lookup(world).find(call.filter(()))

    assert record.pod_uid == call.uid
    assert gets(world) == 0


async def test_a_pod_that_the_watch_does_not_show_is_read_once(world):
    created = await world.kube.create(PODS, waiting(name="new"))
    call = Call(created["metadata"]["uid"], "default", "new")

    record = await lookup(world).find(call.filter(()))

    assert record.request is not None
    assert gets(world) == 1
    assert world.cache.pod(call.uid) is None


async def test_a_pod_of_the_same_name_with_another_uid_is_not_taken(world):
    await world.kube.create(PODS, waiting(name="new"))

    with pytest.raises(NotFound, match="not another"):
        await lookup(world).find(Call("another", "default", "new").filter(()))


async def test_a_pod_that_is_gone_is_not_found(world):
    with pytest.raises(NotFound):
        await lookup(world).find(Call("uid", "default", "gone").filter(()))


async def test_an_api_server_that_does_not_answer_is_said_so(world):
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="get", code=500))

    with pytest.raises(Unavailable):
        await lookup(world).find(Call("uid", "default", "gone").filter(()))


async def test_the_books_learn_of_pods_by_the_watch_alone(world):
    PodSink(world.cache).apply(added(waiting("uid-1")))

    record = await lookup(world).find(Call("uid-1", "elsewhere", "lies").filter(()))

    assert record.pod_key == "default/pod-uid-1"
