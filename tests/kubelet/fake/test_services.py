"""The fake kubelet's services: names it takes, its rate limit, whom it shows."""

from __future__ import annotations

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from hamid.kubelet.fake import FakeContainer, FakeFeatures, FakeKubelet, FakePod, Phase
from hamid.kubelet.fake.services import RateLimit, is_extended_resource_name
from hamid.kubelet.pod_resources import PodResourcesClient
from hamid.kubelet.port import ContainerDevices


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        ("nvidia.com/gpu", True),
        ("hamid.io/gpu.shared_1", True),
        ("gpu", False),
        ("/gpu", False),
        ("nvidia.com/", False),
        ("requests.nvidia.com/gpu", False),
        ("kubernetes.io/gpu", False),
        ("x.kubernetes.io/gpu", False),
    ],
)
def test_a_resource_name_has_a_domain_of_its_own(name, is_taken):
    assert is_extended_resource_name(name) is is_taken


async def test_the_eleventh_call_at_once_is_turned_away():
    limit = RateLimit()
    for _ in range(10):
        limit.spend()

    limit.at = 1e18  # no time passes between the calls
    with pytest.raises(GRPCError) as caught:
        limit.spend()

    assert caught.value.status is Status.RESOURCE_EXHAUSTED


async def test_containers_without_slots_are_shown_empty(short_path):
    pod = FakePod(
        name="p",
        uid="u",
        containers=(
            FakeContainer(name="init", is_init=True),
            FakeContainer(name="side", is_init=True, is_sidecar=True),
            FakeContainer(name="main"),
        ),
    )
    async with FakeKubelet(short_path) as kubelet:
        await kubelet.admit(pod)
        client = PodResourcesClient(
            resource_name="nvidia.com/gpu", socket_path=kubelet.pod_resources_socket
        )
        found = await client.get("default", "p")
        client.close()

    assert found.containers == tuple(
        ContainerDevices(container_name=name, slot_ids=()) for name in ("side", "main")
    )


async def test_ended_pods_are_got_by_name_but_not_listed(short_path):
    async with FakeKubelet(short_path) as kubelet:
        await kubelet.admit(FakePod(name="p", uid="u", containers=()))
        kubelet.finish("u", Phase.FAILED)
        client = PodResourcesClient(
            resource_name="nvidia.com/gpu", socket_path=kubelet.pod_resources_socket
        )

        assert await client.list() == ()
        assert await client.get("default", "p") is not None
        client.close()


async def test_a_kubelet_may_serve_no_pod_resources_at_all(short_path):
    async with FakeKubelet(short_path, features=FakeFeatures(has_pod_resources=False)) as kubelet:
        assert not kubelet.pod_resources_socket.exists()
