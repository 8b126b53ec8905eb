"""Keeps us registered with the kubelet, whatever happens to it or to our socket.

The kubelet never comes back by itself: after its restart (which deletes our socket), and after
the loss of our device stream for any reason, the plugin has to register anew. Rules:

1. Serve first, then register: the kubelet calls us back before it answers Register.
2. One registration, one server, one socket file with a name of its own. A kubelet from 1.37 refuses
   a second registration under the name of a connection that it still holds, and then never lets go
   of that name; one before 1.37 may drop the new connection when it notices the end of the old one.
   The first cannot happen with fresh names, the second is a lost stream: register again.
3. What failed is tried again after a growing delay; a stream that held for a while resets it.
4. The kubelet that restarted is known by its socket (`grpc_unix.socket_identity`).
5. A container that has the directory mounted goes on seeing it after it was removed, and never what is
   made in its place: the daemon has to end, for a container that starts anew sees that.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.farewell import last_words
from hamid.aiokit.latest import Latest
from hamid.errors import KubeletError
from hamid.kubelet import v1beta1
from hamid.kubelet.constants import (
    API_VERSION,
    DEVICE_PLUGIN_DIRECTORY,
    DIAL_BACK_TIMEOUT_S,
    KUBELET_SOCKET_NAME,
)
from hamid.kubelet.errors import CallFailed, DirectoryGone, NotRegistered, SocketGone
from hamid.kubelet.grpc_unix import UnixClient, socket_identity
from hamid.kubelet.messages import DeviceListEncoder
from hamid.kubelet.metrics import unregistered
from hamid.kubelet.server import CallDeadlines, DevicePluginServer

if TYPE_CHECKING:
    from pathlib import Path

    from hamid.kubelet.grpc_unix import SocketIdentity
    from hamid.kubelet.metrics import KubeletMetrics
    from hamid.kubelet.port import DevicePluginHandler

log = structlog.get_logger(__name__)

_REGISTER_TIMEOUT_S: Final = DIAL_BACK_TIMEOUT_S + 2.0
_CLOSE_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Where we stand with the kubelet.

    Attributes:
        is_registered: the kubelet accepted us, and its device stream is open.
        reason: a sentence for a person.
        registered_count: how often the kubelet accepted us so far.
    """

    is_registered: bool
    reason: str
    registered_count: int = 0


@dataclass(slots=True, kw_only=True)
class _Session:
    """One server, and the kubelet with which it is registered."""

    server: DevicePluginServer
    kubelet: SocketIdentity
    registered_at: float


