"""The reflector, in virtual time: whatever the server does, the sink equals it in the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.kube.fake import FakeApi, FakeKube, Fault, FaultKind
from hamid.kube.port import CONFIG_MAPS, PODS, EventKind, PatchKind, WatchEvent
from hamid.kube.watch import OnceListed, Reflector, TwoSinks, WatchMetrics
from tests.contracts.kube_contract import config_map, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hamid.kube.port import JsonObject, KubePort

pytestmark = pytest.mark.looptime

NOW_S = 1_700_000_000.0


@dataclass(slots=True)
class Mirror:
    """A sink that keeps names and data, and can be waited on."""

    data: dict[str, Any] = field(default_factory=dict)
    replaced_count: int = 0
    deleted: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        self.data = {item["metadata"]["name"]: item.get("data") for item in objects}
        self.replaced_count += 1
        self.changed.set()

    def apply(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.kind is EventKind.DELETED:
            del self.data[name]
            self.deleted.append(name)
        else:
            self.data[name] = event.object.get("data")
        self.changed.set()

    async def wait_for(self, wanted: Callable[[Mirror], bool]) -> None:
        while not wanted(self):
            self.changed.clear()
            await self.changed.wait()


def make_reflector(kube: KubePort, sink: Mirror, **overrides: Any) -> Reflector:
    values: dict[str, Any] = {
        "kube": kube,
        "resource": CONFIG_MAPS,
        "sink": sink,
        "name": "map-watch",
        "clock": lambda: NOW_S + asyncio.get_running_loop().time(),
    }
    return Reflector(**(values | overrides))


async def create(kube: KubePort, name: str, value: str = "1") -> None:
    await kube.create(CONFIG_MAPS, config_map(name, data={"x": value}), namespace="default")


async def test_a_sink_sees_what_is_there_and_what_changes() -> None:
    kube, mirror = FakeKube(), Mirror()
    await create(kube, "a")
    reflector = make_reflector(kube, mirror)

    async with running(reflector):
        await reflector.synced.wait_for(bool)
        assert mirror.data == {"a": {"x": "1"}}
        await create(kube, "b")
        patch = {"data": {"x": "2"}}
        await kube.patch(CONFIG_MAPS, "a", patch, kind=PatchKind.MERGE, namespace="default")
        await kube.delete(CONFIG_MAPS, "b", namespace="default")
        await mirror.wait_for(lambda m: bool(m.deleted))

    assert mirror.data == {"a": {"x": "2"}}
    assert mirror.replaced_count == 1


FAULTS = [
    pytest.param([Fault(kind=FaultKind.CUT_WATCH)], id="a watch is cut within an event"),
    pytest.param([Fault(kind=FaultKind.END_WATCH)], id="a watch ends early"),
    pytest.param(
        [Fault(kind=FaultKind.CUT_WATCH), Fault(kind=FaultKind.STATUS, verb="watch", code=410)],
        id="a watch is cut, and its version is gone",
    ),
    pytest.param(
        [
            Fault(kind=FaultKind.CUT_WATCH),
            Fault(kind=FaultKind.STATUS, verb="watch", code=410),
            Fault(kind=FaultKind.STATUS, verb="list", code=500, times=5),
        ],
        id="listing anew fails, too",
    ),
    pytest.param(
        [
            Fault(kind=FaultKind.CUT_WATCH),
            Fault(kind=FaultKind.STATUS, verb="watch", code=429, retry_after_s=30, times=3),
        ],
        id="the server is busy",
    ),
    pytest.param(
        [Fault(kind=FaultKind.CUT_WATCH), Fault(kind=FaultKind.DROP, verb="watch", times=4)],
        id="the server cannot be reached",
    ),
    pytest.param(
        [Fault(kind=FaultKind.CUT_WATCH), Fault(kind=FaultKind.STATUS, verb="watch", code=401)],
        id="the token is refused",
    ),
]


@pytest.mark.parametrize("faults", FAULTS)
async def test_after_a_fault_the_sink_equals_the_server_and_missed_no_deletion(
    faults: list[Fault],
) -> None:
    kube, mirror = FakeKube(), Mirror()
    await create(kube, "a")
    await create(kube, "gone")
    async with running(make_reflector(kube, mirror)):
        await mirror.wait_for(lambda m: len(m.data) == 2)
        for fault in faults:
            kube.faults.add(fault)

        await create(kube, "b")
        await kube.delete(CONFIG_MAPS, "gone", namespace="default")
        await mirror.wait_for(lambda m: m.data.keys() == {"a", "b"})
        await create(kube, "c")
        await mirror.wait_for(lambda m: m.data.keys() == {"a", "b", "c"})

    assert not kube.faults.waiting


async def test_a_cut_watch_resumes_and_only_a_gone_one_lists_anew() -> None:
    registry = CollectorRegistry()
    kube, mirror = FakeKube(), Mirror()
    reflector = make_reflector(kube, mirror, metrics=WatchMetrics(registry))

    async with running(reflector):
        await mirror.wait_for(lambda m: m.replaced_count == 1)
        kube.faults.add(Fault(kind=FaultKind.CUT_WATCH))
        await create(kube, "a")
        await mirror.wait_for(lambda m: "a" in m.data)
        assert mirror.replaced_count == 1
        kube.faults.add(Fault(kind=FaultKind.END_WATCH))
        kube.faults.add(Fault(kind=FaultKind.STATUS, verb="watch", code=410))
        await create(kube, "b")
        await mirror.wait_for(lambda m: "b" in m.data)
        assert mirror.replaced_count == 2

    labels = {"watch": "map-watch"}
    assert registry.get_sample_value("hamid_kube_watch_relists_total", labels) == 1
    assert registry.get_sample_value("hamid_kube_watch_failures_total", labels) == 1


async def test_the_wait_that_a_busy_server_asks_for_is_kept() -> None:
    kube, mirror = FakeKube(), Mirror()
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=429, retry_after_s=45))
    began_at = asyncio.get_running_loop().time()

    async with running(make_reflector(kube, mirror)):
        await mirror.wait_for(lambda m: m.replaced_count == 1)

    assert 45 <= asyncio.get_running_loop().time() - began_at < 46


async def test_failures_are_spaced_ever_wider_and_reported_when_they_begin_and_end(
    logs: list[Any],
) -> None:
    registry = CollectorRegistry()
    kube, mirror = FakeKube(), Mirror()
    reflector = make_reflector(kube, mirror, metrics=WatchMetrics(registry))
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=500, times=8))

    async with running(reflector):
        await asyncio.sleep(1)
        down_at = registry.get_sample_value(
            "hamid_kube_watch_down_since_timestamp_seconds", {"watch": "map-watch"}
        )
        await mirror.wait_for(lambda m: m.replaced_count == 1)

    # 0.5 s doubled up to 30 s, each shortened by up to half: eight of them.
    assert 45 < asyncio.get_running_loop().time() < 92
    assert down_at == NOW_S
    assert reflector.down_since_s is None
    told = [entry["event"] for entry in logs if entry["log_level"] in {"warning", "info"}]
    assert told == ["watch failed", "watch recovered"]


async def test_a_watch_that_was_stopped_while_it_failed_is_not_shown_as_down() -> None:
    registry = CollectorRegistry()
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=500, times=None))

    async with running(make_reflector(kube, Mirror(), metrics=WatchMetrics(registry))):
        await asyncio.sleep(1)

    labels = {"watch": "map-watch"}
    since = registry.get_sample_value("hamid_kube_watch_down_since_timestamp_seconds", labels)
    assert since == 0


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_hot_loop() -> None:
    kube, mirror = FakeKube(), Mirror()
    reflector = make_reflector(kube, mirror, watch_timeout_s=0.001)

    async with running(reflector):
        await asyncio.sleep(60)

    assert kube.requests.count(verb="watch") < 15


async def test_a_server_that_forgets_every_version_is_not_made_to_list_in_a_hot_loop() -> None:
    kube, mirror = FakeKube(), Mirror()
    kube.faults.add(Fault(kind=FaultKind.STATUS, verb="watch", code=410, times=None))

    async with running(make_reflector(kube, mirror)):
        await asyncio.sleep(60)

    assert kube.requests.count(verb="list") < 15


async def test_bookmarks_move_the_version_on_without_reaching_the_sink() -> None:
    kube, mirror = FakeKube(), Mirror()
    async with running(make_reflector(kube, mirror, watch_timeout_s=100)):
        await mirror.wait_for(lambda m: m.replaced_count == 1)
        for number in range(5):
            await kube.create(PODS, pod(f"p{number}"), namespace="default")
        await asyncio.sleep(150)  # a bookmark came at 60 s
        kube.api.store.compact()
        await asyncio.sleep(300)

    assert mirror.replaced_count == 1
    assert mirror.data == {}


async def test_others_run_while_a_list_is_taken_in_slices_and_changes_come_after_it() -> None:
    kube, sink, turns = FakeKube(), Mirror(), []
    for name in ("a", "b", "c"):
        await create(kube, name)

    def in_slices(objects: tuple[JsonObject, ...]) -> Iterator[None]:
        for _ in objects:
            turns.append("slice")
            yield
        sink.replace(objects)

    async def others() -> None:
        while not sink.data:
            turns.append("other")
            await asyncio.sleep(0)

    async with (
        asyncio.TaskGroup() as group,
        running(make_reflector(kube, sink, in_slices=in_slices)),
    ):
        group.create_task(others())
        await sink.wait_for(lambda seen: len(seen.data) == 3)
        await create(kube, "d")
        await sink.wait_for(lambda seen: "d" in seen.data)

    first = turns.index("slice")
    assert turns[first : first + 5] == ["slice", "other", "slice", "other", "slice"]
    assert sink.replaced_count == 1


async def test_an_error_of_the_sink_ends_the_service() -> None:
    class Broken(Mirror):
        def replace(self, objects: tuple[JsonObject, ...]) -> None:
            raise ZeroDivisionError(len(objects))

    with pytest.raises(ZeroDivisionError):
        await make_reflector(FakeKube(), Broken()).run()


async def test_a_thousand_replicas_cost_one_list_and_one_watch_each_per_watch_period() -> None:
    api = FakeApi()
    mirrors = [Mirror() for _ in range(1000)]
    reflectors = [
        make_reflector(
            FakeKube(api=api, caller=f"n{number}"),
            mirror,
            resource=PODS,
            name=f"pod-watch-{number}",
            field_selector=f"spec.nodeName=n{number}",
            is_cached_list=True,
        )
        for number, mirror in enumerate(mirrors)
    ]
    async with running(*reflectors):
        for reflector in reflectors:
            await reflector.synced.wait_for(bool)
        await asyncio.sleep(1)
        at_start = dict(api.requests.by())
        leader = FakeKube(api=api, caller="leader")
        created = await leader.create(PODS, pod("a"), namespace="default")
        uid = created["metadata"]["uid"]
        await leader.bind(
            namespace="default", name="a", uid=uid, node_name="n500", annotations={"k": "v"}
        )
        await mirrors[500].wait_for(lambda m: "a" in m.data)
        await asyncio.sleep(280)

    assert at_start == {("list", "pods"): 1000, ("watch", "pods"): 1000}
    assert api.requests.count(verb="list") == 1000
    assert sum("a" in mirror.data for mirror in mirrors) == 1


async def test_a_service_that_needs_what_is_listed_waits_for_it() -> None:
    class Recorder:
        name = "recorder"

        def __init__(self) -> None:
            self.began = asyncio.Event()

        async def run(self) -> None:
            self.began.set()
            await asyncio.Event().wait()

    service, synced = Recorder(), Latest(False)  # noqa: FBT003 - the value
    waiting = OnceListed(service=service, synced=synced)
    async with running(waiting):
        await asyncio.sleep(0)
        assert not service.began.is_set()

        synced.publish(True)  # noqa: FBT003 - the value

        await service.began.wait()
    assert waiting.name == "recorder"


def test_two_sinks_of_one_watch_see_the_same() -> None:
    mirrors = Mirror(), Mirror()
    sinks = TwoSinks(first=mirrors[0], second=mirrors[1])

    sinks.replace((config_map("a", data={"x": "1"}),))
    sinks.apply(WatchEvent(kind=EventKind.ADDED, object=config_map("b", data={"x": "2"})))

    assert [mirror.data for mirror in mirrors] == [{"a": {"x": "1"}, "b": {"x": "2"}}] * 2
