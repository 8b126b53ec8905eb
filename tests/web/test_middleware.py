import asyncio

import pytest
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from hamid.errors import AdmissionError, HamidError, RequestError
from hamid.web.errors import Refusal
from hamid.web.settings import WebSettings
from tests.web.sites import client, serving


class Conflicting(HamidError):
    code = 409


def raising(error):
    async def handler(_request):
        raise error

    return web.get("/", handler)


async def get(*routes, path="/", settings=None, registry=None, **kwargs):
    async with (
        serving(*routes, settings=settings, registry=registry) as port,
        client() as session,
        session.request(
            kwargs.pop("method", "GET"), f"http://127.0.0.1:{port}{path}", **kwargs
        ) as response,
    ):
        return response.status, await response.json(), response.headers


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(AdmissionError("m", hint="h"), 400, id="a peer's nonsense is its fault"),
        pytest.param(RequestError("m", hint="h"), 400, id="an impossible wish is its author's"),
        pytest.param(Conflicting("m", hint="h"), 409, id="a conflict is told as one"),
        pytest.param(HamidError("m", hint="h"), 500, id="any other error of ours is ours"),
        pytest.param(Refusal("m", hint="h", status=503), 503, id="a refusal brings its own status"),
    ],
)
async def test_an_error_of_ours_becomes_json_with_message_and_hint(error, status):
    found_status, body, _ = await get(raising(error))

    assert (found_status, body) == (status, {"message": "m", "hint": "h"})


async def test_a_bug_is_logged_with_its_traceback_and_hidden_from_the_caller():
    with structlog.testing.capture_logs() as logs:
        status, body, _ = await get(raising(ValueError("secret")))

    assert status == 500
    assert "secret" not in str(body)
    assert [entry["event"] for entry in logs if entry.get("exc_info")] == ["request failed"]


async def test_a_refusal_can_close_the_connection_so_that_the_client_looks_elsewhere():
    refusal = Refusal("not the leader", hint="ask a", status=503, closes_connection=True)

    _, _, headers = await get(raising(refusal))

    assert headers["Connection"] == "close"


async def test_an_unknown_path_is_a_404_in_json():
    status, body, _ = await get(path="/nowhere")

    assert status == 404
    assert body["hint"]


async def test_a_wrong_method_is_a_405_that_names_the_right_one():
    async def handler(_request):
        return web.Response()

    status, _, headers = await get(web.post("/", handler))

    assert (status, headers["Allow"]) == (405, "POST")


async def test_a_body_over_the_limit_is_refused_as_413():
    async def handler(request):
        await request.read()
        return web.Response()

    status, body, _ = await get(
        web.post("/", handler),
        method="POST",
        data=b"x" * 101,
        settings=WebSettings(body_limit_bytes=100),
    )

    assert status == 413
    assert "body limit" in body["hint"]


async def test_a_caller_who_hangs_up_within_the_body_is_no_bug_of_ours():
    has_begun, has_ended = asyncio.Event(), asyncio.Event()

    async def handler(request):
        has_begun.set()
        try:
            await request.read()
        finally:
            has_ended.set()

    with structlog.testing.capture_logs() as logs:
        async with serving(web.post("/", handler)) as port:
            head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            del reader
            writer.write(head)
            await has_begun.wait()
            writer.close()
            await has_ended.wait()
            await writer.wait_closed()

    assert [entry["event"] for entry in logs if entry["log_level"] != "info"] == []


async def test_a_body_that_is_not_in_its_encoding_is_the_callers_fault():
    async def handler(request):
        await request.read()

    status, body, _ = await get(
        web.post("/", handler),
        method="POST",
        data=b"hello",
        headers={"Content-Encoding": "gzip"},
    )

    assert status == 400
    assert "body" in body["message"]


async def test_a_request_out_of_time_is_answered_503():
    async def handler(_request):
        await asyncio.Event().wait()

    status, body, _ = await get(web.get("/", handler), settings=WebSettings(deadline_s=0.01))

    assert status == 503
    assert "0.01 s" in body["message"]


async def test_requests_are_timed_by_route_and_never_by_a_strangers_path():
    registry = CollectorRegistry()

    async def handler(_request):
        return web.json_response({})

    await get(web.get("/pods/{name}", handler), path="/pods/a", registry=registry)
    labels = {"site": "test", "route": "/pods/{name}", "status": "200"}
    assert registry.get_sample_value("hamid_web_request_seconds_count", labels) == 1

    registry = CollectorRegistry()
    await get(web.get("/pods/{name}", handler), path="/wp-login.php", registry=registry)
    labels = {"site": "test", "route": "unknown", "status": "404"}
    assert registry.get_sample_value("hamid_web_request_seconds_count", labels) == 1
