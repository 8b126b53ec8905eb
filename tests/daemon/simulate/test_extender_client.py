from __future__ import annotations

from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest
from aiohttp import web

from hamid.daemon.simulate.extender_client import ExtenderClient
from hamid.errors import ExtenderError

POD = {"metadata": {"name": "a", "namespace": "default", "uid": "u-1"}}


@asynccontextmanager
async def extender(answer, *, status=200):
    """A client of an extender that gives this answer, and the bodies that it is sent."""
    bodies = []

    async def serve(request):
        bodies.append((request.path, orjson.loads(await request.read())))
        return web.Response(body=orjson.dumps(answer), status=status)

    app = web.Application()
    app.router.add_post("/{verb}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield ExtenderClient(session=session, url=url), bodies
    finally:
        await runner.cleanup()


async def test_filter_sends_names_only_and_takes_both_kinds_of_refusal():
    answer = {
        "NodeNames": ["n-1"],
        "FailedNodes": {"n-2": "no room"},
        "FailedAndUnresolvableNodes": {"n-3": "no card"},
    }
    async with extender(answer) as (client, bodies):
        found = await client.filter(POD, ["n-1", "n-2", "n-3"])

    assert found.node_names == ("n-1",)
    assert found.failed == {"n-2": "no room", "n-3": "no card"}
    assert bodies == [("/filter", {"Pod": POD, "Nodes": None, "NodeNames": ["n-1", "n-2", "n-3"]})]


async def test_prioritize_gives_scores_as_they_are():
    async with extender([{"Host": "n-1", "Score": 99}]) as (client, _):
        assert await client.prioritize(POD, ["n-1"]) == {"n-1": 99}


async def test_bind_names_the_pod_by_uid():
    async with extender({"Error": ""}) as (client, bodies):
        await client.bind(POD, "n-1")

    wanted = {"PodName": "a", "PodNamespace": "default", "PodUID": "u-1", "Node": "n-1"}
    assert bodies == [("/bind", wanted)]


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_an_error_in_the_answer_is_raised(verb):
    async with extender({"Error": "the pod is gone"}) as (client, _):
        with pytest.raises(ExtenderError, match="the pod is gone"):
            await (client.filter(POD, []) if verb == "filter" else client.bind(POD, "n-1"))


async def test_another_status_is_an_error_with_its_text():
    async with extender({"message": "nobody leads"}, status=503) as (client, _):
        with pytest.raises(ExtenderError, match=r"answered filter with 503: .*nobody leads"):
            await client.filter(POD, [])


async def test_an_extender_that_is_not_there_is_an_error():
    async with aiohttp.ClientSession() as session:
        client = ExtenderClient(session=session, url="http://127.0.0.1:1")

        with pytest.raises(ExtenderError, match="not reached"):
            await client.filter(POD, [])
