"""Answers as JSON: values by orjson, and problems with a message and what to do about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

if TYPE_CHECKING:
    from hamid.errors import HamidError

JSON = "application/json"


def json_response(
    value: Any, *, status: int = 200, closes_connection: bool = False
) -> web.Response:
    """The value as a JSON answer."""
    return json_body(orjson.dumps(value), status=status, closes_connection=closes_connection)


def json_body(body: bytes, *, status: int = 200, closes_connection: bool = False) -> web.Response:
    """An answer whose JSON is encoded already."""
    response = web.Response(body=body, status=status, content_type=JSON)
    if closes_connection:
        response.force_close()
    return response


def problem(
    status: int, *, message: str, hint: str, closes_connection: bool = False
) -> web.Response:
    """The answer to a call that failed: what was wrong, and what to do."""
    value = {"message": message, "hint": hint}
    return json_response(value, status=status, closes_connection=closes_connection)


def problem_of(error: HamidError, *, status: int, closes_connection: bool = False) -> web.Response:
    """The answer that an error of ours becomes."""
    return problem(
        status, message=error.message, hint=error.hint, closes_connection=closes_connection
    )
