"""Who makes and replaces the certificates, and how each replica comes by them.

The leader keeps three things right: the Secret that all replicas serve with, the Secret that
kube-scheduler shows to the extender, and the `caBundle` of the webhook. Every replica, leading or
not, reads the first of them when it starts, and again when the lease says that the leader serves
with something else. What is right is decided in `tls_state`.

Invariants:

1. The leader writes only while it may act, and to the first Secret only over the version that it
   read: of two that take themselves for the leader, one prevails.
2. A new client certificate is handed to kube-scheduler only once the Secret names its authority and
   the leader accepts it: kube-scheduler asks nobody else, and whoever leads next reads the Secret
   at once. It takes a changed file into use with its next connection.
3. Private keys are in no log and no error.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.codec.secret import bundle_patch, decode_secret, encode_secret
from hamid.errors import KubeError, WireError
from hamid.kube.errors import NotFound
from hamid.kube.port import MUTATING_WEBHOOKS, SECRETS, PatchKind
from hamid.sched import tls_state as tls
from hamid.sched.trouble import Trouble
from hamid.web.errors import CertificateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hamid.aiokit.latest import Latest
    from hamid.kube.port import JsonObject, KubePort
    from hamid.sched.certificate_settings import CertificateSettings
    from hamid.sched.leadership import Leadership
    from hamid.sched.tls_state import NewClient, TlsState
    from hamid.web.certs import ServerTls

log = structlog.get_logger(__name__)

FIRST_READ_PATIENCE = 6
"""So many times a new replica looks for a certificate before it says that something is wrong: for
about half a minute. On a new cluster, the leader has to be found and to make it first."""

CALM_S = 300.0
"""How long whoever serves already waits before it reads again what could not be read."""


@dataclass(slots=True, kw_only=True)
class CertificateKeeper:
    """Leader-only service: keeps Secrets and `caBundle` right, and serves with them at once.

    Attributes:
        targets: the TLS of each site of this replica.
        announce: tells all replicas the fingerprint of what the leader serves with.
        wall_clock: seconds since 1970; certificates are judged by it.
    """

    kube: KubePort
    leadership: Leadership
    settings: CertificateSettings
    targets: Sequence[ServerTls]
    announce: Callable[[str], None]
    wall_clock: Callable[[], float]
    name: str = "certificate-keeper"
    _pending: NewClient | None = field(default=None, init=False, repr=False)
    _lacks_webhook: bool = field(default=False, init=False)
    _trouble: Trouble = field(
        default_factory=lambda: Trouble("certificates not kept", "certificates kept again"),
        init=False,
    )

    async def run(self) -> None:
        """Look and repair until cancelled."""
        while True:  # noqa: ASYNC110 - each step says when the next is due
            await asyncio.sleep(await self.step())

    async def step(self) -> float:
        """Look and repair once; returns how long to wait before the next time."""
        if not self.leadership.may_act():
            return self.settings.interval_s
        try:
            state = await self._keep_secrets()
            if self.leadership.may_act():
                await self._keep_bundle(state)
        except (KubeError, WireError, CertificateError) as error:
            return self._trouble.begin(error)
        self._trouble.end()
        return self.settings.interval_s

    async def _keep_secrets(self) -> TlsState:
        now_s = self.wall_clock()
        secret = await self._read()
        found = tls.decode_state(decode_secret(secret or {}))
        state = tls.with_servers_due(found, settings=self.settings, now_s=now_s)
        if tls.is_client_due(state, now_s=now_s):
            if self._pending is None:
                self._pending = tls.make_client(settings=self.settings, now_s=now_s)
            state = tls.with_client_announced(state, self._pending, now_s=now_s)
        else:
            self._pending = None
        if state != found:
            secret = await self._write(secret, state)
            self._say_changes(found, state)
        self.announce(_serve_with(state, self.targets, secret=self.settings.tls_secret))
        if self._pending is not None and self.leadership.may_act():
            state = await self._deliver(self._pending, secret, state)
        return state

    async def _deliver(
        self, client: NewClient, secret: JsonObject | None, state: TlsState
    ) -> TlsState:
        settings = self.settings
        values = {
            "ca.crt": state.server_bundle_pem,
            "tls.crt": client.credential.certificate_pem,
            "tls.key": client.credential.key_pem,
        }
        body = encode_secret(values, namespace=settings.namespace, name=settings.client_secret)
        try:
            await self.kube.replace(SECRETS, body)
        except NotFound:
            await self.kube.create(SECRETS, body, namespace=settings.namespace)
        delivered = tls.with_client_delivered(state, client)
        await self._write(secret, delivered)
        self._pending = None
        log.info("client certificate delivered", secret=settings.client_secret)
        return delivered

    async def _read(self) -> JsonObject | None:
        settings = self.settings
        try:
            return await self.kube.get(SECRETS, settings.tls_secret, namespace=settings.namespace)
        except NotFound:
            return None

    async def _write(self, secret: JsonObject | None, state: TlsState) -> JsonObject:
        settings = self.settings
        body = encode_secret(
            tls.encode_state(state),
            namespace=settings.namespace,
            name=settings.tls_secret,
            base=secret,
        )
        if secret is None:
            return await self.kube.create(SECRETS, body, namespace=settings.namespace)
        return await self.kube.replace(SECRETS, body)

    async def _keep_bundle(self, state: TlsState) -> None:
        name = self.settings.webhook_configuration
        try:
            configuration = await self.kube.get(MUTATING_WEBHOOKS, name)
        except NotFound:
            if not self._lacks_webhook:
                log.warning(
                    "webhook configuration missing",
                    name=name,
                    hint="pods are not admitted by hamid; install the chart's webhook",
                )
            self._lacks_webhook = True
            return
        self._lacks_webhook = False
        patch = bundle_patch(configuration, state.server_bundle_pem)
        if patch and self.leadership.may_act():
            await self.kube.patch(MUTATING_WEBHOOKS, name, patch, kind=PatchKind.JSON)
            log.info("webhook trusted", name=name)

    def _say_changes(self, before: TlsState, after: TlsState) -> None:
        changed = [
            what
            for what, old, new in (
                ("authority", before.authority, after.authority),
                ("successor", before.successor, after.successor),
                ("server", before.server, after.server),
                ("client authorities", before.client_bundle_pem, after.client_bundle_pem),
            )
            if old != new
        ]
        log.info("certificates replaced", secret=self.settings.tls_secret, changed=changed)
        if before.authority is not None and before.authority != after.authority:
            log.warning(
                "server authority replaced",
                hint="kube-scheduler reads the CA when it starts: restart those that have run "
                "since before the CA was made known, a sixth of its life ago",
            )


@dataclass(slots=True, kw_only=True)
class CertificateReader:
    """Service of every replica: serves with what the Secret holds.

    Attributes:
        targets: the TLS of each site.
        served: the fingerprint of what the leader serves with, as the lease has it. What is read
            after it was seen is that, or newer.
    """

    kube: KubePort
    settings: CertificateSettings
    targets: Sequence[ServerTls]
    served: Latest[str]
    name: str = "certificate-reader"
    _trouble: Trouble = field(
        default_factory=lambda: Trouble("certificate not read", "certificate read again"),
        init=False,
    )

    async def run(self) -> None:
        """Read, and again when there is something new, until cancelled."""
        while True:
            read_for = self.served.get()
            delay_s = await self.step()
            if delay_s is None:
                await self._wait_for_news(read_for)
            else:
                await asyncio.sleep(delay_s)

    async def _wait_for_news(self, read_for: str) -> None:
        """Wait until the leader serves with what we neither have read for nor serve with."""
        await self.served.wait_for(
            lambda now: now not in {read_for, *(target.fingerprint for target in self.targets)}
        )

    async def step(self) -> float | None:
        """Read once; returns how long to wait before the next try, or None if it succeeded.

        Until there is something to serve with, that is short.
        """
        settings = self.settings
        try:
            secret = await self.kube.get(SECRETS, settings.tls_secret, namespace=settings.namespace)
            state = tls.decode_state(decode_secret(secret))
            _serve_with(state, self.targets, secret=settings.tls_secret)
        except (KubeError, WireError, CertificateError) as error:
            if self._is_serving():
                self._trouble.begin(error)
                return CALM_S
            return self._trouble.begin(error, patience=FIRST_READ_PATIENCE)
        self._trouble.end()
        return None

    def _is_serving(self) -> bool:
        return all(target.is_loaded for target in self.targets)


def _serve_with(state: TlsState, targets: Sequence[ServerTls], *, secret: str) -> str:
    """Serve with what the state holds; returns its fingerprint."""
    material = state.material
    if material is None:
        raise CertificateError(
            f"the Secret {secret} holds no certificate yet",
            hint="the leader fills it within seconds; if not, look at the leader's log",
        )
    loaded = [target.load(material) for target in targets]
    if any(loaded):
        log.info("certificate loaded", secret=secret)
    return material.fingerprint
