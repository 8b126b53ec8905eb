from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from multidict import MultiDict

from hamid.daemon import debug
from hamid.daemon.explain_pages import ExplainPages, pod_of_query
from hamid.errors import RequestError
from hamid.model.names import ResourceNames
from hamid.sched.explainer import Explainer
from tests.sched.builders import make_devices
from tests.sched.objects import registered, waiting
from tests.sched.world import World
from tests.web.sites import serving


@asynccontextmanager
async def asking(*objects, is_open=False):
    """A function that gets a path of a leader that knows these: status and JSON or text."""
    world = World(pod_wait_s=0.01, sync_wait_s=0.01)
    await world.create(*objects)
    pages = ExplainPages(
        explainer=Explainer(
            cache=world.cache,
            verdicts=world.extender.explanations,
            leadership=world.leadership,
            settings=world.settings,
        ),
        is_open=is_open,
    )
    async with serving(*pages.routes()) as port, aiohttp.ClientSession() as session:

        async def get(path):
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                return answer.status, await answer.json()

        yield get


async def test_a_waiting_pod_is_explained():
    async with asking(registered(), waiting(name="big", mib=50_000)) as get:
        code, answer = await get("/explain/default/big")
        missing, said = await get("/explain/default/none")

    assert (code, answer["state"]) == (200, "pending")
    assert answer["changes"][0]["less"][0]["fitting"] == 40_000
    assert (missing, said["message"]) == (
        404,
        "no pod default/none waits for a node or holds cards",
    )


async def test_a_shape_is_counted_with_and_without_a_node():
    nodes = registered("a", make_devices(2)), registered("b")
    async with asking(*nodes) as get:
        _, now = await get("/fit?gpu=1&gpumem=3000&gpucores=30")
        _, then = await get("/fit?gpu=1&gpumem=3000&gpucores=30&without-node=a")
        _, more = await get("/fit?gpu=1&gpumem=3000&gpucores=30&with-node=a&with-node=b")
        wrong, said = await get("/fit?gpus=1")

    assert (now["pods"], then["pods"], then["pods_now"], more["pods"]) == (9, 3, 9, 18)
    assert (wrong, said["message"]) == (400, "'gpus' means nothing here")


@pytest.mark.parametrize("path", ["/explain/default/p", "/fit?gpu=1"])
async def test_callers_from_elsewhere_are_refused_unless_the_pages_are_open(path, monkeypatch):
    monkeypatch.setattr(debug, "is_loopback", lambda _: False)

    async with asking(registered(), waiting(name="p")) as get:
        assert (await get(path))[0] == 403
    async with asking(registered(), waiting(name="p"), is_open=True) as get:
        assert (await get(path))[0] == 200


def test_a_query_is_read_as_a_pod():
    query = MultiDict(
        [("gpu", "2"), ("gpumem-percentage", "50"), ("cpu", "4"), ("annotation", "a/b=c=d")]
    )

    pod = pod_of_query(query, ResourceNames(count="x.io/card"))

    assert pod["spec"]["containers"][0]["resources"]["limits"] == {
        "x.io/card": "2",
        "nvidia.com/gpumem-percentage": "50",
        "cpu": "4",
    }
    assert pod["metadata"]["annotations"] == {"a/b": "c=d"}


def test_a_namespace_may_be_named():
    assert (
        pod_of_query(MultiDict([("namespace", "team")]), ResourceNames())["metadata"]["namespace"]
        == "team"
    )


def test_an_annotation_needs_a_value():
    with pytest.raises(RequestError, match="'a' has no value"):
        pod_of_query(MultiDict(annotation="a"), ResourceNames())


def test_routes_are_read_only():
    assert {route.method for route in ExplainPages(explainer=None).routes()} == {"GET"}
    assert all(isinstance(route, web.RouteDef) for route in ExplainPages(explainer=None).routes())


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"cpu": "-5"}, "cpu: '-5' is below 0"),
        ({"memory": "much"}, "memory: 'much' is no quantity"),
    ],
)
def test_amounts_of_the_host_that_cannot_be_meant_are_refused(query, said):
    with pytest.raises(RequestError, match=said):
        pod_of_query(MultiDict(query), ResourceNames())
