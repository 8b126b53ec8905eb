"""What the operator may choose about serving HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from hamid.errors import require_above_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Bounds on what a client may cost us.

    Attributes:
        body_limit_bytes: the largest request body. The API server stores objects of up to
            about 3 MiB, and a review of an update holds two of them.
        deadline_s: how long one request may take, from its headers to our answer. The API
            server gives a webhook at most 30 s.
        connection_limit: how many connections each address (webhook, extender, status) holds; beyond it
            those that have been idle longest are closed.
        drain_s: how long requests that are being served may go on while we stop.
    """

    body_limit_bytes: int = 8 * 1024 * 1024
    deadline_s: float = 30.0
    connection_limit: int = 1500
    drain_s: float = 5.0

    def __post_init__(self) -> None:
        require_above_zero(self, "body_limit_bytes", "deadline_s", "connection_limit")