@dataclass(slots=True, kw_only=True)
class Registrar:
    """Service: serves the handler to the kubelet and keeps it registered.

    Attributes:
        directory: the kubelet's device plugin directory; another on k0s, k3s and MicroK8s.
        socket_prefix: how the names of our sockets begin; stale ones of ours are removed.
        poll_s: how often the sockets are looked at; a lost stream is noticed at once.
        stream_wait_s: how long after a registration the device stream may take to open, and how
            long it must hold to count as stable.
        registration: where we stand, for readiness and for whoever waits.
    """

    name: ClassVar[str] = "kubelet-registrar"

    handler: DevicePluginHandler
    resource_name: str
    directory: Path = DEVICE_PLUGIN_DIRECTORY
    socket_prefix: str = "hamid"
    deadlines: CallDeadlines = field(default_factory=CallDeadlines)
    poll_s: float = 1.0
    stream_wait_s: float = 10.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first_s=0.25, max_s=15.0))
    metrics: KubeletMetrics = field(default_factory=unregistered)
    registration: Latest[Registration] = field(init=False)
    _encoder: DeviceListEncoder = field(default_factory=DeviceListEncoder, init=False)
    _session: _Session | None = field(default=None, init=False)
    _not_before: float = field(default=0.0, init=False)
    _kubelet_seen: SocketIdentity | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.registration = Latest(Registration(is_registered=False, reason="not yet registered"))

    @property
    def kubelet_socket(self) -> Path:
        """The socket on which the kubelet takes registrations."""
        return self.directory / KUBELET_SOCKET_NAME

    async def run(self) -> None:
        """Serve and stay registered until cancelled."""
        self._remove_stale_sockets()
        try:
            while True:
                await self.step()
                await self._wait()
        finally:
            await last_words(
                self._close_session(), what="close the plugin's socket", timeout_s=_CLOSE_TIMEOUT_S
            )

    async def step(self) -> None:
        """Look at both sockets and the stream, and register if one of them says so.

        Raises:
            DirectoryGone: no kubelet will ever be seen in this directory.
        """
        now = asyncio.get_running_loop().time()
        kubelet = socket_identity(self.kubelet_socket)
        if kubelet != self._kubelet_seen:
            self._kubelet_seen = kubelet
            self.backoff.reset()
            self._not_before = now
        if kubelet is None:
            if not self._is_streaming():
                self._assert_directory()
                self._publish(is_registered=False, reason=f"no kubelet at {self.kubelet_socket}")
            return
        loss = self._loss(kubelet, now)
        if loss is not None:
            self._publish(is_registered=False, reason=loss)
            await self._close_session()
        if self._session is None and now >= self._not_before:
            await self._register(kubelet)
        elif self._is_streaming():
            self._publish(is_registered=True, reason="the kubelet holds our device stream")

    def _assert_directory(self) -> None:
        try:
            is_removed = self.directory.stat().st_nlink == 0
        except OSError:  # none yet
            return
        if is_removed:
            raise DirectoryGone(
                f"the folder {self.directory} was removed, and one made in its place is not seen here",
                hint="nothing, in a pod: the container starts again and finds that one",
            )

    def _is_streaming(self) -> bool:
        return self._session is not None and self._session.server.streams.get().open_count > 0

    def _loss(self, kubelet: SocketIdentity, now: float) -> str | None:
        """Return why the session is of no more use; None while it is, or there is none."""
        session = self._session
        if session is None:
            return None
        if kubelet != session.kubelet:
            return "the kubelet restarted"
        if not session.server.path.exists():
            return "our socket was removed"
        return self._stream_loss(session, now)

    def _stream_loss(self, session: _Session, now: float) -> str | None:
        streams = session.server.streams.get()
        is_stable = now - session.registered_at >= self.stream_wait_s
        if streams.open_count:
            if is_stable:
                self.backoff.reset()
            return None
        if streams.ended_count:
            if not is_stable:  # a stable one is worth an attempt at once
                self._not_before = now + self.backoff.next_delay_s()
            return "the kubelet closed our device stream"
        if is_stable:
            self._not_before = now + self.backoff.next_delay_s()
            return f"the kubelet opened no device stream within {self.stream_wait_s:g} s"
        return None

    async def _register(self, kubelet: SocketIdentity) -> None:
        server = DevicePluginServer(
            path=self.directory / f"{self.socket_prefix}-{secrets.token_hex(4)}.sock",
            handler=self.handler,
            deadlines=self.deadlines,
            encoder=self._encoder,
            metrics=self.metrics,
        )
        try:
            await server.open()
            await self._call_register(server.path.name)
        except KubeletError as error:
            self.metrics.registrations.labels(outcome="failed").inc()
            delay_s = self.backoff.next_delay_s()
            self._not_before = asyncio.get_running_loop().time() + delay_s
            self._publish(is_registered=False, reason=str(error))
            await server.close()
            return
        except BaseException:
            await last_words(server.close(), what="close the socket", timeout_s=_CLOSE_TIMEOUT_S)
            raise
        registered_at = asyncio.get_running_loop().time()
        self._session = _Session(server=server, kubelet=kubelet, registered_at=registered_at)
        self.metrics.registrations.labels(outcome="registered").inc()
        was = self.registration.get()
        is_streaming = server.streams.get().open_count > 0
        self._publish(
            is_registered=is_streaming,
            reason="registered" if is_streaming else "registered; no device stream yet",
            registered_count=was.registered_count + 1,
        )

    async def _call_register(self, socket_name: str) -> None:
        client = UnixClient(self.kubelet_socket, peer="the kubelet", timeout_s=_REGISTER_TIMEOUT_S)
        request = v1beta1.RegisterRequest(
            version=API_VERSION,
            endpoint=socket_name,
            resource_name=self.resource_name,
            # The kubelet asks for the options itself and ignores these; older ones are unclear.
            options=v1beta1.DevicePluginOptions(
                pre_start_required=True, get_preferred_allocation_available=True
            ),
        )
        try:
            await client.call(
                f"register {self.resource_name}",
                lambda channel: v1beta1.RegistrationStub(channel).register(request),
            )
        except SocketGone:
            raise
        except CallFailed as error:
            raise NotRegistered(error.message, hint=error.hint) from error
        finally:
            client.close()

    async def _wait(self) -> None:
        """Wait for the next look: a change of the stream, the end of a delay, or the poll."""
        if self._session is None:
            left_s = self._not_before - asyncio.get_running_loop().time()
            await asyncio.sleep(min(self.poll_s, left_s) if left_s > 0 else self.poll_s)
            return
        # `step` has judged this state without an await since, so no change is missed.
        streams = self._session.server.streams
        seen = streams.get()
        try:
            async with asyncio.timeout(self.poll_s):
                await streams.wait_for(lambda now: now != seen)
        except TimeoutError:
            return

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.server.close()

    def _remove_stale_sockets(self) -> None:
        # Left by a daemon that was killed; harmless, but they would pile up.
        for path in self.directory.glob(f"{self.socket_prefix}-*.sock"):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:  # whether a new one can be made there, registering says
                log.warning("stale socket stays", socket=str(path), reason=error.strerror)
            else:
                log.info("stale socket removed", socket=path.name)

    def _publish(
        self, *, is_registered: bool, reason: str, registered_count: int | None = None
    ) -> None:
        was = self.registration.get()
        count = was.registered_count if registered_count is None else registered_count
        now = Registration(is_registered=is_registered, reason=reason, registered_count=count)
        self.registration.publish(now)
        if count != was.registered_count:
            log.info("registered with the kubelet", resource=self.resource_name, count=count)
        elif not is_registered and reason != was.reason:
            log.warning(
                "not registered with the kubelet",
                resource=self.resource_name,
                reason=reason,
                failures=self.backoff.failures,
            )
