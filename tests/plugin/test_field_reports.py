"""What users of GPU sharing ran into on the node: at Allocate, with metrics and with health.

A test is here where the report gives an input of its own. Where another test tries it already,
`ELSEWHERE` says which; "d" with a number is one of the twenty inputs that every part must pass.
"""

import ast
from pathlib import Path

import pytest

from hamid.kube.port import PODS
from hamid.kubelet.fake import ContainerState, FakeFeatures, Phase
from hamid.kubelet.pod_resources import PodResourcesClient
from hamid.model.request import ContainerKind
from hamid.plugin.health import DeviceView
from hamid.plugin.inventory import advertised, node_inventory
from hamid.plugin.settings import PluginSettings
from hamid.plugin.slots import slot_devices
from tests.builders import uuid
from tests.plugin.node import RESOURCE, Ask, running_node
from tests.plugin.values import nvml_device

ROOT = Path(__file__).parents[2]
REFUSED = "plugin/test_service.py::test_a_pod_without_decision_is_refused_in_words"
ANY_ORDER = "plugin/test_service.py::test_fifty_pods_at_once_in_any_order_get_each_its_own"
KUBELETS_ORDER = "plugin/test_service.py::test_the_kubelets_order_counts_not_that_of_the_bindings"
ONE_PER_CARD = "plugin/test_service.py::test_preferred_slots_are_one_per_decided_card"
FROM_THE_GRANT_ON = (
    "plugin/test_exporter.py::test_limits_and_a_use_of_zero_show_from_the_moment_of_the_grant"
)
WITHOUT_THE_API_SERVER = (
    "e2e/test_daemon.py::"
    "test_what_runs_starts_again_without_the_api_server_and_what_is_new_is_told_why_not"
)
XID_PASSES = "plugin/test_health.py::test_an_xid_of_the_card_is_seen_at_once_and_passes"
EACH_VERSION = (
    "deploy/test_chart.py::test_kube_scheduler_and_its_configuration_are_those_of_the_cluster"
)

