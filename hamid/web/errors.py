"""What can go wrong while serving HTTP.

HamidError
├── Refusal             a route declines the call with a status of its own
└── CertificateError    a certificate, key or bundle cannot be used
"""

from __future__ import annotations

from hamid.errors import HamidError


class Refusal(HamidError):
    """A route declines a call: the status says in which way.

    Attributes:
        status: the HTTP status of the answer.
        closes_connection: whether a client that keeps connections alive must find another
            server, as when a replica no longer leads.
    """

    def __init__(
        self, message: str, *, hint: str, status: int, closes_connection: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.closes_connection = closes_connection


class CertificateError(HamidError):
    """A certificate, key or bundle cannot be used."""
