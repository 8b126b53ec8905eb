from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from hamid.codec.allocation_record import encode_allocation
from hamid.errors import KubeletError
from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import CoreMode
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import NODES, PODS, PatchKind
from hamid.kubelet.fake import ContainerState, FakeFeatures, FakeKubelet, GetSupport, Phase
from hamid.model.names import CORE_MODE, POD_ALLOCATED, POD_ALLOCATION, POD_NODE
from hamid.model.request import ContainerKind
from hamid.plugin.settings import GrantMode, UndecidedPods
from tests.builders import uuid
from tests.plugin.node import NODE, Ask, decide, plugin_on, running_node


async def test_a_container_gets_what_was_decided_for_it(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="train", devices=(2,), memory_mib=3_000))

        status = await node.kubelet.run_pod(pod)

        assert status.containers["train"].state is ContainerState.RUNNING
        assert node.given("pod-1", "train") == {uuid(2): 3_000}


async def test_the_answer_has_mounts_and_hamis_environment(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="train", devices=(1, 2), memory_mib=3_000))

        await node.kubelet.run_pod(pod)

        grant = node.kubelet.grant(pod.uid, "train")
        assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == f"{uuid(1)},{uuid(2)}"
        assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
        assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_1"] == "3000m"
        assert "CUDA_DEVICE_SM_LIMIT" not in grant.envs
        writable = {m.container_path for m in grant.mounts if not m.is_read_only}
        assert writable == {contract.USAGE_PAGE_PATH}