ELSEWHERE = {
    "d3": ("plugin/test_service.py::test_sparse_containers_never_get_anothers_data",),
    "d4": (
        "plugin/test_service.py::test_a_container_put_in_front_after_admission_changes_nothing",
    ),
    "d10": (
        KUBELETS_ORDER,
        "plugin/test_service.py::test_a_pod_of_another_node_is_never_considered",
    ),
    "d11": (
        ONE_PER_CARD,
        "plugin/test_service.py::test_slots_of_other_cards_still_give_the_decided_ones",
    ),
    "d16": (
        FROM_THE_GRANT_ON,
        "plugin/test_exporter.py::test_a_restart_of_a_container_leaves_no_double_and_no_stale_series",
    ),
    "d20": (
        "kube/test_client.py::test_an_event_of_300_kib_arrives_whole",
        "kube/test_client.py::test_a_silent_watch_is_unavailable",
        "kube/test_watch.py::test_after_a_fault_the_sink_equals_the_server_and_missed_no_deletion",
        "kube/test_watch.py::test_the_wait_that_a_busy_server_asks_for_is_kept",
        "kube/test_transport.py::test_a_renewed_token_is_used_when_the_old_one_is_refused",
    ),
    "HAMi#653": (REFUSED, "cluster/test_chart.py::test_without_the_webhook_no_pod_of_ours_gets_in"),
    "HAMi#590": (REFUSED,),
    "KAI#104": ("cluster/test_chart.py::test_the_webhook_is_asked_about_no_pod_that_is_not_ours",),
    "HAMi#1130": (ANY_ORDER,),
    "HAMi#338": ("plugin/test_service.py::test_a_container_gets_what_was_decided_for_it",),
    "HAMi#781, #710": (KUBELETS_ORDER, ANY_ORDER),
    "HAMi-core#110": ("plugin/test_inventory.py::test_scheduler_and_kubelet_are_told_the_same",),
    "volcano-vgpu#52": ("plugin/test_service.py::test_a_pod_of_another_node_is_never_considered",),
    "volcano-vgpu#159": (
        "plugin/test_lost_books.py::test_a_pod_that_was_taken_for_a_running_one_never_changes_its_limits",
        "plugin/test_matching.py::test_a_pod_does_not_come_into_question",
    ),
    "HAMi#1741": (ONE_PER_CARD,),
    "gpushare-extender#42": (
        REFUSED,
        "kubelet/test_server.py::test_a_refusal_reaches_the_kubelet_with_message_and_hint",
    ),
    "gpushare-plugin#26": (ANY_ORDER,),
    "gpu-manager#182": (
        "codec/test_pod_request.py::test_each_combination_of_amounts_means_what_the_table_says",
    ),
    "HAMi-core#170": (
        "daemon/test_features.py::test_what_a_cluster_lacks_is_said_with_what_it_costs",
        "daemon/test_features.py::test_what_a_kubelet_lacks_is_said_with_what_it_costs",
    ),
    "kubernetes#125579": (
        "e2e/test_daemon.py::test_cards_are_registered_while_the_api_server_is_away_and_the_rest_follows",
        WITHOUT_THE_API_SERVER,
    ),
    "kubernetes#67107": (
        "plugin/test_service.py::test_cards_of_another_pod_never_start_where_they_cannot_be_mended",
    ),
    "device-plugin#58, #1014": (XID_PASSES,),
    "device-plugin#234": ("plugin/test_health.py::test_an_event_makes_no_card_unhealthy",),
    "device-plugin#491": ("sched/placement/test_place.py::test_a_container_gets_distinct_cards",),
    "HAMi#1814, #281, #863": (FROM_THE_GRANT_ON,),
    "HAMi#1089": (
        "plugin/test_exporter.py::test_what_the_driver_does_not_say_has_no_series",
        "nvml/test_cards.py::test_processes_that_cannot_be_listed_are_none_and_no_fault",
        "plugin/test_health.py::test_a_lost_card_never_hurts_its_siblings",
    ),
    "HAMi#2509": (
        "hooks/test_monitor.py::test_a_grant_that_is_gone_is_reported_no_more",
        "plugin/test_trimmer.py::test_pages_are_let_go_of_with_their_grants_and_at_the_end",
        "plugin/test_exporter.py::test_series_of_a_container_end_with_its_pod",
    ),
    "HAMi#576": (
        WITHOUT_THE_API_SERVER,
        "plugin/test_pods.py::test_an_api_server_that_is_down_leaves_what_is_known",
    ),
    "HAMi#1903": (
        "plugin/test_grants.py::test_with_cdi_the_answer_is_a_name_and_all_else_is_in_the_spec",
    ),
    "HAMi#744, #642, #8": (EACH_VERSION,),
    "HAMi#485": ("model/test_names.py::test_names_that_cannot_be_are_refused",),
    "HAMi#829": (  # what the kubelet lets another plugin give is no grant of ours
        "plugin/test_reconciler.py::test_drift_that_stays_is_an_event_once_and_a_metric_as_long",
    ),
    "HAMi#1027": ("daemon/test_driver.py::test_cards_that_come_later_are_noticed",),
    "HAMi#1143": (
        "deploy/test_chart.py::test_the_daemon_is_root_without_any_of_its_powers",
        "deploy/test_chart.py::test_the_daemon_may_do_exactly_this",
    ),
    "HAMi#1668": (
        "hooks/test_install.py::test_a_new_version_stands_beside_the_old_one",
        "cluster/test_installed.py::test_an_upgrade_leaves_tenants_alone",
    ),
    "toolkit#48": ("plugin/test_grants.py::test_the_answer_has_mounts_environment_and_nodes",),
}
"""Report → what tries it, below `tests/`."""


@pytest.mark.parametrize("test", sorted({test for tests in ELSEWHERE.values() for test in tests}))
def test_what_is_said_to_be_tried_elsewhere_is(test):
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text())

    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in defined


async def test_hami_2640_pods_that_ask_in_their_init_container_alone_get_each_its_own(short_path):
    """Both calls were taken for the first pod's, and the other pod failed."""
    async with running_node(short_path) as node:
        pods = [
            await node.bind(
                f"pod-{mib}",
                Ask(name="prep", devices=(1,), memory_mib=mib, kind=ContainerKind.INIT),
                Ask(name="web"),
            )
            for mib in (100, 200)
        ]

        for pod in reversed(pods):
            await node.kubelet.admit(pod)
        statuses = [await node.kubelet.start_pod(pod.uid) for pod in pods]

        assert [status.phase for status in statuses] == [Phase.RUNNING] * 2
        assert node.given("pod-100", "prep") == {uuid(1): 100}
        assert node.given("pod-200", "prep") == {uuid(1): 200}


