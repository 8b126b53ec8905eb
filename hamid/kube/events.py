"""Events (core/v1), which `kubectl describe` shows beside an object.

An event that happened once is created. One that goes on is kept: a single event object whose text is
the newest, as long as the API server keeps it (an hour as a rule); so that whoever looks sees one
line and no history of a thing that has only one present. One that cannot be written is logged and
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog

from hamid.errors import KubeError
from hamid.kube.errors import AlreadyExists, NotFound
from hamid.kube.port import EVENTS, PatchKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.kube.port import JsonObject, KubePort

log = structlog.get_logger(__name__)

COMPONENT: Final = "hamid"
LONGEST_MESSAGE: Final = 1_024
"""Bytes: more is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an event is about.

    Attributes:
        namespace: of the event; for an object without one, `default`.
    """

    kind: str
    name: str
    uid: str
    namespace: str
    is_namespaced: bool = True

    def reference(self) -> JsonObject:
        """The object, as an event names it."""
        found = {"kind": self.kind, "name": self.name, "uid": self.uid}
        return (
            found | {"apiVersion": "v1", "namespace": self.namespace}
            if self.is_namespaced
            else found
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWriter:
    """Writes warnings.

    Args:
        clock: seconds since the epoch.
        host: the node on which this process runs.
    """

    kube: KubePort
    clock: Callable[[], float]
    host: str

    async def warn(self, subject: Subject, *, reason: str, message: str) -> None:
        """Write one warning of something that happened once."""
        body = self._body(subject, reason, message)
        body["metadata"] = {"generateName": f"{subject.name}.", "namespace": subject.namespace}
        try:
            await self.kube.create(EVENTS, body, namespace=subject.namespace)
        except KubeError as error:
            log.warning("event not written", reason=reason, error=str(error))

    async def keep(
        self, subject: Subject, *, name: str, reason: str, message: str, is_first: bool
    ) -> bool:
        """Let this be what the event of that name says.

        Args:
            subject: what it is about.
            name: of the event.
            reason: one word for machines.
            message: for people.
            is_first: that there is no such event yet is more likely than that there is one.

        Returns:
            Whether it was written.
        """
        body = self._body(subject, reason, message)
        try:
            if is_first:
                await self._create_kept(subject, name, body)
            else:
                await self._patch_kept(subject, name, body)
        except KubeError as error:
            log.warning("event not written", reason=reason, error=str(error))
            return False
        return True

    async def _create_kept(self, subject: Subject, name: str, body: JsonObject) -> None:
        meta = {"name": name, "namespace": subject.namespace}
        try:
            await self.kube.create(EVENTS, {**body, "metadata": meta}, namespace=subject.namespace)
        except AlreadyExists:  # by the replica that led before
            await self._patch(subject, name, body)

    async def _patch_kept(self, subject: Subject, name: str, body: JsonObject) -> None:
        try:
            await self._patch(subject, name, body)
        except NotFound:  # its time was over
            await self._create_kept(subject, name, body)

    async def _patch(self, subject: Subject, name: str, body: JsonObject) -> None:
        news = {key: body[key] for key in ("message", "lastTimestamp")}
        await self.kube.patch(EVENTS, name, news, kind=PatchKind.MERGE, namespace=subject.namespace)

    def _body(self, subject: Subject, reason: str, message: str) -> JsonObject:
        at = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": subject.reference(),
            "reason": reason,
            "message": cut(message),
            "type": "Warning",
            "source": {"component": COMPONENT, "host": self.host},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }


def cut(message: str) -> str:
    """As much of the message as an event can hold."""
    raw = message.encode()
    if len(raw) <= LONGEST_MESSAGE:
        return message
    ending = "…"
    return raw[: LONGEST_MESSAGE - len(ending.encode())].decode(errors="ignore") + ending