async def test_two_containers_of_one_pod_get_each_its_own(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind(
            "pod-1",
            Ask(name="a", devices=(1,), memory_mib=1_000),
            Ask(name="b", devices=(1,), memory_mib=2_000),
        )

        await node.kubelet.run_pod(pod)

        assert node.given("pod-1", "a") == {uuid(1): 1_000}
        assert node.given("pod-1", "b") == {uuid(1): 2_000}


async def test_sparse_containers_never_get_anothers_data(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind(
            "pod-1",
            Ask(name="c1", devices=(1,), memory_mib=20_000),
            Ask(name="c2"),
            Ask(name="c3", devices=(2,), memory_mib=2_000),
            Ask(name="c4"),
        )

        await node.kubelet.run_pod(pod)

        assert node.given("pod-1", "c1") == {uuid(1): 20_000}
        assert node.given("pod-1", "c3") == {uuid(2): 2_000}
        assert node.kubelet.grant(pod.uid, "c2") is None


async def test_a_container_put_in_front_after_admission_changes_nothing(short_path):
    """Another webhook may add containers at any place, after ours has seen the pod."""
    async with running_node(short_path) as node:
        pod = await node.bind(
            "pod-1", Ask(name="proxy"), Ask(name="app", devices=(2,), memory_mib=500)
        )

        await node.kubelet.run_pod(pod)

        assert node.given("pod-1", "app") == {uuid(2): 500}
        assert node.kubelet.grant(pod.uid, "proxy") is None


async def test_an_app_that_reuses_its_inits_slots_gets_its_own_limits(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind(
            "pod-1",
            Ask(name="prep", devices=(1,), memory_mib=5_000, kind=ContainerKind.INIT),
            Ask(name="side", devices=(2,), memory_mib=700, kind=ContainerKind.SIDECAR),
            Ask(name="web", devices=(1,), memory_mib=1_000),
        )

        await node.kubelet.run_pod(pod)

        assert node.given("pod-1", "prep") == {uuid(1): 5_000}
        assert node.given("pod-1", "side") == {uuid(2): 700}
        assert node.given("pod-1", "web") == {uuid(1): 1_000}


async def test_the_kubelets_order_counts_not_that_of_the_bindings(short_path):
    async with running_node(short_path, device_count=4) as node:
        old = await node.bind("p-old", Ask(name="c", devices=(1,), memory_mib=3_000))
        new = await node.bind("p-new", Ask(name="c", devices=(2, 3), memory_mib=1_000))

        await node.kubelet.admit(new)
        await node.kubelet.admit(old)

        assert node.given("p-new", "c") == {uuid(2): 1_000, uuid(3): 1_000}
        assert node.given("p-old", "c") == {uuid(1): 3_000}


async def test_a_pod_of_another_node_is_never_considered(short_path):
    async with running_node(short_path) as node:
        ask = Ask(name="c", devices=(1,), memory_mib=7)
        await node.bind("elsewhere", ask, node_name="node-2", is_seen=False)
        mine = await node.bind("mine", Ask(name="c", devices=(2,), memory_mib=5), is_seen=False)

        await node.kubelet.run_pod(mine)
        with pytest.raises(KubeletError, match="no pod of this node waits for 1 slot of"):
            await node.plugin.allocate((f"{uuid(1)}-0",))

        assert node.given("mine", "c") == {uuid(2): 5}


async def test_preferred_slots_are_one_per_decided_card(short_path):
    async with running_node(short_path, device_count=8) as node:
        pod = await node.bind("pod-1", Ask(name="c", devices=tuple(range(1, 9)), memory_mib=9))

        await node.kubelet.run_pod(pod)

        held = {slot.rpartition("-")[0] for slot in node.kubelet.slot_ids(pod.uid, "c")}
        assert held == {uuid(n) for n in range(1, 9)}


async def test_slots_of_other_cards_still_give_the_decided_ones(short_path, assert_logged):
    async with running_node(short_path, device_count=8) as node:
        await node.bind("pod-1", Ask(name="c", devices=tuple(range(1, 9)), memory_mib=9))
        scattered = tuple(f"{uuid(n)}-{m}" for n in (1, 2, 3, 4) for m in (0, 1))

        grant = await node.plugin.allocate(scattered)

        assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == ",".join(uuid(n) for n in range(1, 9))
        assert_logged("slots differ from decided cards", pod="default/pod-1")


async def test_a_pod_that_our_watch_has_not_seen_is_listed(short_path):
    async with running_node(short_path) as node:
        waiting = await node.bind("p-waits", Ask(name="c", devices=(1,), memory_mib=3_000))
        unseen = await node.bind("p-new", Ask(name="c", devices=(2,), memory_mib=5), is_seen=False)

        await node.kubelet.run_pod(unseen)
        await node.kubelet.run_pod(waiting)

        assert node.given("p-new", "c") == {uuid(2): 5}
        assert node.given("p-waits", "c") == {uuid(1): 3_000}


@pytest.mark.parametrize(
    "features",
    [
        pytest.param(FakeFeatures(), id="kubelet 1.37"),
        pytest.param(FakeFeatures(has_pods_api=False), id="without the Pods API"),
        pytest.param(
            FakeFeatures(has_pods_api=False, get_support=GetSupport.DISABLED), id="Get turned off"
        ),
    ],
)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
async def test_fifty_pods_at_once_in_any_order_get_each_its_own(short_path, features, seed):
    rng, amounts = random.Random(seed), itertools.count(100)
    async with running_node(short_path, device_count=24, seed=seed, features=features) as node:
        asks = {f"pod-{n}": any_containers(rng, amounts, card_count=24) for n in range(50)}
        order = [await node.bind(name, *asked) for name, asked in asks.items()]
        rng.shuffle(order)

        for pod in order:
            await node.kubelet.admit(pod)
        rng.shuffle(order)
        for pod in order:
            await node.kubelet.start_pod(pod.uid)

        for name, asked in asks.items():
            for ask in asked:
                if ask.devices:
                    expected = {uuid(n): ask.memory_mib for n in ask.devices}
                    assert node.given(name, ask.name) == expected
        assert {node.kubelet.statuses[pod.uid].phase for pod in order} == {Phase.RUNNING}


def any_containers(rng, amounts, *, card_count):
    """Of all kinds and in any order, with and without cards; no amount comes twice."""
    kinds = [ContainerKind.APP]
    kinds += rng.choices(list(ContainerKind), k=rng.choice((0, 1, 1, 2)))
    counts = [rng.choice((1, 1, 1, 2)), *(rng.choice((0, 1, 1, 2)) for _ in kinds[1:])]
    asks = [
        Ask(
            name=f"c{position}",
            devices=tuple(rng.sample(range(1, card_count + 1), count)),
            memory_mib=next(amounts),
            kind=kind,
        )
        for position, (kind, count) in enumerate(zip(kinds, counts, strict=True))
    ]
    rng.shuffle(asks)
    return asks


@pytest.mark.parametrize("mode", list(GrantMode))
async def test_a_wrong_guess_is_mended_before_the_container_exists(short_path, mode):
    """Without pod resources and Pods API the order is a guess; the checkpoint is not."""
    features = FakeFeatures(has_pods_api=False, has_pod_resources=False)
    settings = {"grant_mode": mode}
    async with running_node(short_path, features=features, settings=settings) as node:
        first = await node.bind("p-first", Ask(name="c", devices=(1,), memory_mib=3_000))
        second = await node.bind("p-second", Ask(name="c", devices=(1,), memory_mib=50))

        for pod in (second, first):
            await node.kubelet.admit(pod)
        for pod in (second, first):
            await node.kubelet.start_pod(pod.uid)

        assert node.given("p-first", "c") == {uuid(1): 3_000}
        assert node.given("p-second", "c") == {uuid(1): 50}
        assert node.plugin.journal.served() == {(first.uid, "c"), (second.uid, "c")}


async def test_cards_of_another_pod_are_mended_by_cdi(short_path):
    features = FakeFeatures(has_pods_api=False, has_pod_resources=False)
    settings = {"grant_mode": GrantMode.CDI}
    async with running_node(short_path, features=features, settings=settings) as node:
        await node.bind("p-first", Ask(name="c", devices=(1,), memory_mib=3_000))
        second = await node.bind("p-second", Ask(name="c", devices=(2,), memory_mib=50))

        await node.kubelet.run_pod(second)

        assert node.given("p-second", "c") == {uuid(2): 50}


async def test_cards_of_another_pod_never_start_where_they_cannot_be_mended(short_path):
    features = FakeFeatures(has_pods_api=False, has_pod_resources=False)
    async with running_node(short_path, features=features) as node:
        await node.bind("p-first", Ask(name="c", devices=(1,), memory_mib=3_000))
        second = await node.bind("p-second", Ask(name="c", devices=(2,), memory_mib=50))

        status = await node.kubelet.run_pod(second)

        assert status.containers["c"].state is ContainerState.CONFIG_ERROR
        assert "cards of pod default/p-first" in status.containers["c"].message


async def test_cards_that_stand_in_the_answer_are_not_mended_by_cdi(short_path):
    """It was given before the kubelet was known to take names of CDI."""
    features = FakeFeatures(has_pods_api=False, has_pod_resources=False)
    settings = {"grant_mode": GrantMode.CDI}
    async with running_node(short_path, features=features, settings=settings) as node:
        await node.bind("p-first", Ask(name="c", devices=(1,), memory_mib=3_000))
        second = await node.bind("p-second", Ask(name="c", devices=(2,), memory_mib=50))
        node.plugin.files.takes_cdi_names = False
        await node.kubelet.admit(second)
        node.plugin.files.takes_cdi_names = True

        status = await node.kubelet.start_pod(second.uid)

        assert status.containers["c"].state is ContainerState.CONFIG_ERROR
        assert "cards of pod default/p-first" in status.containers["c"].message


async def test_a_daemon_killed_between_allocate_and_prestart_comes_back_right(short_path):
    kube = FakeKube()
    await kube.create(NODES, {"metadata": {"name": NODE}})
    async with FakeKubelet(short_path / "kubelet") as kubelet:
        async with plugin_on(short_path, kubelet, kube) as node:
            pod = await node.bind("pod-1", Ask(name="c", devices=(1,), memory_mib=700))
            other = await node.bind("pod-2", Ask(name="c", devices=(1,), memory_mib=90))
            await kubelet.admit(pod)

        async with plugin_on(short_path, kubelet, kube) as node:
            await kubelet.start_pod(pod.uid)
            await kubelet.run_pod(other)

            assert node.given("pod-1", "c") == {uuid(1): 700}
            assert node.given("pod-2", "c") == {uuid(1): 90}
            assert len(node.plugin.journal.grants()) == 2


async def test_what_a_container_has_got_no_annotation_changes_later(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="train", devices=(1,), memory_mib=700))
        await node.kubelet.run_pod(pod)

        more = encode_allocation(
            decide(pod.uid, [Ask(name="train", devices=(1,), memory_mib=39_000)])
        )
        patch = {"metadata": {"annotations": {POD_ALLOCATION: more}}}
        node.pods.keep(
            await node.kube.patch(PODS, "pod-1", patch, kind=PatchKind.MERGE, namespace="default")
        )
        status = await node.kubelet.start_container(pod.uid, "train")

        assert status.containers["train"].state is ContainerState.RUNNING
        assert node.given("pod-1", "train") == {uuid(1): 700}


async def test_a_grant_whose_pod_shares_otherwise_by_now_is_rewritten_and_not_called_mended(
    short_path, logs
):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="train", devices=(1,), memory_mib=700))
        await node.kubelet.run_pod(pod)

        patch = {"metadata": {"annotations": {CORE_MODE: "lend"}}}
        node.pods.keep(
            await node.kube.patch(PODS, "pod-1", patch, kind=PatchKind.MERGE, namespace="default")
        )
        await node.kubelet.start_container(pod.uid, "train")

        assert node.limits("pod-1", "train").mode is CoreMode.LEND
        assert "grant mended" not in [entry["event"] for entry in logs]