async def test_hami_2214_an_answer_that_could_not_be_built_keeps_nobody_out(short_path):
    async with running_node(short_path) as node:
        pod = await node.bind("pod-1", Ask(name="c", devices=(1,), memory_mib=7))
        other = await node.bind("pod-2", Ask(name="c", devices=(1,), memory_mib=9))
        grants = node.plugin.files.directory
        grants.touch()
        failed = await node.kubelet.run_pod(pod)
        grants.unlink()

        await node.kubelet.run_pod(other)

        assert failed.phase is Phase.FAILED
        assert "pod default/pod-1 cannot be written" in failed.message
        assert node.given("pod-2", "c") == {uuid(1): 9}


async def test_hami_1106_a_card_that_the_node_does_not_have_is_refused_by_its_name(short_path):
    """The container failed to start, with an id of another node's."""
    async with running_node(short_path, device_count=1) as node:
        pod = await node.bind("pod-1", Ask(name="train", devices=(2,)))

        status = await node.kubelet.run_pod(pod)

        assert status.phase is Phase.FAILED
        assert f"card {uuid(2)}, which was decided for container 'train'" in status.message
        assert "placed anew" in status.message
        assert node.plugin.journal.grants() == ()


async def test_volcano_vgpu_2_after_a_pod_without_a_decision_the_next_is_served(short_path):
    async with running_node(short_path) as node:
        stray = await node.bind("stray", Ask(name="c", devices=(1,)), is_decided=False)
        pod = await node.bind("pod-1", Ask(name="c", devices=(1,), memory_mib=7))

        refused = await node.kubelet.run_pod(stray)
        status = await node.kubelet.run_pod(pod)

        assert refused.phase is Phase.FAILED
        assert status.containers["c"].state is ContainerState.RUNNING
        assert node.given("pod-1", "c") == {uuid(1): 7}


async def test_hami_968_112_annotation_kubelet_and_environment_name_the_same_cards(short_path):
    async with running_node(short_path, device_count=4) as node:
        decided = {f"pod-{n}": (1 + n % 4, 1 + (n + 1) % 4) for n in range(8)}
        for name, devices in decided.items():
            await node.kubelet.run_pod(await node.bind(name, Ask(name="c", devices=devices)))
        client = PodResourcesClient(
            resource_name=RESOURCE, socket_path=node.kubelet.pod_resources_socket
        )

        shown = {pod.name: pod.containers[0].slot_ids for pod in await client.list()}

        client.close()
        for name, devices in decided.items():
            cards = [uuid(n) for n in devices]
            grant = node.kubelet.grant(node.uids[name], "c")
            assert slot_devices(shown[name]) == set(cards)
            assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == ",".join(cards)


def test_hami_811_a_split_count_that_was_changed_is_what_scheduler_and_kubelet_are_told():
    view = DeviceView(devices=(nvml_device(1), nvml_device(2)))

    inventory = node_inventory(
        view, node_name="node-1", settings=PluginSettings(device_split_count=3)
    )

    assert [device.slot_count for device in inventory.devices] == [3, 3]
    assert len(advertised(inventory, report_numa=False)) == 6


@pytest.mark.parametrize(
    "features",
    [FakeFeatures(), FakeFeatures(has_pods_api=False)],
    ids=["kubelet 1.37", "without the Pods API"],
)
async def test_a_pod_made_anew_under_the_same_name_gets_its_own_though_the_old_one_is_remembered(
    short_path, features
):
    """As a StatefulSet makes them; the lock of HAMi's plugin knows no UID."""
    async with running_node(short_path, features=features) as node:
        await node.bind("pod-1", Ask(name="c", devices=(1,), memory_mib=100))
        await node.kube.delete(PODS, "pod-1", namespace="default", grace_period_s=0)
        ask = Ask(name="c", devices=(1,), memory_mib=200)
        anew = await node.bind("pod-1", ask, is_seen=False)

        await node.kubelet.run_pod(anew)

        assert node.given("pod-1", "c") == {uuid(1): 200}
        assert node.plugin.journal.served() == {(anew.uid, "c")}
