"""The daemon's real roles over the fakes, with real HTTP and unix sockets between them."""

from __future__ import annotations

import io
from pathlib import Path

import aiohttp
import pytest
import yaml
from rich.console import Console

from hamid.aiokit.services import running
from hamid.daemon.simulate.nodes import SimulatedNode
from hamid.daemon.simulate.screen import Screen
from hamid.kube.client import KubeClient
from hamid.kube.errors import ApiError
from hamid.kube.port import NODES, PODS, STATEFUL_SETS, PatchKind
from hamid.kube.settings import KubeSettings
from tests.daemon.simulate.manifests import container, pod, workload
from tests.e2e.simulation import ONE_V100, apply, by_pod, simulation, state_of

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def given(outcome, name="main"):
    return [(part.memory_mib, part.core_percent) for part in outcome.containers[name]]


async def test_the_examples_end_as_they_say(tmp_path):
    documents = [
        document
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]

    async with simulation(tmp_path, *documents) as cluster:
        outcomes = by_pod(cluster)
        total_mib = {card.uuid: card.memory_mib for node in cluster.nodes for card in node.cards}

    (whole,) = outcomes["whole-card"].containers["train"]
    (half,) = outcomes["half-a-card"].containers["main"]
    assert {name: o.state for name, o in outcomes.items() if o.state != "running"} == {
        "too-large": "pending",
        "privileged": "refused",
    }
    assert given(outcomes["slice"]) == [(3000, 30)]
    assert (whole.memory_mib, whole.core_percent) == (total_mib[whole.uuid], 100)
    assert (half.memory_mib, half.core_percent) == (total_mib[half.uuid] // 2, 50)
    assert given(outcomes["two-containers"], "embed") == [(2000, 20)]
    assert given(outcomes["two-containers"], "rank") == [(5000, 0)]
    replicas = [outcome for name, outcome in outcomes.items() if name.startswith("inference-")]
    assert [given(replica, "server") for replica in replicas] == [[(8192, 25)]] * 4
    assert {part.model for part in outcomes["on-a100"].containers["main"]} == {
        "NVIDIA A100-SXM4-80GB"
    }
    assert len({part.uuid for part in outcomes["on-a100"].containers["main"]}) == 2
    assert "need 90000 MiB, largest has 81920 MiB" in outcomes["too-large"].reason
    assert "container 'main'" in outcomes["privileged"].reason


async def test_a_pod_gets_its_cards_however_their_number_is_written(tmp_path):
    documents = [
        pod("decimal", container(gpu="1.0", mem="3k")),
        pod("exponent", container(gpu="2e0", mem="2Gi")),
    ]

    async with simulation(tmp_path, *documents) as cluster:
        outcomes = by_pod(cluster)

    assert given(outcomes["decimal"]) == [(3000, 0)]
    assert given(outcomes["exponent"]) == [(2048, 0)] * 2


async def test_the_same_input_gives_the_same_answer_byte_for_byte(tmp_path):
    documents = [
        pod("init", container(gpu=1, mem=4000), initContainers=[container("i", gpu=1, mem=9000)]),
        workload(replicas=3, template={"spec": {"containers": [container(gpu=1, mem=6000)]}}),
        pod("whole", container(gpu=1)),
        *(pod(f"p-{n}", container(gpu=1, mem=1000 * n)) for n in range(1, 6)),
    ]
    answers = []

    for _ in range(2):
        async with simulation(tmp_path, *documents) as cluster:
            answers.append(b"".join(o.encode() for o in cluster.outcomes.look()))

    assert answers[0] == answers[1]
    assert answers[0].count(b"\n") == 10


async def test_outcomes_come_in_the_order_of_the_manifests(tmp_path):
    documents = [
        pod("z"),
        workload("StatefulSet", replicas=2),
        pod("a", container(gpu=1, mem=-1)),
        pod("m"),
    ]

    async with simulation(tmp_path, *documents, nodes=ONE_V100) as cluster:
        outcomes = cluster.outcomes.look()

    assert [o.pod for o in outcomes] == [
        f"default/{name}" for name in ("z", "web-0", "web-1", "a", "m")
    ]


async def test_a_pod_that_is_deleted_makes_room_for_one_that_waits(tmp_path):
    first, second = pod("first", container(gpu=1)), pod("second", container(gpu=1, mem=2000))

    async with simulation(tmp_path, first, second, nodes=ONE_V100) as cluster:
        waiting = by_pod(cluster)["second"]
        await cluster.kube.delete(PODS, "first", namespace="default")
        outcome = await state_of(cluster, "second", "running")

    assert waiting.state == "pending"
    assert "0/1 nodes are available" in waiting.reason
    assert given(outcome) == [(2000, 0)]


async def test_init_containers_hold_their_peak_until_they_are_done(tmp_path):
    def peaked(name):
        inits = [container(f"i{n}", gpu=1, mem=10_000) for n in (1, 2, 3)]
        return pod(name, container("app", gpu=1, mem=4000), initContainers=inits)

    async with simulation(tmp_path, peaked("first"), peaked("second"), nodes=ONE_V100) as cluster:
        outcomes = by_pod(cluster)

    assert [o.state for o in outcomes.values()] == ["running", "running"]
    assert [given(o, "app") for o in outcomes.values()] == [[(4000, 0)], [(4000, 0)]]


async def test_only_the_containers_that_ask_are_given_something(tmp_path):
    containers = [container("c1", percent=50), container("c2"), container("c3", gpu=1, mem=2000)]

    async with simulation(tmp_path, pod("a", *containers), nodes=ONE_V100) as cluster:
        outcome = by_pod(cluster)["a"]

    assert {name: given(outcome, name) for name in outcome.containers} == {
        "c1": [(8192, 0)],
        "c3": [(2000, 0)],
    }


async def test_a_refused_pod_of_a_workload_shows_as_that_pod(tmp_path):
    document = workload(
        "StatefulSet",
        replicas=2,
        template={
            "spec": {
                "containers": [container(gpu=1, mem=100, securityContext={"privileged": True})]
            }
        },
    )

    async with simulation(tmp_path, document, nodes=ONE_V100) as cluster:
        outcomes = by_pod(cluster)

    assert list(outcomes) == ["web-0", "web-1"]
    assert {o.state for o in outcomes.values()} == {"refused"}
    assert "privileged" in outcomes["web-1"].reason


async def test_a_deployment_of_twenty_on_one_node(tmp_path):
    document = workload(
        replicas=20, template={"spec": {"containers": [container(gpu=1, mem=700, cores=5)]}}
    )
    nodes = (SimulatedNode(name="n", cards=(*ONE_V100[0].cards, *ONE_V100[0].cards)),)

    async with simulation(tmp_path, document, nodes=nodes) as cluster:
        outcomes = by_pod(cluster)

    assert {(o.state, *given(o)) for o in outcomes.values()} == {("running", (700, 5))}
    assert len(outcomes) == 20


async def test_whoever_applies_scales_and_deletes_later_is_answered_live(tmp_path):
    async with (
        simulation(tmp_path, nodes=ONE_V100) as cluster,
        KubeClient.open(KubeSettings(kubeconfig=cluster.kubeconfig)) as user,
    ):
        await user.create(STATEFUL_SETS, workload("StatefulSet", replicas=1), namespace="default")
        await state_of(cluster, "web-0", "running")
        await user.patch(
            STATEFUL_SETS,
            "web",
            {"spec": {"replicas": 2}},
            kind=PatchKind.MERGE,
            namespace="default",
        )
        await state_of(cluster, "web-1", "running")
        with pytest.raises(ApiError, match="out of range"):
            await user.create(PODS, pod("odd", container(gpu=1, mem=-1)), namespace="default")
        await user.delete(STATEFUL_SETS, "web", namespace="default")
        await cluster.view.wait_until(lambda: not cluster.view.pods)
        nodes = (await user.list(NODES)).items

    assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "10"


async def test_pods_without_cards_need_no_cards(tmp_path):
    bare = (SimulatedNode(name="bare"),)

    async with simulation(tmp_path, pod("a"), pod("b", container(gpu=1)), nodes=bare) as cluster:
        outcomes = by_pod(cluster)

    assert (outcomes["a"].state, outcomes["a"].node) == ("running", "bare")
    assert "registers no card" in outcomes["b"].reason


async def test_a_preset_node_is_refused_with_cards_and_honoured_without(tmp_path):
    documents = [
        pod("cards", container(gpu=1), nodeName="n"),
        pod("plain", nodeName="n"),
        pod("lost", nodeName="nowhere"),
    ]

    async with simulation(tmp_path, *documents, nodes=ONE_V100) as cluster:
        outcomes = by_pod(cluster)

    assert {name: o.state for name, o in outcomes.items()} == {
        "cards": "refused",
        "plain": "running",
        "lost": "pending",
    }
    assert outcomes["lost"].reason == "there is no node 'nowhere'"


async def test_what_the_daemon_shows_is_there_to_see(tmp_path):
    async with (
        simulation(tmp_path, pod("a", container(gpu=1, mem=3000)), nodes=ONE_V100) as cluster,
        aiohttp.ClientSession(cluster.status_url) as session,
    ):
        pages = {}
        for path in ("/readyz", "/metrics", "/debug/", "/debug/allocations", "/debug/verdicts"):
            async with session.get(path) as response:
                assert response.status == 200, await response.text()
                pages[path] = await response.text()

    assert '"ready": true' in pages["/readyz"]
    assert (
        'hamid_container_memory_limit_bytes{container="main",device_uuid="GPU-' in pages["/metrics"]
    )
    assert "/debug/settings" in pages["/debug/"]
    assert '"pod_name": "a"' in pages["/debug/allocations"]


async def test_nothing_is_left_behind(tmp_path):
    async with simulation(tmp_path, pod("a", container(gpu=1)), nodes=ONE_V100) as cluster:
        directory = cluster.kubeconfig.parent
        assert directory.is_dir()

    assert not directory.exists()


async def test_the_terminal_shows_who_holds_what_and_why_others_wait(tmp_path):
    documents = [pod("held", container(gpu=1, mem=3000)), pod("large", container(gpu=1, mem=90000))]
    console = Console(file=io.StringIO(), width=120, height=40, force_terminal=True)

    with Screen.opened(console) as screen:
        async with (
            simulation(tmp_path, nodes=ONE_V100) as cluster,
            running(screen.of(cluster, notes=("a note",))),
        ):
            await apply(cluster, tmp_path, *documents)
            screen.show_now(cluster, notes=("a note",))

    shown = console.file.getvalue()
    assert "held 3000 MiB" in shown
    assert "need 90000 MiB" in shown
    assert str(cluster.kubeconfig) in shown
    assert "note: a note" in shown


async def test_without_a_terminal_the_picture_is_printed_when_all_is_at_rest(tmp_path):
    console = Console(file=io.StringIO(), width=120)

    with Screen.opened(console) as screen:
        async with simulation(tmp_path, pod("held", container(gpu=1)), nodes=ONE_V100) as cluster:
            screen.show_now(cluster, notes=())

    assert "held 16384 MiB 100 %" in console.file.getvalue()
    assert "\x1b" not in console.file.getvalue()
