from collections import UserDict
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from hamid import __version__
from hamid.daemon.conditions import Conditions
from hamid.daemon.debug import DebugPages
from hamid.web.errors import Refusal
from tests.builders import make_node
from tests.web.sites import serving


def make_pages(**pages):
    made = DebugPages(
        registry=CollectorRegistry(), conditions=Conditions(clock=lambda: 1_700_000_000.0)
    )
    made.pages |= pages
    return made


@asynccontextmanager
async def asking(pages):
    """A function that gets a path: code, content type and body."""
    async with serving(*pages.routes()) as port, aiohttp.ClientSession() as session:

        async def get(path):
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                is_json = answer.content_type == "application/json"
                return answer.status, await (answer.json() if is_json else answer.text())

        yield get


async def test_alive_is_who_answers():
    async with asking(make_pages()) as get:
        assert await get("/healthz") == (200, {"status": "ok"})


async def test_ready_is_who_meets_all_conditions():
    pages = make_pages()
    async with asking(pages) as get:
        pages.conditions.declare("kubelet", lambda: (True, "registered"))
        assert (await get("/readyz"))[0] == 200
        pages.conditions.declare("own-pods", lambda: (False, "not listed yet"))

        code, body = await get("/readyz")

    assert code == 503
    assert body["ready"] is False
    assert body["conditions"]["own-pods"] == {
        "true": False,
        "reason": "not listed yet",
        "since": "2023-11-14T22:13:20+00:00",
    }


async def test_metrics_are_those_of_the_registry():
    pages = make_pages()
    Counter("hamid_test", "Of a test.", registry=pages.registry).inc(3)

    async with asking(pages) as get:
        code, text = await get("/metrics")

    assert code == 200
    assert "hamid_test_total 3.0" in text


@pytest.mark.parametrize("path", ["/", "/debug", "/debug/"])
async def test_the_index_names_all_pages(path):
    async with asking(make_pages(cache=dict)) as get:
        _, body = await get(path)

    assert body["hamid"] == __version__
    assert {"/readyz", "/metrics", "/debug/cache", "/debug/tasks"} <= {*body["pages"]}


async def test_a_page_shows_what_it_is_asked_for_at_that_moment():
    seen = []
    async with asking(make_pages(cache=lambda: seen)) as get:
        seen.append(1)

        assert await get("/debug/cache") == (200, [1])


async def test_a_page_that_is_not_there_is_said_to_be_missing():
    async with asking(make_pages()) as get:
        code, body = await get("/debug/nothing")

    assert code == 404
    assert "nothing" in body["message"]


async def test_values_of_all_kinds_can_be_shown():
    page = {
        "node": make_node("n"),
        "set": frozenset({"b", "a"}),
        "mixed": {1, "a"},
        "path": Path("/a"),
        "mapping": UserDict(a=1),
        3: "a key that is no text",
        "class": int,
    }
    async with asking(make_pages(cache=lambda: page)) as get:
        code, body = await get("/debug/cache")

    assert code == 200
    assert body["node"]["node_name"] == "n"
    assert body["set"] == ["a", "b"]
    assert body["path"] == "/a"
    assert body["mapping"] == {"a": 1}
    assert body["3"] == "a key that is no text"


async def test_tasks_are_shown_with_the_place_where_they_wait():
    async with asking(make_pages()) as get:
        _, tasks = await get("/debug/tasks")

    (server,) = [task for task in tasks if task["name"] == "web-server"]
    assert server["waits_in"].startswith("hamid.web.server.WebServer.run:")


@pytest.mark.parametrize(
    ("remote", "is_open", "is_answered"),
    [
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("::ffff:127.0.0.1", False, True),
        ("10.0.0.9", False, False),
        ("", False, False),
        ("10.0.0.9", True, True),
    ],
)
async def test_pages_are_for_callers_on_this_machine(remote, is_open, is_answered):
    pages = make_pages(cache=dict)
    pages.is_open = is_open
    asked = SimpleNamespace(remote=remote, match_info={"page": "cache"})

    if is_answered:
        assert (await pages._page(asked)).status == 200
    else:
        with pytest.raises(Refusal) as caught:
            await pages._page(asked)
        assert caught.value.status == 403
        assert "port-forward" in caught.value.hint
