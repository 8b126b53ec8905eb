from __future__ import annotations

from contextlib import aclosing

import pytest

from hamid.daemon.simulate.view import ClusterView, TappedClient, with_patience
from hamid.kube.fake import FakeApi, FakeApiServer, FakeKube
from hamid.kube.port import NODES, PODS, RESOURCE_QUOTAS, EventKind, ObjectList, WatchEvent
from hamid.kube.settings import KubeSettings
from tests.daemon.simulate.manifests import pod
from tests.daemon.simulate.world import World, status
from tests.sched.objects import quota_object


class Recorder:
    def __init__(self):
        self.seen = []

    def took_pod(self, before, now):
        self.seen.append(tuple(item and item["metadata"]["name"] for item in (before, now)))

    def took_node(self, before, now):
        self.took_pod(before, now)


async def test_listeners_are_told_what_was_and_what_is():
    world, recorder = World(), Recorder()
    world.view.listeners.append(recorder)

    await world.add_node("n")
    await world.add_pod(pod("a"))
    world.show(PODS, world.pod("a"))
    world.show(PODS, world.pod("a"), is_gone=True)

    assert recorder.seen == [(None, "n"), (None, "a"), ("a", "a"), ("a", None)]


async def test_a_list_takes_away_what_is_no_longer_there():
    world = World()
    await world.add_pod(pod("a"))

    world.view.list(PODS, ObjectList(items=(), resource_version="99"))

    assert world.view.pods == {}
    assert world.view.version == 99


def test_quotas_are_kept_by_namespace_and_no_listener_is_told():
    view, recorder = ClusterView(), Recorder()
    view.listeners.append(recorder)
    item = quota_object(gpu=1)
    item["metadata"]["resourceVersion"] = "1"

    view.list(RESOURCE_QUOTAS, ObjectList(items=(item,), resource_version="1"))
    assert list(view.quotas) == ["default/cards"]

    view.apply(RESOURCE_QUOTAS, WatchEvent(kind=EventKind.DELETED, object=item))
    assert view.quotas == {}
    assert recorder.seen == []


def test_a_bookmark_changes_nothing():
    view = ClusterView()

    view.apply(PODS, WatchEvent(kind=EventKind.BOOKMARK, object={"metadata": {}}))

    assert view.progress.get() == 0


async def test_a_pod_is_awaited_from_its_binding_to_its_kubelets_word():
    world = World()
    await world.add_node("n")
    uid = await world.add_pod(pod("a"))
    unbound = world.view.has_unreported

    await world.kube.bind(namespace="default", name="a", uid=uid, node_name="n", annotations={})
    bound = world.view.has_unreported
    world.show(PODS, status(world.pod("a"), containerStatuses=[]))

    assert (unbound, bound, world.view.has_unreported) == (False, True, False)


async def test_a_pod_on_a_node_that_is_not_there_is_not_awaited():
    world = World()

    await world.add_pod(pod("a", nodeName="nowhere"))

    assert not world.view.has_unreported


async def test_patience_ends():
    assert not await with_patience(ClusterView(), lambda: False, timeout_s=0.0)
    assert await with_patience(ClusterView(), lambda: True, timeout_s=1.0)


@pytest.fixture
async def tapped():
    api = FakeApi()
    async with (
        FakeApiServer.serve(api) as server,
        TappedClient.open(KubeSettings(server=server.url)) as client,
    ):
        client.view = ClusterView()
        yield client, FakeKube(api=api)


async def test_the_view_sees_an_event_only_after_the_watcher_has_taken_it_in(tapped):
    client, kube = tapped
    version = (await client.list(PODS)).resource_version
    await kube.create(PODS, pod("a"), namespace="default")
    await kube.create(PODS, pod("b"), namespace="default")

    async with aclosing(client.watch(PODS, resource_version=version)) as events:
        await anext(events)
        seen_at_first = len(client.view.pods)
        await anext(events)
        seen_then = len(client.view.pods)

    assert (seen_at_first, seen_then) == (0, 1)


async def test_watches_of_a_part_do_not_feed_the_view(tapped):
    client, kube = tapped
    await kube.create(PODS, pod("a"), namespace="default")

    await client.list(PODS, namespace="default")
    await client.list(PODS, field_selector="spec.nodeName=n")
    assert client.view.pods == {}

    await client.list(PODS)
    await client.list(NODES)
    assert len(client.view.pods) == 1
