import asyncio

import pytest

from hamid.aiokit.services import running
from hamid.codec.endpoints import ServerAddress
from hamid.kube.errors import NotFound
from hamid.kube.fake import FakeApi, FakeFeatures, FakeKube, Fault, FaultKind
from hamid.kube.port import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from hamid.sched.endpoint import LeaderEndpoint
from hamid.sched.leader_settings import EndpointSettings
from hamid.sched.leadership import FixedLeadership

SETTINGS = EndpointSettings(namespace="default")


@pytest.fixture
async def kube():
    kube = FakeKube()
    await create_service(kube)
    return kube


async def create_service(kube):
    service = {"metadata": {"name": SETTINGS.service_name, "namespace": "default"}}
    return await kube.create(SERVICES, service)


def make_endpoint(kube, *, address="10.0.0.7", leadership=None):
    return LeaderEndpoint(
        kube=kube,
        leadership=leadership or FixedLeadership(),
        server=ServerAddress(
            address=address, port=9443, port_name=SETTINGS.port_name, node_name="node-7"
        ),
        settings=SETTINGS,
    )


async def addresses(kube):
    found = await kube.get(ENDPOINT_SLICES, SETTINGS.service_name, namespace="default")
    return found["addressType"], found["endpoints"][0]["addresses"]


async def test_the_leader_publishes_its_address(kube):
    assert await make_endpoint(kube).step() == SETTINGS.interval_s

    assert await addresses(kube) == ("IPv4", ["10.0.0.7"])


async def test_a_new_leader_replaces_the_address_of_the_old(kube):
    await make_endpoint(kube).step()

    await make_endpoint(kube, address="10.0.0.8").step()

    assert await addresses(kube) == ("IPv4", ["10.0.0.8"])


async def test_a_leader_of_another_family_makes_a_new_slice(kube):
    await make_endpoint(kube).step()

    await make_endpoint(kube, address="fd00::8").step()

    assert await addresses(kube) == ("IPv6", ["fd00::8"])


async def test_an_address_that_stands_is_not_written_again(kube):
    endpoint = make_endpoint(kube)
    await endpoint.step()
    kube.requests.clear()

    await endpoint.step()

    assert kube.requests.by() == {("get", "endpointslices.discovery.k8s.io"): 1}


async def test_an_address_that_somebody_removed_is_written_again(kube):
    endpoint = make_endpoint(kube)
    await endpoint.step()
    await kube.delete(ENDPOINT_SLICES, SETTINGS.service_name, namespace="default")

    await endpoint.step()

    assert await addresses(kube) == ("IPv4", ["10.0.0.7"])


async def owners(kube):
    found = await kube.get(ENDPOINT_SLICES, SETTINGS.service_name, namespace="default")
    return found["metadata"].get("ownerReferences")


async def test_the_slice_belongs_to_the_service_and_goes_with_it(kube):
    service = await kube.get(SERVICES, SETTINGS.service_name, namespace="default")

    await make_endpoint(kube).step()

    uid = service["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Service", "name": SETTINGS.service_name, "uid": uid}
    assert await owners(kube) == [reference]


async def test_a_slice_of_before_is_given_to_the_service(kube):
    await make_endpoint(kube).step()
    without = await kube.get(ENDPOINT_SLICES, SETTINGS.service_name, namespace="default")
    del without["metadata"]["ownerReferences"]
    await kube.replace(ENDPOINT_SLICES, without)

    await make_endpoint(kube).step()

    assert await owners(kube)


async def test_without_the_service_nothing_is_left_behind(kube):
    """While hamid is uninstalled, the Service goes before the leader."""
    await kube.delete(SERVICES, SETTINGS.service_name, namespace="default")

    await make_endpoint(kube).step()

    with pytest.raises(NotFound):
        await addresses(kube)


async def test_where_the_service_may_not_be_read_the_address_is_published_all_the_same(kube):
    kube.faults.add(Fault(kind=FaultKind.STATUS, code=403, times=2, resource="services"))
    endpoint = make_endpoint(kube)

    await endpoint.step()
    kube.requests.clear()
    await endpoint.step()

    assert await addresses(kube) == ("IPv4", ["10.0.0.7"])
    assert await owners(kube) is None
    assert {verb for verb, _ in kube.requests.by()} == {"get"}


async def test_a_replica_that_may_not_act_writes_nothing(kube):
    await make_endpoint(kube, leadership=FixedLeadership(is_leader=False)).step()

    with pytest.raises(NotFound):
        await addresses(kube)


async def test_an_older_api_server_gets_endpoints():
    kube = FakeKube(api=FakeApi(features=FakeFeatures(version="1.20")))

    await make_endpoint(kube).step()
    await make_endpoint(kube, address="10.0.0.8").step()

    found = await kube.get(ENDPOINTS, SETTINGS.service_name, namespace="default")
    assert found["subsets"][0]["addresses"] == [{"ip": "10.0.0.8", "nodeName": "node-7"}]


async def test_endpoints_of_ours_are_taken_away_once_there_are_slices(kube):
    old = FakeKube(api=FakeApi(features=FakeFeatures(version="1.20")))
    await make_endpoint(old).step()
    left = await old.get(ENDPOINTS, SETTINGS.service_name, namespace="default")
    for field in ("uid", "resourceVersion"):
        left["metadata"].pop(field)
    await kube.create(ENDPOINTS, left)

    await make_endpoint(kube).step()

    with pytest.raises(NotFound):
        await kube.get(ENDPOINTS, SETTINGS.service_name, namespace="default")


async def test_endpoints_of_others_are_left_alone(kube):
    theirs = {"metadata": {"name": SETTINGS.service_name, "namespace": "default"}}
    await kube.create(ENDPOINTS, theirs)

    await make_endpoint(kube).step()

    assert await kube.get(ENDPOINTS, SETTINGS.service_name, namespace="default")


async def test_a_failure_is_said_once_and_tried_again_soon(kube, logs):
    endpoint = make_endpoint(kube)
    kube.faults.add(
        Fault(kind=FaultKind.STATUS, code=500, times=2, resource="endpointslices.discovery.k8s.io")
    )

    delays = [await endpoint.step() for _ in range(3)]

    assert max(delays[:2]) <= 1.0
    assert delays[2] == SETTINGS.interval_s
    events = [entry["event"] for entry in logs]
    assert events.count("leader endpoint not published") == 1
    assert events.count("leader endpoint published again") == 1


@pytest.mark.looptime
async def test_as_a_service_it_goes_on_looking(kube):
    async with running(make_endpoint(kube)):
        await asyncio.sleep(1)
        await kube.delete(ENDPOINT_SLICES, SETTINGS.service_name, namespace="default")
        await asyncio.sleep(SETTINGS.interval_s + 1)

    assert await addresses(kube) == ("IPv4", ["10.0.0.7"])
