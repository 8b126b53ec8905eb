"""Keeps a sink equal to what the server holds: list, then watch, for ever.

Invariants:

1. The sink sees `replace` first, and after it every change, in order, none twice from one stream.
   After a gap that cannot be closed (`Gone`) it sees `replace` again, so that nothing deleted in
   between stays.
2. Whatever the API does ends in another try, after a delay with jitter, never sooner than the server
   asked. A watch that was cut resumes at the last resourceVersion; only `Gone` lists anew. Delays
   grow until a watch has worked: a list alone is no reason to list again soon.
3. Errors of the sink are ours, and end the service.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.latest import Latest
from hamid.errors import KubeError
from hamid.kube.errors import Gone, TooManyRequests, Unavailable
from hamid.kube.port import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hamid.aiokit.services import Service
    from hamid.kube.port import JsonObject, KubePort, Resource, WatchEvent

log = structlog.get_logger(__name__)

# The server ends watches after minutes. One that ends at once, over and over, is a fault.
SHORT_WATCH_S: Final = 1.0


class Sink(Protocol):
    """Where the objects go. Called in the loop, so quick and without waiting."""

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """These are all objects there are."""
        ...

    def apply(self, event: WatchEvent) -> None:
        """One object was added, modified or deleted; bookmarks are not passed on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSinks:
    """A sink for each of two that share a watch, one after the other."""

    first: Sink
    second: Sink

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """These are all objects there are."""
        self.first.replace(objects)
        self.second.replace(objects)

    def apply(self, event: WatchEvent) -> None:
        """One object was added, modified or deleted."""
        self.first.apply(event)
        self.second.apply(event)


class WatchMetrics:
    """The metrics of all reflectors of a process, by reflector name."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.failures = Counter(
            "hamid_kube_watch_failures_total",
            "Lists and watches that failed.",
            ("watch",),
            registry=registry,
        )
        self.relists = Counter(
            "hamid_kube_watch_relists_total",
            "Full lists after the first, each because the server had forgotten too much.",
            ("watch",),
            registry=registry,
        )
        self.down_since = Gauge(
            "hamid_kube_watch_down_since_timestamp_seconds",
            "Since when the watch has not worked; 0 while it works.",
            ("watch",),
            registry=registry,
        )


@dataclass(slots=True, kw_only=True)
class Reflector:
    """A service that reflects one selection of one resource into a sink.

    Attributes:
        name: of the service, such as `pod-watch`.
        clock: seconds since 1970, for metrics and logs.
        in_slices: takes a list as the sink does, and pauses now and then, where it takes long: others
            may run in the pauses, but no change comes.
        is_cached_list: let the server list from its cache, which may be a little old at first.
            For replicas by the thousand; the watch brings the rest.
        watch_timeout_s: how long one watch lasts; spread by the backoff's random numbers, so that
            replicas that began together do not go on together.
        synced: True once the sink has seen everything, and from then on.
        down_since_s: when it stopped working, None while it works. A watch taken up again counts as
            working when it has said something, a bookmark at the latest.
    """

    kube: KubePort
    resource: Resource
    sink: Sink
    name: str
    clock: Callable[[], float]
    metrics: WatchMetrics = field(default_factory=WatchMetrics)
    field_selector: str | None = None
    in_slices: Callable[[tuple[JsonObject, ...]], Iterator[None]] | None = None
    is_cached_list: bool = False
    watch_timeout_s: float = 300.0
    backoff: Backoff = field(default_factory=Backoff)
    synced: Latest[bool] = field(default_factory=lambda: Latest(False))  # noqa: FBT003 - the value
    down_since_s: float | None = None
    _resource_version: str | None = None

    async def run(self) -> None:
        """Reflect until cancelled; what does not run is not down."""
        self.metrics.down_since.labels(self.name).set(0)
        try:
            while True:
                await self.step()
        finally:
            self.metrics.down_since.labels(self.name).set(0)

    async def step(self) -> None:
        """One list, or one watch to its end; a failure costs a delay."""
        try:
            if self._resource_version is None:
                await self._list()
            else:
                await self._watch(self._resource_version)
        except Gone:
            log.info("watch expired", watch=self.name, resource_version=self._resource_version)
            self._resource_version = None
            # Whatever made the server forget, it did to every replica at once.
            await asyncio.sleep(self.backoff.next_delay_s())
        except KubeError as error:
            await self._fail(error)

    async def _list(self) -> None:
        is_first = not self.synced.get()
        if not is_first:
            self.metrics.relists.labels(self.name).inc()
        found = await self.kube.list(
            self.resource,
            field_selector=self.field_selector,
            # After a gap the cache may be older than what the sink has seen: only the first time.
            not_older_than="0" if self.is_cached_list and is_first else None,
        )
        if self.in_slices is None:
            self.sink.replace(found.items)
        else:
            for _ in self.in_slices(found.items):
                await asyncio.sleep(0)
        self._resource_version = found.resource_version
        self._tell_recovery()
        self.synced.publish(True)  # noqa: FBT003 - the value

    async def _watch(self, resource_version: str) -> None:
        loop = asyncio.get_running_loop()
        began_at, is_idle = loop.time(), True
        stream = self.kube.watch(
            self.resource,
            resource_version=resource_version,
            field_selector=self.field_selector,
            timeout_s=self.watch_timeout_s * (1.0 + self.backoff.rng.random()),
        )
        async with aclosing(stream) as events:
            async for event in events:
                is_idle = False
                self._succeed()
                if event.kind is not EventKind.BOOKMARK:
                    self.sink.apply(event)
                self._resource_version = event.object["metadata"]["resourceVersion"]
        if is_idle and loop.time() - began_at < SHORT_WATCH_S:
            raise Unavailable(f"the watch of {self.resource.label} ended as soon as it began")
        self._succeed()

    async def _fail(self, error: KubeError) -> None:
        self.metrics.failures.labels(self.name).inc()
        if self.down_since_s is None:
            self.down_since_s = self.clock()
            self.metrics.down_since.labels(self.name).set(self.down_since_s)
            log.warning("watch failed", watch=self.name, error=error.message, hint=error.hint)
        else:
            log.debug("watch failed again", watch=self.name, error=error.message)
        asked_s = error.retry_after_s if isinstance(error, TooManyRequests | Unavailable) else 0.0
        await asyncio.sleep(asked_s + self.backoff.next_delay_s())

    def _succeed(self) -> None:
        self.backoff.reset()
        self._tell_recovery()

    def _tell_recovery(self) -> None:
        if self.down_since_s is not None:
            down_s = round(self.clock() - self.down_since_s, 3)
            self.down_since_s = None
            self.metrics.down_since.labels(self.name).set(0)
            log.info("watch recovered", watch=self.name, down_s=down_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceListed:
    """Runs a service once a watch has listed what there is; a service, of the same name.

    Before, everything would look deleted, and what it holds free.
    """

    service: Service
    synced: Latest[bool]

    @property
    def name(self) -> str:
        """The name of what is run."""
        return self.service.name

    async def run(self) -> None:
        """Wait, then run until cancelled."""
        await self.synced.wait_for(bool)
        await self.service.run()
