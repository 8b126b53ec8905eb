from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from hamid.errors import KubeError
from hamid.kube import errors
from hamid.kube.errors import error_for_reply

if TYPE_CHECKING:
    from hamid.kube.errors import ApiError


def status(code: int, reason: str = "", message: str = "said", **details: object) -> bytes:
    return orjson.dumps(
        {
            "kind": "Status",
            "code": code,
            "reason": reason,
            "message": message,
            "details": details,
        }
    )


@pytest.mark.parametrize(
    ("code", "reason", "wanted"),
    [
        (400, "BadRequest", errors.Invalid),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.Invalid),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.Unavailable),
        (503, "ServiceUnavailable", errors.Unavailable),
        (504, "Timeout", errors.Unavailable),
        (301, "", errors.Unavailable),
        (599, "", errors.Unavailable),
    ],
)
def test_the_code_says_which_error_it_is(code: int, reason: str, wanted: type[ApiError]) -> None:
    error = error_for_reply(code, status(code, reason), call="get /x")

    assert type(error) is wanted
    assert isinstance(error, KubeError)
    assert error.hint
    assert error.message == f"get /x: {code}: said"


def test_a_status_is_quoted_to_a_thousand_characters() -> None:
    error = error_for_reply(403, status(403, message="x" * 2_000), call="get /x")

    assert error.message == "get /x: 403: " + "x" * 1_000


@pytest.mark.parametrize("body", [b"<html>secret</html>", b'{"kind": "Secret"}', b"", b"[1]"])
def test_a_body_that_is_no_status_is_not_quoted(body: bytes) -> None:
    error = error_for_reply(502, body, call="get /x")

    assert "ecret" not in error.message
    assert "502 Bad Gateway" in error.message
    assert f"{len(body)} bytes" in error.message


@pytest.mark.parametrize(
    ("header", "details", "wanted_s"),
    [
        ("7", {}, 7.0),
        (None, {"retryAfterSeconds": 3}, 3.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, 0.0),
        ("-5", {}, 0.0),
        ("nan", {}, 0.0),
        ("inf", {}, 300.0),
        ("86400", {}, 300.0),
        (None, {"retryAfterSeconds": 10**9}, 300.0),
        (None, {}, 0.0),
    ],
)
def test_how_long_to_wait_is_kept(
    header: str | None, details: dict[str, int], wanted_s: float
) -> None:
    error = error_for_reply(429, status(429, **details), call="get /x", retry_after=header)

    assert isinstance(error, errors.TooManyRequests)
    assert error.retry_after_s == wanted_s
