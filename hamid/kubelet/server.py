"""Our device plugin, served to the kubelet on one unix socket.

One server is one socket file and, at most, one registration (see `registration` for why). It turns
messages into the port's values and back, puts a deadline on each call, and says in words why a
call failed: the kubelet copies those words into the pod's status.

Rules:

1. Each call ends within its deadline. The kubelet sets none on Allocate and
   GetPreferredAllocation, and admits no pod of the node until they return.
2. Nothing but a `GRPCError` leaves a call: grpclib would say "Internal Server Error" for the rest.
3. `streams` tells how many ListAndWatch streams are open and how many have ended. The kubelet
   never opens a lost one again; someone has to register anew.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from hamid.aiokit.latest import Latest
from hamid.errors import HamidError
from hamid.kubelet import v1beta1
from hamid.kubelet.grpc_unix import UnixServer
from hamid.kubelet.messages import (
    DeviceListEncoder,
    EncodedDeviceList,
    decode_preferred_request,
    encode_grant,
)
from hamid.kubelet.metrics import unregistered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grpclib.server import Stream

    from hamid.kubelet.metrics import KubeletMetrics
    from hamid.kubelet.port import DevicePluginHandler

log = structlog.get_logger(__name__)

_LIST_AND_WATCH: Final = "/v1beta1.DevicePlugin/ListAndWatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDeadlines:
    """How long each call of the kubelet may take us.

    Attributes:
        allocate_s: all admissions of the node wait for this one; so for `preferred_s`.
        pre_start_s: under the kubelet's own 30 s, so that the reason is ours and readable.
    """

    preferred_s: float = 2.5
    allocate_s: float = 2.5
    pre_start_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The ListAndWatch streams of one server."""

    open_count: int = 0
    ended_count: int = 0


@dataclass(slots=True, kw_only=True)
class DevicePluginServer:
    """Serves the handler on one socket, from `open` to `close`."""

    path: Path
    handler: DevicePluginHandler
    deadlines: CallDeadlines = field(default_factory=CallDeadlines)
    encoder: DeviceListEncoder = field(default_factory=DeviceListEncoder)
    metrics: KubeletMetrics = field(default_factory=unregistered)
    streams: Latest[Streams] = field(default_factory=lambda: Latest(Streams()), init=False)
    _server: UnixServer | None = field(default=None, init=False)

    async def open(self) -> None:
        """Begin to serve; raises `CannotListen`."""
        self._server = await UnixServer.open(self.path, [_Calls(self)])

    async def close(self) -> None:
        """Stop serving: the kubelet's connection is dropped, the socket file removed."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()
            server.unlink()

    @asynccontextmanager
    async def streaming(self) -> AsyncIterator[None]:
        """Count one stream for as long as the block lasts."""
        before = self.streams.get()
        self.streams.publish(replace(before, open_count=before.open_count + 1))
        try:
            yield
        finally:
            now = self.streams.get()
            self.streams.publish(
                Streams(open_count=now.open_count - 1, ended_count=now.ended_count + 1)
            )
            log.info("device stream ended", socket=self.path.name)

    @asynccontextmanager
    async def bounded(self, call: str, deadline_s: float) -> AsyncIterator[None]:
        """Give the block its deadline, and its failures words and a status."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        outcome = "fault"
        try:
            async with asyncio.timeout(deadline_s):
                yield
            outcome = "ok"
        except TimeoutError as error:
            outcome = "late"
            log.error("kubelet call was late", call=call, deadline_s=deadline_s)  # noqa: TRY400
            raise GRPCError(
                Status.DEADLINE_EXCEEDED,
                f"hamid had no answer to {call} within {deadline_s:g} s"
                " (see the log of hamid's daemon on this node)",
            ) from error
        except HamidError as error:
            outcome = "refused"
            log.warning("kubelet call refused", call=call, reason=error.message, hint=error.hint)
            raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from error
        except Exception as error:
            log.exception("kubelet call failed", call=call)
            raise GRPCError(
                Status.INTERNAL,
                f"hamid failed in {call}: {type(error).__name__}: {error}"
                " (a bug; see the log of hamid's daemon on this node)",
            ) from error
        finally:
            duration_s = loop.time() - began_at
            self.metrics.call_seconds.labels(call=call, outcome=outcome).observe(duration_s)


class _Calls(v1beta1.DevicePluginBase):
    """The service as grpclib wants it."""

    def __init__(self, plugin: DevicePluginServer) -> None:
        self._plugin = plugin

    async def get_device_plugin_options(
        self,
        message: v1beta1.Empty,  # noqa: ARG002 - the service's signature
    ) -> v1beta1.DevicePluginOptions:
        return v1beta1.DevicePluginOptions(
            pre_start_required=True, get_preferred_allocation_available=True
        )

    async def get_preferred_allocation(
        self, message: v1beta1.PreferredAllocationRequest
    ) -> v1beta1.PreferredAllocationResponse:
        plugin = self._plugin
        response = v1beta1.PreferredAllocationResponse()
        async with plugin.bounded("GetPreferredAllocation", plugin.deadlines.preferred_s):
            for request in message.container_requests:
                asked = decode_preferred_request(request)
                slot_ids = await plugin.handler.preferred_allocation(asked)
                response.container_responses.append(
                    v1beta1.ContainerPreferredAllocationResponse(device_i_ds=list(slot_ids))
                )
        return response

    async def allocate(self, message: v1beta1.AllocateRequest) -> v1beta1.AllocateResponse:
        plugin = self._plugin
        response = v1beta1.AllocateResponse()
        async with plugin.bounded("Allocate", plugin.deadlines.allocate_s):
            for request in message.container_requests:
                grant = await plugin.handler.allocate(tuple(request.devices_ids))
                response.container_responses.append(encode_grant(grant))
        return response

    async def pre_start_container(
        self, message: v1beta1.PreStartContainerRequest
    ) -> v1beta1.PreStartContainerResponse:
        plugin = self._plugin
        async with plugin.bounded("PreStartContainer", plugin.deadlines.pre_start_s):
            await plugin.handler.pre_start(tuple(message.devices_ids))
        return v1beta1.PreStartContainerResponse()

    async def _stream_devices(self, stream: Stream[v1beta1.Empty, EncodedDeviceList]) -> None:
        plugin = self._plugin
        await stream.recv_message()
        async with plugin.streaming():
            async for devices in plugin.handler.devices.changes():
                try:
                    encoded = plugin.encoder.encode(devices)
                except HamidError as error:
                    log.error("device list refused", reason=error.message, hint=error.hint)  # noqa: TRY400
                    raise GRPCError(Status.RESOURCE_EXHAUSTED, str(error)) from error
                await stream.send_message(encoded)
                log.info("devices advertised", slot_count=len(devices), bytes=len(encoded))

    def __mapping__(self) -> dict[str, Handler]:
        # The stream sends bytes that are encoded already, which the generated handler cannot.
        mapping: dict[str, Handler] = super().__mapping__()
        mapping[_LIST_AND_WATCH] = Handler(
            self._stream_devices, Cardinality.UNARY_STREAM, v1beta1.Empty, EncodedDeviceList
        )
        return mapping
