"""The kubelet's side of registered plugins: dial back, options, device stream, calls.

Two generations of bookkeeping, by switch, for plugins trip over the difference:

- by socket (from 1.37): a second registration under a socket that is still connected is refused,
  and then the kubelet never notices that the first one ends;
- by name (before): the end of an old stream disconnects whoever is registered by then.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import structlog
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from hamid.kubelet import v1beta1
from hamid.kubelet.fake.books import AllocationRefused
from hamid.kubelet.messages import decode_devices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from hamid.aiokit.services import Background
    from hamid.kubelet.port import AdvertisedDevice

T = TypeVar("T")

log = structlog.get_logger(__name__)

_DIAL_PAUSE_S: Final = 0.05

_GO_STATUS_NAMES: Final = {
    Status.DEADLINE_EXCEEDED: "DeadlineExceeded",
    Status.FAILED_PRECONDITION: "FailedPrecondition",
    Status.INTERNAL: "Internal",
    Status.UNAVAILABLE: "Unavailable",
    Status.UNIMPLEMENTED: "Unimplemented",
    Status.UNKNOWN: "Unknown",
}


@dataclass(slots=True, kw_only=True, eq=False)
class Plugin:
    """One connection to one plugin."""

    resource_name: str
    path: Path
    channel: Channel
    options: v1beta1.DevicePluginOptions = field(default_factory=v1beta1.DevicePluginOptions)
    is_stopped: bool = False
    is_forgotten: bool = False

    @property
    def stub(self) -> v1beta1.DevicePluginStub:
        """The calls of the plugin; refused once it has gone."""
        if self.is_stopped:
            raise AllocationRefused(f"endpoint {self.path} has been stopped")
        return v1beta1.DevicePluginStub(self.channel)


@dataclass(slots=True, kw_only=True)
class Plugins:
    """All registered plugins."""

    background: Background
    on_devices: Callable[[str, tuple[AdvertisedDevice, ...]], None]
    on_gone: Callable[[str], None]
    dial_timeout_s: float
    is_keyed_by_socket: bool
    opens_streams: bool = True
    active: dict[str, Plugin] = field(default_factory=dict)
    _connected: dict[tuple[str, Path], Plugin] = field(default_factory=dict)

    async def connect(self, resource_name: str, path: Path) -> None:
        """Connect to a plugin that registers; raises `GRPCError` as Register's answer."""
        plugin = Plugin(resource_name=resource_name, path=path, channel=Channel(path=str(path)))
        try:
            plugin.options = await self._dial(plugin)
        except (TimeoutError, OSError, StreamTerminatedError, GRPCError) as error:
            plugin.channel.close()
            reason = f"failed to dial device plugin {path}: {error!r}"
            raise GRPCError(Status.UNKNOWN, reason) from error
        key = (resource_name, path)
        if self.is_keyed_by_socket and key in self._connected:
            plugin.channel.close()
            self._connected[key].is_forgotten = True  # its end will not be noticed any more
            raise GRPCError(Status.UNKNOWN, f"device plugin already connected: {path}")
        self._connected[key] = plugin
        self.active[resource_name] = plugin
        if self.opens_streams:
            self.background.start(self._follow(plugin), name=f"fake-kubelet-stream-{path.name}")

    async def _dial(self, plugin: Plugin) -> v1beta1.DevicePluginOptions:
        async with asyncio.timeout(self.dial_timeout_s):
            while True:
                try:
                    return await plugin.stub.get_device_plugin_options(v1beta1.Empty())
                except OSError:
                    await asyncio.sleep(_DIAL_PAUSE_S)

    async def _follow(self, plugin: Plugin) -> None:
        try:
            async for message in plugin.stub.list_and_watch(v1beta1.Empty()):
                self.on_devices(plugin.resource_name, decode_devices(message))
        except (GRPCError, StreamTerminatedError, OSError) as error:
            log.debug("fake kubelet lost a stream", socket=plugin.path.name, error=repr(error))
        finally:
            plugin.channel.close()
        if plugin.is_stopped or plugin.is_forgotten:
            return
        lost = plugin if self.is_keyed_by_socket else self.active.get(plugin.resource_name)
        if lost is not None:
            self._disconnect(lost)

    def _disconnect(self, plugin: Plugin) -> None:
        plugin.is_stopped = True
        plugin.channel.close()
        self._connected.pop((plugin.resource_name, plugin.path), None)
        others = [p for p in self._connected.values() if p.resource_name == plugin.resource_name]
        if self.active.get(plugin.resource_name) is not plugin:
            return
        if others and self.is_keyed_by_socket:
            self.active[plugin.resource_name] = others[0]
            return
        self.on_gone(plugin.resource_name)

    def lose(self, socket_name: str) -> None:
        """Lose the connections to one socket."""
        for plugin in tuple(self._connected.values()):
            if plugin.path.name == socket_name:
                self._disconnect(plugin)

    def drop_streams(self) -> None:
        """Lose every connection, as after an error on them."""
        for plugin in tuple(self._connected.values()):
            self._disconnect(plugin)

    def close(self) -> None:
        """Forget all plugins, without a word: the kubelet has stopped."""
        for plugin in self._connected.values():
            plugin.is_stopped = True
            plugin.channel.close()
        self._connected.clear()
        self.active.clear()


async def answer_of(call: Awaitable[T]) -> T:
    """Return the plugin's answer; raises `AllocationRefused` in the words of Go's gRPC."""
    try:
        return await call
    except GRPCError as error:
        code = _GO_STATUS_NAMES.get(error.status, error.status.name)
        raise AllocationRefused(f"rpc error: code = {code} desc = {error.message}") from error
    except TimeoutError as error:  # an OSError, too: so it comes first
        raise AllocationRefused(
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        ) from error
    except (OSError, StreamTerminatedError) as error:
        raise AllocationRefused(f"rpc error: code = Unavailable desc = {error}") from error
