"""What can go wrong with the Kubernetes API, by what the caller can do about it.

    KubeError
    ├── Invalid            the object or call is wrong; repeating it is useless        400, 422
    ├── Unauthorized       the server does not know us                                 401
    ├── Forbidden          the server knows us and says no                             403
    ├── NotFound           no such object, or no such API                              404
    ├── AlreadyExists      an object of that name is there                             409
    ├── Conflict           the object changed, or a precondition does not hold         409
    ├── Gone               that resourceVersion is no longer known: list anew          410
    ├── TooManyRequests    come again after `retry_after_s`; nothing was done          429
    ├── Withheld           a guarded client may no longer write; nothing was sent       none
    └── Unavailable        no usable answer; it is unknown whether anything was done   5xx, none

Bodies of replies are quoted only when they are a Kubernetes Status, and cut to a thousand characters:
secrets and floods stay out of the logs.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar, Final

import orjson

from hamid.errors import KubeError

QUOTE_CHARS: Final = 1_000
"""Enough for a refusal by admission that names several fields."""

LONGEST_WAIT_S: Final = 300.0
"""More than that nobody is told to wait: whoever said so would have us give up."""


class ApiError(KubeError):
    """An answer of the API server that is an error; see the module for its children."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    default_hint: ClassVar[str] = "look at the API server's log"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or self.default_hint)


class Invalid(ApiError):
    """The object or the call is wrong."""

    code = 422
    reason = "Invalid"
    default_hint = "correct what the message names; repeating the call will not help"


class Unauthorized(ApiError):
    """The server does not accept our credentials."""

    code = 401
    reason = "Unauthorized"
    default_hint = "check that the token or client certificate is valid for this cluster"


class Forbidden(ApiError):
    """The server knows us and does not let us, or an admission plugin refused."""

    code = 403
    reason = "Forbidden"
    default_hint = "compare the ServiceAccount's RBAC with the chart's, and read who refused"


class NotFound(ApiError):
    """There is no such object, or the server lacks this API."""

    code = 404
    reason = "NotFound"
    default_hint = "it may have been deleted meanwhile; list again"


class AlreadyExists(ApiError):
    """There is an object of this name already."""

    code = 409
    reason = "AlreadyExists"
    default_hint = "read it and change it instead"


class Conflict(ApiError):
    """The object has changed since it was read, or a precondition does not hold."""

    code = 409
    reason = "Conflict"
    default_hint = "read the object again and decide anew"


class Gone(ApiError):
    """The resourceVersion is too old to go on from."""

    code = 410
    reason = "Expired"
    default_hint = "list again and watch from there"


class TooManyRequests(ApiError):
    """The server is busy, or an eviction would break a disruption budget. Nothing was done.

    Attributes:
        retry_after_s: how long the server asks to wait, five minutes at most; 0 when it did not say.
    """

    code = 429
    reason = "TooManyRequests"
    default_hint = "try again later"

    def __init__(
        self, message: str, *, hint: str | None = None, retry_after_s: float = 0.0
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class Unavailable(ApiError):
    """No usable answer: not reached, timed out, cut off, or an error of the server's own.

    Attributes:
        retry_after_s: how long the server asks to wait, five minutes at most; 0 when it did not say.
        is_answered: the server has ended the request, with an error of its own other than that
            of running out of time: a read that follows shows whether anything was done.
    """

    code = 503
    reason = "ServiceUnavailable"
    default_hint = "try again; if it lasts, check that the API server can be reached"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        retry_after_s: float = 0.0,
        is_answered: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s
        self.is_answered = is_answered


class Withheld(ApiError):
    """What guards the client said no at the last moment: nothing was sent."""

    code = 503
    reason = "Withheld"
    default_hint = "nothing has to be done: whoever may write now does it"


_BY_CODE: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
}


def error_for_reply(
    code: int, body: bytes, *, call: str, retry_after: str | None = None
) -> ApiError:
    """The error that says what this reply means.

    Args:
        code: the HTTP status.
        body: quoted only if it is a Status.
        call: what was asked, for the message, such as `get pods default/a`.
        retry_after: the header of that name.
    """
    status = status_in(body)
    if status is None:
        said = f"{_phrase(code)} with a body of {len(body)} bytes that is no Status"
        return error_for_status(code, {}, message=f"{call}: {said}", retry_after=retry_after)
    said = str(status.get("message") or status.get("reason") or _phrase(code))[:QUOTE_CHARS]
    return error_for_status(
        code, status, message=f"{call}: {code}: {said}", retry_after=retry_after
    )


def error_for_status(
    code: int, status: dict[str, Any], *, message: str, retry_after: str | None = None
) -> ApiError:
    """The error for a code and the Status that came with it."""
    if code == AlreadyExists.code and status.get("reason") == AlreadyExists.reason:
        return AlreadyExists(message)
    if known := _BY_CODE.get(code):
        return known(message)
    retry_after_s = _seconds(retry_after) or _seconds(_details(status).get("retryAfterSeconds"))
    if code == TooManyRequests.code:
        return TooManyRequests(message, retry_after_s=retry_after_s)
    if HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return Invalid(message)
    is_answered = code != HTTPStatus.GATEWAY_TIMEOUT
    return Unavailable(message, retry_after_s=retry_after_s, is_answered=is_answered)


def status_in(body: bytes) -> dict[str, Any] | None:
    """The Kubernetes Status that the body is, or None."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and value.get("kind") == "Status" else None


def _details(status: dict[str, Any]) -> dict[str, Any]:
    details = status.get("details")
    return details if isinstance(details, dict) else {}


def _phrase(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _seconds(value: Any) -> float:
    """Seconds from a header or field; the rarely used date form counts as not said."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(seconds, LONGEST_WAIT_S) if seconds > 0 else 0.0
