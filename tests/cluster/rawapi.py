"""The API server at its own pace: many calls at once and a followed list of pods, in a thread.

For what kubectl is too slow for: a thousand nodes, bursts of pods. Administrator's rights.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
import orjson

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from tests.cluster.harness import Cluster

T = TypeVar("T")
Object = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"


class CallFailed(AssertionError):
    """The API server said no; the text is what it said."""

    def __init__(self, call: Call, status: int, said: str) -> None:
        super().__init__(f"{call.method} {call.path}: {status} {said[:512]}")
        self.status = status


class WatchEnded(Exception):
    """The API server ended a watch; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the API server.

    Attributes:
        expected: refusals that are answers as good as any.
    """

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    expected: frozenset[int] = frozenset()


class RawApi:
    """Calls of the API server, from any thread; made by `raw_api`."""

    def __init__(self, cluster: Cluster, *, parallel: int) -> None:
        self._server = cluster.server
        self._tls = cluster.tls
        self._parallel = parallel
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Be ready for calls."""
        self._thread.start()
        self.run(self._open())

    def close(self) -> None:
        """End; nothing may be running any more."""
        assert self._session is not None
        self.run(self._session.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def run(self, act: Coroutine[Any, Any, T], *, timeout_s: float = 600) -> T:
        """What the coroutine returns, run in the thread."""
        running = self.start(act)
        try:
            return running.result(timeout_s)
        except TimeoutError:
            running.cancel()
            raise

    def start(self, act: Coroutine[Any, Any, T]) -> Future[T]:
        """Run the coroutine in the thread meanwhile."""
        return asyncio.run_coroutine_threadsafe(act, self._loop)

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        """One call's answer; raises CallFailed."""
        return self.run(self.ask(Call(method=method, path=path, body=body)))

    def call_all(self, calls: Iterable[Call]) -> Sequence[Object]:
        """All answers, in the order of the calls, which go out many at once."""
        return self.run(self.ask_all(calls))

    def list(self, path: str, query: str = "") -> list[Object]:
        """The objects of a collection."""
        return list(self.call("GET", f"{path}?{query}")["items"])

    async def ask(self, call: Call) -> Object:
        """One call's answer; raises CallFailed. To be awaited in the thread."""
        assert self._session is not None
        async with self._session.request(
            call.method,
            f"{self._server}{call.path}",
            data=None if call.body is None else orjson.dumps(call.body),
            headers={"Content-Type": call.content_type},
        ) as response:
            said = await response.read()
        if response.status >= HTTPStatus.BAD_REQUEST and response.status not in call.expected:
            raise CallFailed(call, response.status, said.decode(errors="replace"))
        answer = orjson.loads(said)
        assert isinstance(answer, dict)
        return answer

    async def ask_all(self, calls: Iterable[Call]) -> Sequence[Object]:
        """All answers, in the order of the calls; at the first failure the rest is left."""
        left = iter(enumerate(calls))
        answers: dict[int, Object] = {}

        async def work() -> None:
            for number, call in left:
                answers[number] = await self.ask(call)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(work())
        return [answers[number] for number in sorted(answers)]

    async def events(self, path: str, resource_version: str) -> Any:
        """Yield what a watch brings, until it ends."""
        assert self._session is not None
        url = f"{self._server}{path}?watch=1&resourceVersion={resource_version}"
        async with self._session.get(url) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise WatchEnded(event["object"].get("message"))
                    yield event

    async def _open(self) -> None:
        # Without a deadline: watches go on.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls),
            timeout=aiohttp.ClientTimeout(total=None),
        )


@contextmanager
def raw_api(cluster: Cluster, *, parallel: int = 16) -> Iterator[RawApi]:
    """Calls of this cluster's API server, `parallel` of them at once."""
    api = RawApi(cluster, parallel=parallel)
    api.open()
    try:
        yield api
    finally:
        api.close()


