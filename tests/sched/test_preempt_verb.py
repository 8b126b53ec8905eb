import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from hamid.codec.extender import NodeVictims, PreemptArgs
from hamid.errors import ExtenderError
from hamid.kube.port import PODS
from hamid.sched.nominations import Nomination
from hamid.sched.preempt_verb import PreemptVerb
from hamid.web.errors import Refusal
from hamid.web.middleware import errors_as_json
from tests.builders import pod_object
from tests.sched.builders import make_allocation, make_share
from tests.sched.objects import bound
from tests.sched.test_preemptor import Crowd, meanwhile, pod


class Asked(Crowd):
    """kube-scheduler is short of CPU, too."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.verb = PreemptVerb(cache=self.world.cache, preemptor=self.preemptor)

    async def ask(self, call, **victims):
        return await self.verb.preempt(
            PreemptArgs(
                pod_uid=call.uid,
                namespace=call.namespace,
                pod_name=call.name,
                victims={
                    f"node-{name}": NodeVictims(pod_uids=tuple(uids))
                    for name, uids in victims.items()
                },
            )
        )


@pytest.fixture
def asked():
    return Asked()


def with_host(node, cpu):
    return {**node, "status": {"allocatable": {"cpu": cpu, "memory": "64Gi"}}}


def asking_cpu(made, cpu):
    (container,) = made["spec"]["containers"]
    resources = container["resources"]
    requests = {**resources.get("requests", {}), "cpu": cpu}
    made["spec"]["containers"] = [{**container, "resources": {**resources, "requests": requests}}]
    return made


async def test_victims_that_leave_the_pod_without_cards_get_company(asked):
    small, large, _ = await asked.place(
        pod("small", mib=5_000), pod("large", mib=35_000), pod("other", priority=99)
    )
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    node = (await asked.world.pod(small))["spec"]["nodeName"]

    answer = await asked.ask(urgent, **{node[-1]: [small.uid]})

    assert answer == {node: NodeVictims(pod_uids=(small.uid, large.uid))}
    assert [found.node_name for found in asked.world.extender.nominations] == [node]


@pytest.mark.parametrize(
    ("cpu", "who_goes"),
    [
        pytest.param("20", {"large"}, id="its CPU is enough"),
        pytest.param("80", {"small", "large"}, id="it is not"),
    ],
)
async def test_those_who_go_for_their_cards_go_alone_where_they_leave_cpu_enough(
    asked, cpu, who_goes
):
    asked.nodes = [with_host(node, cpu="100") for node in asked.nodes[:1]]
    small, large = await asked.place(
        asking_cpu(pod("small", mib=5_000), "48"), asking_cpu(pod("large", mib=35_000), "48")
    )
    (urgent,) = await asked.world.create(asking_cpu(pod("urgent", priority=10), cpu))

    (found,) = (await asked.ask(urgent, a=[small.uid])).values()

    names = {small.uid: "small", large.uid: "large"}
    assert {names[uid] for uid in found.pod_uids} == who_goes


async def test_kube_scheduler_gets_its_victims_once_those_for_cards_are_gone(asked):
    """It has something against them of which we know nothing, such as a port."""
    asked.nodes = [with_host(node, cpu="100") for node in asked.nodes[:1]]
    small, large = await asked.place(
        asking_cpu(pod("small", mib=5_000), "48"), asking_cpu(pod("large", mib=35_000), "48")
    )
    (urgent,) = await asked.world.create(asking_cpu(pod("urgent", priority=10), "20"))
    assert await asked.ask(urgent, a=[small.uid]) == {"node-a": NodeVictims(pod_uids=(large.uid,))}
    assert await asked.ask(urgent, a=[small.uid]) == {}

    await asked.world.kube.delete(PODS, "large", namespace=large.namespace, grace_period_s=0)
    await asked.world.sync()

    assert await asked.ask(urgent, a=[small.uid]) == {"node-a": NodeVictims(pod_uids=(small.uid,))}


async def test_victims_that_hold_no_cards_go_alone_where_cards_are_free(asked):
    await asked.place()
    stranger = "uid-of-a-web-server"
    (urgent,) = await asked.world.create(pod("urgent", priority=10))

    answer = await asked.ask(urgent, a=[stranger])

    assert answer == {"node-a": NodeVictims(pod_uids=(stranger,))}


async def test_nodes_on_which_nothing_helps_are_left_out(asked):
    low, _ = await asked.place(pod("low"), pod("high", priority=99))
    (urgent,) = await asked.world.create(pod("urgent", priority=10))

    answer = await asked.ask(urgent, a=[low.uid], b=["uid-of-a-web-server"])

    assert len(answer) == 1
    assert await asked.ask(urgent, b=["uid-of-a-web-server"]) == {}


async def test_nothing_is_promised_once_the_term_has_ended(asked):
    """It ends while the disruption budgets are read."""
    small, _, _ = await asked.place(
        pod("small", mib=5_000), pod("large", mib=35_000), pod("other", priority=99)
    )
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    node = (await asked.world.pod(small))["spec"]["nodeName"]

    class Ending:
        async def list(self, *args, **kwargs):
            asked.world.cache.reset()
            return await asked.world.kube.list(*args, **kwargs)

    asked.preemptor.kube = Ending()
    with pytest.raises(Refusal, match="still lists the cluster"):
        await asked.ask(urgent, **{node[-1]: [small.uid]})

    assert not list(asked.world.extender.nominations)


async def test_of_several_nodes_the_best_remains(asked):
    cheap, dear = await asked.place(pod("cheap"), pod("dear", priority=5))
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    nodes = {
        (await asked.world.pod(call))["spec"]["nodeName"][-1]: [call.uid] for call in (cheap, dear)
    }

    (found,) = (await asked.ask(urgent, **nodes)).values()

    assert found.pod_uids == (cheap.uid,)


async def test_where_cards_alone_are_short_and_less_is_lost_kube_scheduler_evicts_nobody(asked):
    cheap, dear = await asked.place(pod("cheap"), pod("dear", priority=5))
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    nodes = [(await asked.world.pod(call))["spec"]["nodeName"] for call in (cheap, dear)]
    assert not (await asked.world.filter(urgent, nodes[0])).node_names

    assert await asked.ask(urgent, **{nodes[1][-1]: [dear.uid]}) == {}

    await asked.preemptor.step()
    assert cheap.name not in await asked.names()
    assert dear.name in await asked.names()


async def test_a_pod_for_which_room_is_being_made_gets_no_more(asked):
    low, _ = await asked.place(pod("low", grace_s=20), pod("low-2", grace_s=20))
    (urgent,) = await asked.refuse(pod("urgent", priority=10))
    await asked.preemptor.step()

    assert await asked.ask(urgent, a=[low.uid]) == {}


async def test_of_pods_that_are_not_ours_nothing_is_said(asked):
    await asked.place()
    (other,) = await asked.world.create(pod_object(name="other"))

    answer = await asked.ask(other, a=["uid-1"])

    assert answer == {"node-a": NodeVictims(pod_uids=("uid-1",))}


async def test_whole_pods_are_not_understood(asked):
    args = PreemptArgs(pod_uid="uid", namespace="default", pod_name="pod", victims=None)

    with pytest.raises(ExtenderError, match="whole pods"):
        await asked.verb.preempt(args)


async def test_where_nobody_is_to_be_evicted_for_cards_kube_scheduler_gets_no_more_victims():
    asked = Asked(preempts=False)
    small, _, other = await asked.place(
        pod("small", mib=5_000), pod("large", mib=35_000), pod("other", priority=1)
    )
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    node = (await asked.world.pod(small))["spec"]["nodeName"]
    (there,) = {"node-a", "node-b"} - {node}

    assert await asked.ask(urgent, **{node[-1]: [small.uid]}) == {}
    assert await asked.ask(urgent, **{there[-1]: [other.uid]}) == {
        there: NodeVictims(pod_uids=(other.uid,))
    }


async def test_a_pod_for_which_room_begins_to_be_made_meanwhile_gets_no_more(asked, monkeypatch):
    cheap, dear = await asked.place(pod("cheap", grace_s=20), pod("dear", priority=5))
    there = (await asked.world.pod(dear))["spec"]["nodeName"]
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    nomination = Nomination(
        allocation=make_allocation(uid=urgent.uid, node_name="node-a"),
        priority=10,
        victims=frozenset({cheap.uid}),
        expires_at=9_999,
    )
    nominations = asked.world.extender.nominations
    meanwhile(monkeypatch, lambda: nominations.put(nomination))

    assert await asked.ask(urgent, **{there[-1]: [dear.uid]}) == {}

    assert list(nominations) == [nomination]


async def test_what_was_given_away_while_disruption_budgets_were_read_is_not_promised(asked):
    low, _ = await asked.place(pod("low"), pod("high", priority=99))
    node = (await asked.world.pod(low))["spec"]["nodeName"]
    (urgent,) = await asked.refuse(pod("urgent", mib=35_000, priority=10))
    thief = bound(make_share("card-0", memory_mib=9_000), uid="thief", priority=50)
    thief["spec"]["nodeName"] = node
    kube, reads = asked.preemptor.kube, []

    class Busy:
        async def list(self, *args, **options):
            reads.append(args)
            if len(reads) == 2:  # whom to evict on this node is known by then
                asked.world.cache.take_pod(thief)
            return await kube.list(*args, **options)

    asked.preemptor.kube = Busy()

    assert await asked.ask(urgent, **{node[-1]: [low.uid]}) == {}
    assert not list(asked.world.extender.nominations)


@pytest.fixture
async def client(asked):
    app = web.Application(middlewares=[errors_as_json(site="extender", deadline_s=5)])
    app.add_routes(asked.verb.routes("/scheduler"))
    async with TestClient(TestServer(app)) as made:
        yield made


async def post(client, call, **victims):
    body = {
        "Pod": {"metadata": {"uid": call.uid, "namespace": call.namespace, "name": call.name}},
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": uid} for uid in uids]} for name, uids in victims.items()
        },
    }
    return await client.post("/scheduler/preempt", json=body)


async def test_it_is_served_over_http(asked, client):
    (low, _) = await asked.place(pod("low"), pod("high", priority=99))
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    node = (await asked.world.pod(low))["spec"]["nodeName"]

    answer = await (await post(client, urgent, **{node: [low.uid]})).json()

    assert answer == {
        "NodeNameToMetaVictims": {node: {"Pods": [{"UID": low.uid}], "NumPDBViolations": 0}}
    }


async def test_a_replica_that_does_not_lead_or_know_the_cluster_says_so(asked, client):
    (urgent,) = await asked.world.create(pod("urgent", priority=10))
    asked.world.leadership.is_leader = False
    assert (await post(client, urgent)).status == 503

    asked.world.leadership.is_leader = True
    asked.world.cache.reset()
    assert (await post(client, urgent)).status == 503
