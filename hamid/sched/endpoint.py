"""Leader-only service: leads the extender's Service to this replica.

The Service has no selector; whoever leads writes the one EndpointSlice that it has. So
kube-scheduler reaches the leader without anybody patching labels of pods. The slice belongs to the
Service, and goes with it when hamid is uninstalled. Where the API server lacks EndpointSlices of
version 1 (before 1.21), the Service's Endpoints are written instead, which the server mirrors and
takes away with the Service; later such left-overs are taken away.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.codec.endpoints import (
    encode_endpoints,
    encode_slice,
    is_ours,
    is_owned,
    owner_reference,
    says_the_same,
)
from hamid.errors import KubeError
from hamid.kube.errors import AlreadyExists, Forbidden, NotFound
from hamid.kube.port import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from hamid.sched.trouble import Trouble

if TYPE_CHECKING:
    from hamid.codec.endpoints import ServerAddress
    from hamid.kube.port import JsonObject, KubePort, Resource
    from hamid.sched.leader_settings import EndpointSettings
    from hamid.sched.leadership import Leadership

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class LeaderEndpoint:
    """Keeps the Service leading here for as long as this replica leads."""

    kube: KubePort
    leadership: Leadership
    server: ServerAddress
    settings: EndpointSettings
    name: str = "leader-endpoint"
    _has_slices: bool | None = field(default=None, init=False)
    _trouble: Trouble = field(
        default_factory=lambda: Trouble(
            "leader endpoint not published", "leader endpoint published again"
        ),
        init=False,
    )

    async def run(self) -> None:
        """Publish, and look again now and then whether it still stands, until cancelled."""
        while True:  # noqa: ASYNC110 - each step says when the next is due
            await asyncio.sleep(await self.step())

    async def step(self) -> float:
        """Make sure once; returns how long to wait before the next time."""
        try:
            await self._publish()
        except KubeError as error:
            return self._trouble.begin(error)
        self._trouble.end()
        return self.settings.interval_s

    async def _publish(self) -> None:
        settings = self.settings
        if self._has_slices is None:
            self._has_slices = await self.kube.serves(ENDPOINT_SLICES)
            if self._has_slices:
                await self._remove_endpoints()
            else:
                log.info(
                    "endpoint slices missing",
                    hint="this API server is older than 1.21; Endpoints are written instead",
                )
        if self._has_slices:
            wanted = encode_slice(
                self.server,
                namespace=settings.namespace,
                name=settings.service_name,
                service_name=settings.service_name,
            )
            await self._ensure_slice(wanted)
        else:
            wanted = encode_endpoints(
                self.server, namespace=settings.namespace, service_name=settings.service_name
            )
            await self._ensure(ENDPOINTS, wanted)

    async def _ensure_slice(self, wanted: JsonObject) -> None:
        name = self.settings.service_name
        found = await self._find(ENDPOINT_SLICES, name)
        if (
            found is not None
            and is_owned(found, service_name=name)
            and says_the_same(found, wanted)
        ):
            return
        try:
            service = await self.kube.get(SERVICES, name, namespace=self.settings.namespace)
        except Forbidden:
            pass  # a chart of before; the slice then stays when the Service goes
        else:
            wanted["metadata"]["ownerReferences"] = [owner_reference(service)]
        await self._ensure(ENDPOINT_SLICES, wanted)

    async def _ensure(self, resource: Resource, wanted: JsonObject) -> None:
        found = await self._find(resource, wanted["metadata"]["name"])
        if found is not None and says_the_same(found, wanted):
            return
        if not self.leadership.may_act():
            return
        if found is not None and found.get("addressType") != wanted.get("addressType"):
            await self._delete(resource, found)  # the family of a slice cannot be changed
            found = None
        try:
            await self._write(resource, wanted, found)
        except AlreadyExists:
            return  # the next step looks at what another wrote
        log.info(
            "leader endpoint published",
            resource=resource.label,
            address=self.server.address,
            port=self.server.port,
        )

    async def _write(
        self, resource: Resource, wanted: JsonObject, found: JsonObject | None
    ) -> None:
        if found is None:
            await self.kube.create(resource, wanted, namespace=self.settings.namespace)
            return
        meta = {**found["metadata"], **wanted["metadata"]}
        await self.kube.replace(resource, {**wanted, "metadata": meta})

    async def _remove_endpoints(self) -> None:
        """Take away what a leader wrote when the API server was older: it would be mirrored."""
        try:
            found = await self._find(ENDPOINTS, self.settings.service_name)
        except Forbidden:
            return
        if found is not None and is_ours(found) and self.leadership.may_act():
            await self._delete(ENDPOINTS, found)

    async def _find(self, resource: Resource, name: str) -> JsonObject | None:
        try:
            return await self.kube.get(resource, name, namespace=self.settings.namespace)
        except NotFound:
            return None

    async def _delete(self, resource: Resource, found: JsonObject) -> None:
        meta = found["metadata"]
        try:
            await self.kube.delete(
                resource, meta["name"], namespace=self.settings.namespace, uid=meta.get("uid")
            )
        except NotFound:
            return
