"""What a request to the fake says, what a list answers, and how a connection dies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hamid.kube.fake.faults import Attempt

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject, Resource


class Dropped(Exception):
    """The connection is to be cut without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a request is about, and who asks."""

    resource: Resource
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    caller: str = ""
    is_dry_run: bool = False

    def attempt(self, verb: str) -> Attempt:
        """The request as faults and counts see it."""
        label = self.resource.label
        return Attempt(
            verb=verb,
            resource=f"{label}/{self.subresource}" if self.subresource else label,
            namespace=self.namespace,
            name=self.name,
            caller=self.caller,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a collection is asked for.

    Attributes:
        is_streamed: a watch is to be the list, too (`sendInitialEvents`).
    """

    labels: str | None = None
    fields: str | None = None
    limit: int = 0
    continue_token: str = ""
    is_streamed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a list, as of a version."""

    items: list[JsonObject]
    version: int
    continue_token: str = ""