@pytest.mark.parametrize("undecided", UndecidedPods)
async def test_nobody_gets_anything_by_hamis_record_alone(short_path, undecided):
    """It has no UID, so anybody can write one into a pod before it is created."""
    async with running_node(short_path, settings={"undecided_pods": undecided}) as node:
        pod = await node.bind("pod-1", Ask(name="train", devices=(1,)), is_decided=False)
        record = {POD_NODE: NODE, POD_ALLOCATED: f"{uuid(1)},NVIDIA,700,0:;"}
        patch = {"metadata": {"annotations": record}}
        node.pods.keep(
            await node.kube.patch(PODS, "pod-1", patch, kind=PatchKind.MERGE, namespace="default")
        )

        status = await node.kubelet.run_pod(pod)

        assert status.phase is Phase.FAILED
        assert "placed by HAMi, or says so" in status.message


async def test_a_slice_for_one_container_makes_no_decision_of_what_hami_says_of_another(short_path):
    settings = {"undecided_pods": UndecidedPods.SLICE}
    async with running_node(short_path, settings=settings) as node:
        asks = Ask(name="a", devices=(1,)), Ask(name="b", devices=(1,))
        pod = await node.bind("pod-1", *asks, is_decided=False)
        record = {POD_NODE: NODE, POD_ALLOCATED: f";{uuid(1)},NVIDIA,39000,0:;"}
        patch = {"metadata": {"annotations": record}}
        node.pods.keep(
            await node.kube.patch(PODS, "pod-1", patch, kind=PatchKind.MERGE, namespace="default")
        )

        status = await node.kubelet.run_pod(pod)

        assert status.phase is Phase.FAILED
        assert "placed by HAMi, or says so" in status.message
        assert node.plugin.journal.grants() == ()


