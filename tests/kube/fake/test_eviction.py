"""What the fake's disruption budgets say; what the real server says, too, is in the contract."""

import pytest

from hamid.kube.errors import TooManyRequests, Unavailable
from hamid.kube.fake import FakeKube
from hamid.kube.port import POD_DISRUPTION_BUDGETS, PODS, PatchKind

OF_DEFAULT = {"namespace": "default"}
STATUS = {**OF_DEFAULT, "kind": PatchKind.MERGE, "subresource": "status"}


@pytest.fixture
async def kube():
    found = FakeKube()
    for name in ("a", "b"):
        spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]}
        meta = {"name": name, "labels": {"app": "kept"}}
        await found.create(PODS, {"metadata": meta, "spec": spec}, **OF_DEFAULT)
        await found.patch(PODS, name, {"status": {"phase": "Running"}}, **STATUS)
    return found


async def protect(kube, name="kept", *, allowed):
    budget = {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
    }
    await kube.create(POD_DISRUPTION_BUDGETS, budget, **OF_DEFAULT)
    await kube.patch(
        POD_DISRUPTION_BUDGETS, name, {"status": {"disruptionsAllowed": allowed}}, **STATUS
    )


async def test_each_eviction_takes_of_the_budget_and_no_dry_run_does(kube):
    await protect(kube, allowed=1)

    for name in ("a", "b", "a"):
        await kube.evict(name=name, is_dry_run=True, **OF_DEFAULT)
    await kube.evict(name="a", **OF_DEFAULT)

    for is_dry_run in (True, False):
        with pytest.raises(TooManyRequests):
            await kube.evict(name="b", is_dry_run=is_dry_run, **OF_DEFAULT)


async def test_who_leaves_already_is_asked_nothing(kube):
    await protect(kube, allowed=0)
    await kube.delete(PODS, "a", grace_period_s=30, **OF_DEFAULT)

    await kube.evict(name="a", is_dry_run=True, **OF_DEFAULT)


async def test_two_budgets_of_one_pod_are_an_error_of_the_servers(kube):
    await protect(kube, "one", allowed=5)
    await protect(kube, "two", allowed=5)

    with pytest.raises(Unavailable):
        await kube.evict(name="a", **OF_DEFAULT)


async def test_a_budget_that_selects_nobody_protects_nobody(kube):
    await kube.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "none"}}, **OF_DEFAULT)

    await kube.evict(name="a", **OF_DEFAULT)

    assert "deletionTimestamp" in (await kube.get(PODS, "a", **OF_DEFAULT))["metadata"]
