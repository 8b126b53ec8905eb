import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from hamid.model.names import ResourceNames
from hamid.model.quota import NO_CHARGE, Charge, Payer
from hamid.sched.quotas import (
    HamiQuotaCollector,
    LegacyQuotaCollector,
    QuotaBooks,
    QuotaCollector,
)
from hamid.sched.sinks import PodSink, QuotaSink
from tests.sched.builders import make_allocation, make_share
from tests.sched.objects import added, bound, deleted, modified, quota_object
from tests.sched.recount import assert_books_are_right
from tests.sched.world import Clock, make_cache

TEAM = Payer(namespace="default")
LONG = Payer(namespace="default", is_terminating=True)
CHARGE = Charge(cards=2, memory_mib=4_096, core_percent=40)


@pytest.fixture
def freed():
    return []


@pytest.fixture
def books(freed):
    return QuotaBooks(names=ResourceNames(), freed=freed.append)


def left(books, payer=TEAM):
    return {bound.limit.resource.name: bound.left for bound in books.bounds(payer)}


def test_what_is_left_is_what_no_pod_is_charged(books):
    books.take(quota_object(gpumem=10_000, gpucores=50))
    books.charge("uid-1", TEAM, CHARGE)

    assert left(books) == {"MEMORY_MIB": 5_904, "CORE_PERCENT": 10}


def test_a_namespace_without_quotas_has_no_bounds(books):
    books.take(quota_object(gpu=1, namespace="other"))

    assert left(books) == {}


def test_the_tightest_of_several_objects_counts_and_each_its_own_scopes(books):
    books.take(quota_object("wide", gpumem=10_000))
    books.take(quota_object("narrow", gpumem=7_000))
    books.take(quota_object("short", gpumem=3_000, scopes=["Terminating"]))
    books.charge("uid-1", TEAM, CHARGE)

    assert left(books) == {"MEMORY_MIB": 2_904}
    assert left(books, LONG) == {"MEMORY_MIB": 2_904}

    books.drop("default", "narrow")
    assert left(books) == {"MEMORY_MIB": 5_904}
    assert left(books, LONG) == {"MEMORY_MIB": 3_000}


def test_a_quota_that_comes_late_counts_the_pods_that_are_there(books):
    books.charge("uid-1", TEAM, CHARGE)
    books.charge("uid-2", LONG, CHARGE)

    books.take(quota_object(gpu=9, scopes=["NotTerminating"]))

    assert left(books) == {"CARDS": 7}


def test_a_pod_is_charged_once_however_often_it_is_booked(books, freed):
    books.take(quota_object(gpu=9))

    for _ in range(3):
        books.charge("uid-1", TEAM, CHARGE)

    assert left(books) == {"CARDS": 7}
    assert freed == []


def test_a_lowered_quota_may_be_overdrawn(books):
    books.take(quota_object(gpu=9))
    books.charge("uid-1", TEAM, CHARGE)

    books.take(quota_object(gpu=1))

    assert left(books) == {"CARDS": -1}


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda books: books.release("uid-1"), id="a pod goes"),
        pytest.param(lambda books: books.take(quota_object(gpu=10)), id="the quota is raised"),
        pytest.param(lambda books: books.take(quota_object()), id="the key is dropped"),
        pytest.param(lambda books: books.drop("default", "cards"), id="the quota is deleted"),
        pytest.param(lambda books: books.take_all(()), id="the quota is not in the list"),
    ],
)
def test_whoever_waits_is_told_when_more_may_be_left(books, freed, happens):
    books.take(quota_object(gpu=9))
    books.charge("uid-1", TEAM, CHARGE)
    assert freed == []

    happens(books)

    assert freed == ["default"]


def test_a_pod_that_no_quota_binds_goes_without_a_word(books, freed):
    books.take(quota_object(gpu=9, namespace="other"))
    books.charge("uid-1", TEAM, CHARGE)

    books.release("uid-1")
    books.release("unknown")

    assert freed == []


def test_a_new_status_of_a_quota_is_no_news(books, freed):
    books.take(quota_object(gpu=9))

    books.take({**quota_object(gpu=9), "status": {"hard": {}}})

    assert freed == []


def test_a_key_that_limits_nothing_is_logged_once(books, assert_logged, logs):
    quota = quota_object()
    quota["spec"]["hard"] = {"nvidia.com/gpumem": "5"}

    books.take(quota)
    books.take(quota)

    assert_logged("quota key not counted", quota="default/cards")
    assert len(logs) == 1
    assert list(books.remarks()) == ["default/cards"]

    books.take(quota_object())
    assert books.remarks() == {}


def test_a_new_term_begins_with_nothing(books):
    books.take(quota_object(gpu=9))
    books.charge("uid-1", TEAM, CHARGE)

    books.reset()
    books.take(quota_object(gpu=9))

    assert left(books) == {"CARDS": 9}


def test_each_limit_is_a_metric(books):
    registry = CollectorRegistry()
    QuotaCollector(books, registry)
    books.take(quota_object(gpumem=10_000))
    books.charge("uid-1", TEAM, CHARGE)

    labels = {"namespace": "default", "quota": "cards", "key": "limits.nvidia.com/gpumem"}
    assert registry.get_sample_value("hamid_sched_quota_hard", labels) == 10_000
    assert registry.get_sample_value("hamid_sched_quota_used", labels) == 4_096