async def test_a_lost_journal_is_rebuilt_at_the_next_start(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="c", devices=(1,), memory_mib=700))
        await node.kubelet.run_pod(pod)
        (grant,) = node.plugin.journal.grants()
        await node.plugin.journal.remove(grant.grant_id)
        await node.plugin.files.remove(grant.grant_id)

        await node.kubelet.start_container(pod.uid, "c")

        assert node.given("pod-1", "c") == {uuid(1): 700}
        assert node.plugin.journal.served() == {(pod.uid, "c")}


async def test_the_kubelet_that_forgot_is_answered_the_same_again(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="c", devices=(2,), memory_mib=700))
        await node.kubelet.run_pod(pod)
        before = node.plugin.journal.grants()
        await node.kubelet.stop()  # and nobody else can say what it knows

        answer = await node.plugin.allocate((f"{uuid(2)}-5",))

        assert answer.envs[contract.ENV_GRANT_ID] == before[0].grant_id
        assert len(node.plugin.journal.grants()) == 1


async def test_a_pod_without_decision_is_refused_in_words(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("stray", Ask(name="c", devices=(1,)), is_decided=False)

        status = await node.kubelet.run_pod(pod)

        assert status.phase is Phase.FAILED
        assert "default/stray was not placed by hamid's scheduler" in status.message


async def test_a_pod_without_decision_gets_a_slice_that_the_books_count(short_path):
    settings = {"undecided_pods": UndecidedPods.SLICE, "default_slice_memory_mib": 30_000}
    async with running_node(short_path, device_count=1, settings=settings) as node:
        first = await node.bind("stray-1", Ask(name="c", devices=(1,)), is_decided=False)
        second = await node.bind("stray-2", Ask(name="c", devices=(1,)), is_decided=False)

        await node.kubelet.run_pod(first)
        refused = await node.kubelet.run_pod(second)

        assert node.given("stray-1", "c") == {uuid(1): 30_000}
        assert "no slice of 30000 MiB is free" in refused.message
        recorded = await node.kube.get(PODS, "stray-1", namespace="default")
        assert uuid(1) in recorded["metadata"]["annotations"]["hamid.io/allocation"]


async def test_a_forged_count_is_refused(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="c", devices=(1, 2)))
        record = node.pods.pod(pod.uid)
        assert record is not None

        with pytest.raises(KubeletError, match="no pod of this node waits for 3 slots"):
            await node.plugin.allocate(tuple(f"{uuid(1)}-{n}" for n in range(3)))


async def test_overlapping_calls_never_serve_one_container_twice(short_path):
    async with running_node(short_path) as node:
        for n, mib in enumerate((100, 200)):
            await node.bind(f"pod-{n}", Ask(name="c", devices=(1,), memory_mib=mib))
        slots = [(f"{uuid(1)}-{n}",) for n in range(2)]

        await asyncio.wait_for(_together(*(node.plugin.allocate(ids) for ids in slots)), 10)

        assert sorted(g.shares[0].memory_mib for g in node.plugin.journal.grants()) == [100, 200]


async def _together(*calls):
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)


async def test_a_pod_that_the_api_server_does_not_tell_of_fails_with_that_reason(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="train", devices=(1,)), is_seen=False)
        node.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="list", code=503, times=None))

        status = await node.kubelet.run_pod(pod)

        assert status.phase is Phase.FAILED
        assert "the API server did not tell" in status.message
        assert "reaches the API server" in status.message
