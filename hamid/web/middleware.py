"""What every request passes through: the deadline, the clock, and errors made into JSON.

Which status an error becomes is decided here and nowhere else:

    WireError, RequestError       400   the caller sent something wrong
    Refusal                       its own
    an API server's conflict      409   (told by its code: this room does not know Kubernetes)
    any other HamidError          500
    aiohttp's own (404, 405, 413) kept
    a body that does not arrive   400
    a request out of time         503
    anything else                 500   logged with its traceback, which the caller never sees
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from prometheus_client import Histogram

from hamid.errors import HamidError, RequestError, WireError
from hamid.web.errors import Refusal
from hamid.web.responses import problem, problem_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.typedefs import Handler, Middleware
    from prometheus_client import CollectorRegistry

log = structlog.get_logger(__name__)

_HINTS = {
    HTTPStatus.NOT_FOUND: "compare the path with those in the documentation",
    HTTPStatus.METHOD_NOT_ALLOWED: "use the method that the Allow header names",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "send less, or raise the body limit in the settings",
}


class RequestMetrics:
    """How long requests take, by site, route and status; one per process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "hamid_web_request_seconds",
            "Time from a request's headers to the answer.",
            ("site", "route", "status"),
            registry=registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )

    def observe(self, *, site: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._seconds.labels(site, route, str(status)).observe(seconds)


def timing(metrics: RequestMetrics, *, site: str, clock: Callable[[], float]) -> Middleware:
    """Measures requests; goes outermost, so that it sees the final status."""

    @web.middleware
    async def measure(request: web.Request, handler: Handler) -> web.StreamResponse:
        began_at = clock()
        response = await handler(request)
        metrics.observe(
            site=site,
            route=route_of(request),
            status=response.status,
            seconds=clock() - began_at,
        )
        return response

    return measure


def errors_as_json(*, site: str, deadline_s: float) -> Middleware:
    """Bounds the time of a request and turns what it raises into an answer."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await _within(handler(request), deadline_s=deadline_s)
        except HamidError as error:
            return answer_to(error)
        except web.HTTPException as error:
            return _answer_to_http(error)
        except (web.RequestPayloadError, ConnectionError) as error:
            # The caller's connection: what goes wrong with others, ports tell in our words.
            return problem(
                HTTPStatus.BAD_REQUEST,
                message=f"the body cannot be read: {error}",
                hint="send it whole, and in the encoding that its headers name",
                closes_connection=True,
            )
        except Exception:
            log.exception(
                "request failed",
                site=site,
                route=route_of(request),
                hint="this is a bug of hamid: please report the traceback",
            )
            return problem(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                message="something went wrong that should not have",
                hint="look for 'request failed' in the log of hamid",
            )

    return answer


def answer_to(error: HamidError) -> web.Response:
    """The answer that one of our own errors becomes."""
    match error:
        case Refusal(status=status, closes_connection=closes):
            return problem_of(error, status=status, closes_connection=closes)
        case WireError() | RequestError():
            return problem_of(error, status=HTTPStatus.BAD_REQUEST)
        case _ if getattr(error, "code", None) == HTTPStatus.CONFLICT:
            return problem_of(error, status=HTTPStatus.CONFLICT)
        case _:
            log.warning("request failed", error=error.message, hint=error.hint)
            return problem_of(error, status=HTTPStatus.INTERNAL_SERVER_ERROR)


def route_of(request: web.Request) -> str:
    """The route's pattern as a bounded label: never the path that a stranger typed."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"


async def _within(
    answer: Awaitable[web.StreamResponse], *, deadline_s: float
) -> web.StreamResponse:
    try:
        async with asyncio.timeout(deadline_s):
            return await answer
    except TimeoutError as error:
        raise Refusal(
            f"the request was not answered within {deadline_s:g} s",
            hint="try again; if it lasts, look for slow calls in hamid's metrics",
            status=HTTPStatus.SERVICE_UNAVAILABLE,
            closes_connection=True,
        ) from error


def _answer_to_http(error: web.HTTPException) -> web.StreamResponse:
    if error.status < HTTPStatus.BAD_REQUEST:
        raise error
    response = problem(
        error.status,
        message=error.text or error.reason,
        hint=_HINTS.get(HTTPStatus(error.status), "correct the request"),
    )
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
