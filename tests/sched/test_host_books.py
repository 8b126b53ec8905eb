"""Hosts and links in the cluster's books: pods without devices count, too."""

import pytest

from hamid.codec.node_annotation import encode_link_scores
from hamid.model import names as wire
from hamid.model.node import HostAmount
from tests.builders import container_object, pod_object
from tests.sched.builders import make_allocation, make_devices
from tests.sched.objects import bound, registered, waiting
from tests.sched.recount import assert_books_are_right
from tests.sched.world import make_cache

ROOM = {"cpu": "8", "memory": "8Gi"}


def node(name="node-a", allocatable=ROOM):
    found = registered(name)
    found.setdefault("status", {})["allocatable"] = {"nvidia.com/gpu": "10", **allocatable}
    return found


def with_cpu(pod, cpu):
    (container,) = pod["spec"]["containers"]
    container["resources"].setdefault("requests", {})["cpu"] = cpu
    return pod


def plain(uid="plain", *, cpu="3", node_name="node-a"):
    """A pod without devices."""
    return with_cpu(pod_object(container_object("main", {}), uid=uid, node_name=node_name), cpu)


@pytest.fixture
def cache():
    cache = make_cache()
    cache.take_nodes([node()])
    cache.take_pods([])
    return cache


def free_cpu(cache, name="node-a"):
    assert_books_are_right(cache)
    return cache.snapshot(name).host_free.cpu_milli


def test_an_idle_host_is_all_free(cache):
    assert cache.snapshot("node-a").host_free == HostAmount(cpu_milli=8_000, memory_mib=8_192)


def test_a_host_that_does_not_say_is_not_known():
    cache = make_cache()
    cache.take_nodes([registered()])

    assert cache.snapshot("node-a").host_free is None


def test_pods_with_and_without_devices_count(cache):
    cache.take_pod(plain())
    cache.take_pod(with_cpu(bound(), "2"))

    assert free_cpu(cache) == 3_000


def test_a_pod_without_devices_that_ends_or_goes_gives_back_what_it_asked(cache):
    for uid in ("ends", "goes"):
        cache.take_pod(plain(uid))
    cache.take_pod({**plain("ends"), "status": {"phase": "Succeeded"}})
    assert free_cpu(cache) == 5_000

    cache.drop_pod("goes")

    assert free_cpu(cache) == 8_000


def test_news_of_a_pod_without_devices_that_asks_the_same_is_no_news_of_its_node(cache):
    """Its status changes often, and whoever waits for room need not look again."""
    cache.take_pod(plain())
    before, serial = cache.snapshot("node-a"), cache.freed.serial

    cache.take_pod({**plain(), "status": {"phase": "Running", "podIP": "10.0.0.7"}})

    assert cache.snapshot("node-a") is before
    assert cache.freed.serial == serial


def test_a_pod_without_devices_that_asks_for_less_frees_the_rest(cache):
    cache.take_pod(plain())
    serial = cache.freed.serial

    cache.take_pod(plain(cpu="1"))

    assert free_cpu(cache) == 7_000
    assert cache.freed.serial == serial + 1


def test_a_list_heals_a_lost_deletion(cache):
    cache.take_pod(plain())

    cache.take_pods([])

    assert free_cpu(cache) == 8_000


def test_a_decision_counts_until_it_is_forgotten(cache):
    cache.take_pod(with_cpu(waiting(), "2"))
    cache.assume(make_allocation())
    assert free_cpu(cache) == 6_000

    cache.forget("uid-1")

    assert free_cpu(cache) == 8_000


def test_a_decision_about_a_pod_that_the_watch_shows_only_later_counts_what_it_asks(cache):
    cache.assume(make_allocation())

    cache.take_pod(with_cpu(waiting(), "2"))

    assert free_cpu(cache) == 6_000


def test_a_decision_and_the_bound_pod_count_once(cache):
    cache.take_pod(with_cpu(waiting(), "2"))
    cache.assume(make_allocation())

    cache.take_pod(with_cpu(bound(), "2"))

    assert free_cpu(cache) == 6_000


def test_pods_of_a_node_not_seen_yet_count_as_soon_as_it_is(cache):
    cache.take_pod(plain(node_name="node-b"))

    cache.take_node(node("node-b"))

    assert free_cpu(cache, "node-b") == 5_000


def test_links_of_a_node_come_with_its_devices_in_their_order():
    found = registered("node-a", make_devices(2))
    found["metadata"]["annotations"][wire.NODE_SCORE] = encode_link_scores(
        {"card-0": {"card-1": 7}, "card-1": {"card-0": 7}}
    )
    cache = make_cache()

    cache.take_nodes([found])

    assert cache.snapshot("node-a").links == ((0, 7), (7, 0))
    assert_books_are_right(cache)


def test_links_that_cannot_be_read_keep_no_pod_away():
    found = registered("node-a")
    found["metadata"]["annotations"][wire.NODE_SCORE] = "nonsense"
    cache = make_cache()

    cache.take_nodes([found])

    assert cache.snapshot("node-a").links == ()
    assert cache.snapshot("node-a").usages
