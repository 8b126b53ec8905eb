import asyncio

import pytest

from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import RESOURCE_QUOTAS
from hamid.model.names import ResourceNames
from hamid.sched.quota_lookup import QuotaLookup
from tests.sched.objects import quota_object
from tests.sched.world import Clock


@pytest.fixture
def kube():
    return FakeKube()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lookup(kube, clock):
    return QuotaLookup(kube=kube, names=ResourceNames(), clock=clock, keep_s=5, wait_s=0.5)


def names(quotas):
    return [(quota.namespace, quota.name) for quota in quotas]


async def test_quotas_of_the_namespace_are_read(kube, lookup):
    await kube.create(RESOURCE_QUOTAS, quota_object(gpu=1))
    await kube.create(RESOURCE_QUOTAS, quota_object("pods-only"))
    await kube.create(RESOURCE_QUOTAS, quota_object("far", gpu=1, namespace="kube-system"))

    assert names(await lookup.known("default")) == [("default", "cards")]


async def test_what_was_read_is_kept_for_a_moment(kube, lookup, clock):
    assert await lookup.known("default") == ()
    await kube.create(RESOURCE_QUOTAS, quota_object(gpu=1))

    assert await lookup.known("default") == ()
    assert names(await lookup.newest("default")) == [("default", "cards")]
    assert names(await lookup.known("default")) == [("default", "cards")]

    await kube.delete(RESOURCE_QUOTAS, "cards", namespace="default")
    clock.advance(5)
    assert await lookup.known("default") == ()


async def test_a_crowd_costs_one_look(kube, lookup):
    for _ in range(50):
        await lookup.known("default")

    assert kube.requests.count(verb="list") == 1


async def test_quotas_that_cannot_be_read_keep_nobody_out_and_are_told_of_once(
    kube, lookup, assert_logged, logs
):
    await kube.create(RESOURCE_QUOTAS, quota_object(gpu=1))
    kube.faults.add(Fault(kind=FaultKind.STATUS, resource="resourcequotas", code=500, times=2))

    assert await lookup.known("default") == ()
    assert await lookup.known("default") == ()
    assert_logged("quotas not read", namespace="default")
    assert len(logs) == 1

    kube.faults.clear()
    assert names(await lookup.known("default")) == [("default", "cards")]


async def test_the_api_server_is_not_waited_for_for_long(lookup):
    class Silent:
        async def list(self, *_, **__):
            await asyncio.get_running_loop().create_future()

    lookup.kube, lookup.wait_s = Silent(), 0.001

    assert await lookup.newest("default") == ()
