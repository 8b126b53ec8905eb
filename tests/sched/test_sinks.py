from hamid.sched.sinks import NodeSink, PodSink, QuotaSink
from tests.sched.objects import (
    added,
    bookmark,
    deleted,
    modified,
    quota_object,
    registered,
    waiting,
)
from tests.sched.world import make_cache


def test_events_of_nodes_reach_the_cache():
    cache = make_cache()
    sink = NodeSink(cache)

    sink.apply(added(registered("a")))
    sink.apply(modified(registered("b")))
    sink.apply(deleted(registered("a")))
    sink.apply(bookmark())

    assert [node.node_name for node in cache.snapshots()] == ["b"]


def test_events_of_pods_reach_the_cache():
    cache = make_cache()
    sink = PodSink(cache)

    sink.apply(added(waiting("a")))
    sink.apply(modified(waiting("b")))
    sink.apply(deleted(waiting("a")))
    sink.apply(bookmark())

    assert [record.pod_uid for record in cache.pod_records()] == ["b"]


def test_events_of_quotas_reach_the_cache():
    cache = make_cache()
    sink = QuotaSink(cache)

    sink.apply(added(quota_object("a", gpu=1)))
    sink.apply(modified(quota_object("b", gpu=1)))
    sink.apply(deleted(quota_object("a", gpu=1)))
    sink.apply(bookmark())

    assert [quota.name for quota, _ in cache.quotas.all()] == ["b"]


def test_a_list_replaces_all_that_was_known():
    cache = make_cache()
    NodeSink(cache).apply(added(registered("a")))
    PodSink(cache).apply(added(waiting("a")))
    QuotaSink(cache).apply(added(quota_object("a", gpu=1)))

    NodeSink(cache).replace((registered("b"),))
    PodSink(cache).replace((waiting("b"),))
    QuotaSink(cache).replace((quota_object("b", gpu=1),))

    assert [node.node_name for node in cache.snapshots()] == ["b"]
    assert [record.pod_uid for record in cache.pod_records()] == ["b"]
    assert [quota.name for quota, _ in cache.quotas.all()] == ["b"]
