"""The real client against the fake server, over real HTTP."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.services import running
from hamid.kube.client import KubeClient, _event, _version
from hamid.kube.errors import NotFound, Unavailable
from hamid.kube.fake import FakeApi, FakeApiServer, FakeFeatures, Fault, FaultKind
from hamid.kube.port import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    NAMESPACES,
    PODS,
    VALIDATING_POLICIES,
    ServerVersion,
)
from hamid.kube.settings import KubeSettings
from hamid.kube.transport import Call
from tests.contracts.kube_contract import BindContract, WholeKubeContract, events_since, pod
from tests.kube.test_watch import Mirror, create, make_reflector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class TestKubeClient(WholeKubeContract):
    @pytest.fixture
    def node_name(self) -> str:
        return "n1"

    @pytest.fixture
    async def forgotten_version(self, server: FakeApiServer, kube: KubeClient) -> str:
        found = await kube.list(NAMESPACES)
        await kube.create(NAMESPACES, {"metadata": {"name": "more"}})
        server.api.store.compact()
        return found.resource_version


async def test_a_bind_is_one_request(server: FakeApiServer, kube: KubeClient) -> None:
    created = await kube.create(PODS, pod("a"), namespace="default")
    server.requests.clear()

    await kube.bind(
        namespace="default",
        name="a",
        uid=created["metadata"]["uid"],
        node_name="n1",
        annotations={"a": "b"},
    )

    assert server.requests.by() == {("create", "pods/binding"): 1}


async def test_requests_are_counted_by_verb_resource_and_code(server: FakeApiServer) -> None:
    registry = CollectorRegistry()
    settings = KubeSettings(server=server.url, retry_count=0)
    async with KubeClient.open(settings, registry=registry) as kube:
        with pytest.raises(NotFound):
            await kube.get(PODS, "none", namespace="default")
        server.faults.add(Fault(kind=FaultKind.DROP))
        with pytest.raises(Unavailable):
            await kube.list(PODS)

    def count(verb: str, code: str) -> float | None:
        labels = {"verb": verb, "resource": "pods", "code": code}
        return registry.get_sample_value("hamid_kube_requests_total", labels)

    assert count("get", "404") == 1
    assert count("list", "none") == 1


async def test_a_name_cannot_reach_another_object(server: FakeApiServer, kube: KubeClient) -> None:
    await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="default")

    with pytest.raises(NotFound):
        await kube.get(PODS, "../configmaps/a", namespace="default")


@pytest.mark.parametrize(("namespace", "name"), [("default", ".."), ("default", "."), ("..", "a")])
async def test_a_name_that_would_be_the_folder_above_reaches_nothing(
    server: FakeApiServer, kube: KubeClient, namespace: str, name: str
) -> None:
    with pytest.raises(NotFound):
        await kube.delete(PODS, name, namespace=namespace)

    assert not server.requests.count()


async def test_an_event_of_300_kib_arrives_whole(server: FakeApiServer, kube: KubeClient) -> None:
    since = (await kube.list(CONFIG_MAPS)).resource_version
    body = {"metadata": {"name": "a"}, "data": {"x": "y" * 300 * 1024}}
    created = await kube.create(CONFIG_MAPS, body, namespace="default")

    (event,) = await events_since(kube, CONFIG_MAPS, resource_version=since, count=1)

    assert event.object == created


async def test_a_watch_cut_within_an_event_is_unavailable(
    server: FakeApiServer, kube: KubeClient
) -> None:
    since = (await kube.list(CONFIG_MAPS)).resource_version
    for name in ("a", "b"):
        await kube.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace="default")
    server.faults.add(Fault(kind=FaultKind.CUT_WATCH, after=1))

    events = kube.watch(CONFIG_MAPS, resource_version=since)
    first = await anext(events)
    with pytest.raises(Unavailable):
        await anext(events)

    assert first.object["metadata"]["name"] == "a"


async def test_a_silent_watch_is_unavailable(server: FakeApiServer) -> None:
    settings = KubeSettings(server=server.url, quiet_timeout_s=0.05)
    async with KubeClient.open(settings) as kube:
        since = (await kube.list(CONFIG_MAPS)).resource_version

        with pytest.raises(Unavailable, match="no answer in time"):
            await events_since(kube, CONFIG_MAPS, resource_version=since, count=1)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": null}',
        b'{"type": "ADDED", "object": []}',
        b'{"type": "ADDED", "object": {}}',
        b'{"type": "ADDED", "object": {"metadata": {}}}',
        b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": 7}}}',
        b'{"type": [], "object": {"metadata": {"resourceVersion": "7"}}}',
        b'{"type": "RENAMED", "object": {"metadata": {"resourceVersion": "7"}}}',
        b'{"type": "ERROR", "object": null}',
        b'{"type": "ERROR", "object": {"code": "high"}}',
        b'{"type": "ERROR", "object": {"code": []}}',
    ],
)
def test_whatever_a_line_of_a_watch_says_the_watch_is_at_worst_unavailable(line: bytes) -> None:
    # Private, since no server of ours says such things.
    with pytest.raises(Unavailable):
        _event(line, call=Call(verb="watch", resource="pods", path="/api/v1/pods"))


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"metadata": []},
        {"kind": "Status", "metadata": {}},
        {"metadata": {"resourceVersion": "1"}, "items": "none"},
        {"metadata": {"resourceVersion": "1"}, "items": {"a": {}}},
        {"metadata": {"resourceVersion": "1"}, "items": [None]},
    ],
)
async def test_an_answer_that_is_no_list_is_unavailable(
    server: FakeApiServer, kube: KubeClient, answer: dict[str, object]
) -> None:
    async def answered(call: Call) -> dict[str, object]:
        return answer

    kube.transport = SimpleNamespace(answer=answered)

    with pytest.raises(Unavailable, match="no list"):
        await kube.list(PODS)


@pytest.mark.parametrize("served", ["pods", {"name": "pods"}, ["pods"]])
async def test_a_discovery_that_lists_no_resources_is_unavailable(
    kube: KubeClient, served: object
) -> None:
    async def answered(call: Call) -> dict[str, object]:
        return {"resources": served}

    kube.transport = SimpleNamespace(answer=answered)

    with pytest.raises(Unavailable, match="lists no resources"):
        await kube.serves(PODS)


async def test_a_watch_that_is_left_ends_at_the_server(
    server: FakeApiServer, kube: KubeClient
) -> None:
    since = (await kube.list(CONFIG_MAPS)).resource_version
    await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="default")

    await events_since(kube, CONFIG_MAPS, resource_version=since, count=1)

    while server.api.store.watcher_count:
        await kube.get(NAMESPACES, "default")


@pytest.fixture
async def old_kube() -> AsyncIterator[KubeClient]:
    api = FakeApi(features=FakeFeatures(version="1.20"))
    async with (
        FakeApiServer.serve(api) as server,
        KubeClient.open(KubeSettings(server=server.url)) as client,
    ):
        yield client


async def test_an_old_server_says_what_it_lacks(old_kube: KubeClient) -> None:
    assert str(await old_kube.version()) == "1.20"
    assert not await old_kube.serves(ENDPOINT_SLICES)
    assert not await old_kube.serves(VALIDATING_POLICIES)
    assert await old_kube.serves(PODS)


async def test_an_old_server_gets_evictions_by_their_old_name(old_kube: KubeClient) -> None:
    await old_kube.create(PODS, pod("a"), namespace="default")

    await old_kube.evict(namespace="default", name="a")

    with pytest.raises(NotFound):
        await old_kube.get(PODS, "a", namespace="default")


async def test_the_user_agent_is_told(server: FakeApiServer) -> None:
    async with KubeClient.open(KubeSettings(server=server.url, user_agent="x/1")) as kube:
        await kube.list(PODS)

    assert server.requests.count(caller="x/1") == 1


class TestOldServer(BindContract):
    """Servers that do not compare a Binding's uid are asked who the pod is before."""

    @pytest.fixture(params=["1.20", "1.25.8", "1.26.3"])
    async def kube(self, request: pytest.FixtureRequest) -> AsyncIterator[KubeClient]:
        api = FakeApi(features=FakeFeatures(version=request.param))
        async with (
            FakeApiServer.serve(api) as server,
            KubeClient.open(KubeSettings(server=server.url)) as client,
        ):
            yield client

    @pytest.fixture
    def namespace(self) -> str:
        return "default"


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (
            {"major": "1", "minor": "27+", "gitVersion": "v1.27.4-eks-1a2b"},
            ServerVersion(major=1, minor=27, patch=4),
        ),
        ({"major": "1", "minor": "27+"}, ServerVersion(major=1, minor=27)),
        ({"gitVersion": "unknown"}, None),
    ],
)
def test_versions_of_providers_are_understood(
    answer: dict[str, str], version: ServerVersion | None
) -> None:
    # Private, since the fake says its version in one way only.
    if version is None:
        with pytest.raises(Unavailable, match="without a version"):
            _version(answer)
    else:
        assert _version(answer) == version


async def test_a_reflector_goes_on_after_a_mid_line_cut(
    server: FakeApiServer, kube: KubeClient
) -> None:
    mirror = Mirror()
    async with running(make_reflector(kube, mirror)):
        await mirror.wait_for(lambda m: m.replaced_count == 1)
        server.faults.add(Fault(kind=FaultKind.CUT_WATCH))
        await create(kube, "a")
        await mirror.wait_for(lambda m: "a" in m.data)

    assert mirror.replaced_count == 1
