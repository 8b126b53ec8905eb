"""Bodies of requests and answers of the fake server: JSON, YAML, Status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import yaml
from aiohttp import web

from hamid.kube.errors import Invalid, TooManyRequests

if TYPE_CHECKING:
    from hamid.kube.errors import ApiError
    from hamid.kube.port import JsonObject


class MethodNotAllowed(Invalid):
    """That cannot be done with this resource."""

    code = 405
    reason = "MethodNotAllowed"


class UnsupportedMediaType(Invalid):
    """The body is of a type that the server does not read."""

    code = 415
    reason = "UnsupportedMediaType"


async def body_of(request: web.Request) -> JsonObject:
    """The object in the body, JSON or YAML; empty if there is none."""
    text = await request.read()
    if not text:
        return {}
    if "protobuf" in request.content_type:
        raise UnsupportedMediaType("this server reads JSON and YAML, not protobuf")
    try:
        body = yaml.safe_load(text) if "yaml" in request.content_type else orjson.loads(text)
    except (yaml.YAMLError, orjson.JSONDecodeError) as error:
        raise Invalid(f"the body cannot be read: {error}") from error
    if not isinstance(body, dict):
        raise Invalid("the body is no object")
    return body


def json_answer(value: Any, *, code: int = 200) -> web.Response:
    """The value as a response."""
    return web.Response(body=orjson.dumps(value), status=code, content_type="application/json")


def success(code: int) -> JsonObject:
    """The Status that says it was done."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": code,
    }


def refusal(error: ApiError) -> web.Response:
    """The error as a Status, with how long to wait if it says so."""
    status: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.code,
    }
    response = json_answer(status, code=error.code)
    retry_after_s = getattr(error, "retry_after_s", 0.0)
    if retry_after_s or isinstance(error, TooManyRequests):
        response.headers["Retry-After"] = str(round(retry_after_s))
    return response
