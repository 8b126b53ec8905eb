"""A kubelet that has lost its checkpoint allocates anew for pods that run already."""

import pytest

from hamid.hooks.abi import contract
from hamid.kube.fake import Fault, FaultKind
from hamid.kubelet.fake import ContainerState, FakeFeatures, GetSupport, Phase
from hamid.plugin.settings import GrantMode
from tests.builders import uuid
from tests.plugin.node import Ask, running_node

FEATURES = [
    pytest.param(FakeFeatures(), id="kubelet 1.37"),
    pytest.param(FakeFeatures(has_pods_api=False), id="without the Pods API"),
    pytest.param(
        FakeFeatures(has_pods_api=False, get_support=GetSupport.DISABLED), id="Get turned off"
    ),
]


def lose_books(kubelet):
    kubelet.books.release_inactive(())


@pytest.mark.parametrize("features", FEATURES)
async def test_a_running_pod_is_given_its_own_again_though_another_waits(short_path, features):
    async with running_node(short_path, features=features) as node:
        running = await node.bind("p-runs", Ask(name="c", devices=(1,), memory_mib=700))
        await node.kubelet.run_pod(running)
        before = node.kubelet.grant(running.uid, "c").envs[contract.ENV_GRANT_ID]
        waiting = await node.bind("p-waits", Ask(name="c", devices=(2,), memory_mib=90))
        lose_books(node.kubelet)

        await node.kubelet.run_pod(running)
        await node.kubelet.run_pod(waiting)

        assert node.given("p-runs", "c") == {uuid(1): 700}
        assert node.given("p-waits", "c") == {uuid(2): 90}
        assert node.kubelet.grant(running.uid, "c").envs[contract.ENV_GRANT_ID] == before
        assert len(node.plugin.journal.grants()) == 2


@pytest.mark.parametrize("features", FEATURES)
async def test_containers_of_one_pod_are_given_their_own_again_in_turn(short_path, features):
    async with running_node(short_path, features=features) as node:
        pod = await node.bind(
            "pod-1",
            Ask(name="a", devices=(1,), memory_mib=100),
            Ask(name="b", devices=(1,), memory_mib=200),
        )
        await node.kubelet.run_pod(pod)
        lose_books(node.kubelet)

        await node.kubelet.run_pod(pod)

        assert node.given("pod-1", "a") == {uuid(1): 100}
        assert node.given("pod-1", "b") == {uuid(1): 200}


@pytest.mark.parametrize("mode", list(GrantMode))
async def test_a_pod_that_was_taken_for_a_running_one_never_changes_its_limits(short_path, mode):
    """The newcomer is unseen, and the API server down: its call looks like the running pod's."""
    async with running_node(short_path, settings={"grant_mode": mode}) as node:
        running = await node.bind("p-runs", Ask(name="c", devices=(1,), memory_mib=700))
        await node.kubelet.run_pod(running)
        unseen = await node.bind("p-new", Ask(name="c", devices=(1,), memory_mib=90), is_seen=False)
        outage = node.kube.faults.add(
            Fault(kind=FaultKind.STATUS, verb="list", code=503, times=None)
        )
        await node.kubelet.admit(unseen)
        node.kube.faults.waiting.remove(outage)

        status = await node.kubelet.start_pod(unseen.uid)

        assert status.phase is Phase.FAILED
        assert status.containers["c"].state is not ContainerState.RUNNING
        assert node.given("p-runs", "c") == {uuid(1): 700}