def test_hamis_names_show_each_resource_of_a_namespace_once_by_the_quota_that_leaves_least(books):
    registry = CollectorRegistry()
    HamiQuotaCollector(books, registry)
    books.take(quota_object("roomy", gpumem=50_000, gpucores=50))
    books.take(quota_object("tight", gpumem=10_000))
    books.take(quota_object("tight", namespace="other", gpumem=7))
    books.charge("uid-1", TEAM, CHARGE)

    families = {family.name: family for family in registry.collect()}
    samples = families["hami_resource_quota_used"].samples
    assert [(sample.labels, sample.value) for sample in samples] == [
        (
            {
                "zone": "vGPU",
                "namespace": namespace,
                "quota_name": f"nvidia.com/{key}",
                "limit": limit,
            },
            used,
        )
        for namespace, key, limit, used in (
            ("default", "gpumem", "10000", 4_096),
            ("default", "gpucores", "50", 40),
            ("other", "gpumem", "7", 0),
        )
    ]
    labels = {"zone": "vGPU", "namespace": "default", "quota_name": "nvidia.com/gpucores"}
    assert registry.get_sample_value("hami_resource_quota_limit", labels) == 50


def test_hamis_old_name_of_a_quota_has_its_old_labels(books):
    registry = CollectorRegistry()
    LegacyQuotaCollector(books, registry)
    books.take(quota_object("roomy", gpumem=50_000))
    books.take(quota_object("tight", gpumem=10_000))
    books.charge("uid-1", TEAM, CHARGE)

    labels = {
        "zone": "vGPU",
        "quotanamespace": "default",
        "quotaName": "nvidia.com/gpumem",
        "limit": "10000",
    }
    (family,) = registry.collect()
    assert [(sample.labels, sample.value) for sample in family.samples] == [(labels, 4_096)]


# In the cache.

CARDS = (make_share("a", memory_mib=2_000), make_share("b", memory_mib=2_000))


def used(cache):
    assert_books_are_right(cache)
    found = {(quota.namespace, quota.name): used for quota, used in cache.quotas.all()}
    return found["default", "cards"]


def test_a_reservation_is_charged_and_its_end_gives_back():
    clock = Clock()
    cache = make_cache(clock, reservation_ttl_s=30)
    QuotaSink(cache).apply(added(quota_object(gpu=9)))

    cache.assume(make_allocation(*CARDS), TEAM)
    assert used(cache).cards == 2

    clock.advance(31)
    assert cache.reservations() == ()
    assert used(cache) == NO_CHARGE


def test_a_bound_pod_is_charged_once_and_given_back_when_it_is_gone():
    cache = make_cache()
    QuotaSink(cache).apply(added(quota_object(gpumem=9_000)))
    cache.assume_sent(make_allocation(*CARDS), TEAM)
    cache.confirm("uid-1")

    PodSink(cache).apply(added(bound(*CARDS)))
    assert used(cache).memory_mib == 4_000

    PodSink(cache).apply(modified(bound(*CARDS, phase="Succeeded")))
    assert used(cache) == NO_CHARGE


def test_after_a_lost_deletion_the_list_gives_back():
    cache = make_cache()
    PodSink(cache).apply(added(bound(*CARDS)))
    QuotaSink(cache).replace((quota_object(gpu=9),))

    PodSink(cache).replace(())

    assert used(cache) == NO_CHARGE


class Life:
    """Everything that can happen to pods and quotas, each picked by numbers."""

    def __init__(self):
        self.clock = Clock()
        self.cache = make_cache(self.clock, reservation_ttl_s=5)
        self.shown = {}

    def shares(self, number, count):
        return [make_share(f"card-{i}", memory_mib=number * 100) for i in range(count)]

    def assume(self, number, count):
        uid = f"uid-{number}"
        if uid not in self.shown:
            payer = LONG if number % 2 else TEAM
            self.cache.assume(make_allocation(*self.shares(number, count), uid=uid), payer)

    def expire(self, *_):
        self.clock.advance(3)

    def forget(self, number, _):
        self.cache.forget(f"uid-{number}")

    def run(self, number, count, phase="Running"):
        uid = f"uid-{number}"
        pod = bound(*self.shares(number, count), uid=uid, phase=phase)
        if number % 2:
            pod["spec"]["activeDeadlineSeconds"] = 60
        self.shown[uid] = pod
        PodSink(self.cache).apply(modified(pod))

    def end(self, number, count):
        self.run(number, count, phase="Failed")

    def delete(self, number, _):
        if pod := self.shown.pop(f"uid-{number}", None):
            PodSink(self.cache).apply(deleted(pod))

    def lose_news(self, number, _):
        self.shown.pop(f"uid-{number}", None)

    def relist(self, *_):
        PodSink(self.cache).replace(tuple(self.shown.values()))

    def set_quota(self, number, count):
        scopes = [(), ["Terminating"], ["NotTerminating"]][count - 1]
        item = quota_object(f"q{number % 3}", gpu=count, scopes=scopes)
        QuotaSink(self.cache).apply(modified(item))

    def drop_quota(self, number, _):
        QuotaSink(self.cache).apply(deleted(quota_object(f"q{number % 3}")))


STEPS = (
    Life.assume,
    Life.assume,
    Life.expire,
    Life.forget,
    Life.run,
    Life.run,
    Life.end,
    Life.delete,
    Life.lose_news,
    Life.relist,
    Life.set_quota,
    Life.set_quota,
    Life.drop_quota,
)


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 4), st.integers(1, 3)), max_size=40)
)
def test_what_is_used_is_what_the_pods_hold_after_anything(steps):
    life = Life()
    for step, number, count in steps:
        step(life, number, count)
        assert_books_are_right(life.cache)