@dataclass(slots=True, kw_only=True)
class PodWatch:
    """The pods of a namespace as they are now; made by `pod_watch`.

    Attributes:
        pods: by name.
        bound_at_s: when each pod was first seen with a node, monotonic; also of pods since gone.
        nodes_of: on which nodes each pod, by UID, was ever seen: never on more than one.
    """

    pods: dict[str, Object] = field(default_factory=dict)
    bound_at_s: dict[str, float] = field(default_factory=dict)
    nodes_of: dict[str, set[str]] = field(default_factory=dict)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _trouble: str = ""

    def wait_bound(self, names: Iterable[str], *, timeout_s: float = 60) -> float:
        """Wait until all these have a node; returns when the last one got it, monotonic."""
        wanted = list(names)
        missing = set(wanted)

        def are_bound() -> bool:
            missing.intersection_update([n for n in missing if n not in self.bound_at_s])
            return not missing

        if not self.wait_for(are_bound, timeout_s=timeout_s):
            some = sorted(missing)[:3]
            said = [self.pods.get(name, {}).get("status") for name in some]
            raise AssertionError(
                f"{len(missing)} of {len(wanted)} pods have no node after {timeout_s} s, "
                f"such as {some}: {said} {self._trouble}"
            )
        return max((self.bound_at_s[name] for name in wanted), default=0.0)

    def wait_gone(self, names: Iterable[str], *, timeout_s: float = 60) -> None:
        """Wait until none of these is there."""
        wanted = set(names)
        assert self.wait_for(lambda: not wanted & self.pods.keys(), timeout_s=timeout_s)

    def wait_for(self, is_true: Any, *, timeout_s: float = 60) -> bool:
        """Whether it became true in time; looked at with each event."""
        until = time.monotonic() + timeout_s
        with self._news:
            while not is_true():
                left_s = until - time.monotonic()
                if left_s <= 0 or self._trouble:
                    return False
                self._news.wait(left_s)
        return True

    def forget(self, names: Iterable[str], *, timeout_s: float = 60) -> None:
        """Wait until none of these is there, and keep no record of them: names come again."""
        names = list(names)
        self.wait_gone(names, timeout_s=timeout_s)
        with self._news:
            for name in names:
                self.bound_at_s.pop(name, None)

    def clear(self, *, timeout_s: float = 60) -> None:
        """Wait until no pod is there, and keep no record of any: names come again."""
        assert self.wait_for(lambda: not self.pods, timeout_s=timeout_s), sorted(self.pods)
        with self._news:
            self.bound_at_s.clear()

    async def follow(self, api: RawApi, path: str) -> None:
        """Follow until cancelled."""
        try:
            listed = await api.ask(Call(method="GET", path=path))
            for pod in listed["items"]:
                self._take("ADDED", pod)
            while True:
                version = listed["metadata"]["resourceVersion"]
                async for event in api.events(path, version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._take(event["type"], event["object"])
                listed["metadata"]["resourceVersion"] = version
        except Exception as error:  # the thread has nobody to tell
            self._trouble = f"the watch of {path} failed: {error!r}"
            with self._news:
                self._news.notify_all()
            raise

    def _take(self, kind: str, pod: Object) -> None:
        now_s = time.monotonic()
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        with self._news:
            if kind == "DELETED":
                self.pods.pop(name, None)
            else:
                self.pods[name] = pod
            if node:
                self.bound_at_s.setdefault(name, now_s)
                self.nodes_of.setdefault(pod["metadata"]["uid"], set()).add(node)
            self._news.notify_all()


@contextmanager
def pod_watch(api: RawApi, *, namespace: str = "default") -> Iterator[PodWatch]:
    """Follow the pods of this namespace for as long as the block lasts."""
    watch = PodWatch()
    following = api.start(watch.follow(api, pods_path(namespace)))
    try:
        yield watch
    finally:
        following.cancel()


def pods_path(namespace: str = "default", name: str = "") -> str:
    """Where pods of the namespace are, or this one."""
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def patch_call(path: str, body: Mapping[str, Any]) -> Call:
    """A JSON merge patch."""
    return Call(method="PATCH", path=path, body=dict(body), content_type=MERGE_PATCH)
