"""What users of GPU sharing ran into, as far as the scheduler decides it and no GPU is needed.

What is of the node is in tests/plugin/test_field_reports.py, what is of the library in
tests/native/test_reports.py.

A test is here where the report gives an input of its own. Where another test tries it already,
`ELSEWHERE` says which; "d" with a number is one of the twenty inputs that every part must pass.
"""

import ast
import asyncio
from pathlib import Path

import pytest

from hamid.codec.allocation_record import decode_allocation
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import PODS
from hamid.model import names as wire
from hamid.model.quantities import WHOLE_CARD, MemoryMib, MemoryPercent
from hamid.sched.bind import BindRefused
from hamid.sched.placement.explain import cluster_sentence
from hamid.sched.placement.place import Placement, place, with_allocation
from hamid.sched.placement.policy import Policies
from tests.builders import container_object
from tests.sched.builders import (
    make_container,
    make_device,
    make_devices,
    make_node,
    make_request,
    make_share,
    whole_card,
)
from tests.sched.objects import bound, registered, waiting
from tests.sched.world import World

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "d1": (
        "sched/test_admission_rules.py::test_every_kind_of_container_that_asks_makes_the_pod_ours",
        "cluster/test_leading.py::test_an_ephemeral_container_gets_no_resources_and_so_no_devices",
        "sched/test_admission_rules.py::test_a_pod_that_asks_in_its_init_container_alone_is_held_to_the_quota",
        "codec/test_pod_request.py::test_an_amount_may_stand_in_limits_and_another_in_requests",
    ),
    "d2": (
        "sched/test_extender.py::test_the_second_pod_fits_after_the_init_phase_of_the_first",
        "sched/placement/test_place.py::test_what_is_checked_is_what_is_booked",
        "sched/test_cache.py::test_a_restart_sees_that_the_init_phase_is_over",
    ),
    "d3": ("sched/test_bind.py::test_sparse_containers_are_stored_as_exactly_those_that_ask",),
    "d5": (
        "codec/test_pod_request.py::test_the_matrix_has_all_combinations",
        "codec/test_pod_request.py::test_each_combination_of_amounts_means_what_the_table_says",
        "codec/test_pod_request.py::test_limits_and_requests_that_differ_are_refused",
    ),
    "d6": (
        "codec/test_pod_request.py::test_memory_is_converted_exactly",
        "codec/test_pod_request.py::test_other_amounts_that_cannot_be_are_refused_likewise",
        "codec/test_pod_request.py::test_any_amount_is_taken_or_refused_and_never_booked_as_nothing",
    ),
    "d7": (
        "sched/test_admission_rules.py::test_what_the_operator_may_not_want_gets_one_verdict_by_his_policy",
    ),
    "d8": (
        "sched/placement/test_place.py::test_devices_are_chosen_by_policy",
        "sched/placement/test_search.py::test_numa_never_outranks_the_asked_order",
        "sched/placement/test_search.py::test_a_card_without_a_numa_node_is_no_obstacle_and_no_partner",
        "sched/placement/test_search.py::test_bound_to_one_numa_node_the_refusal_says_so",
    ),
    "d9": (
        "sched/test_extender.py::test_what_is_reserved_is_not_offered_again",
        "sched/test_extender.py::test_after_the_winner_fails_the_loser_fits",
        "sched/test_quota_decisions.py::test_report_d9_of_two_at_once_one_passes",
        "sched/test_quota_decisions.py::test_report_d9_a_failed_bind_gives_all_back_and_the_loser_fits",
    ),
    "d12": (
        "sched/test_cache.py::test_a_lost_delete_is_healed_by_the_next_list",
        "daemon/test_replicas_in_time.py::test_d12_a_leader_that_goes_on_makes_up_for_a_deletion_that_it_never_saw",
        "cluster/test_fleet.py::test_deletions_that_no_leader_saw_are_healed_by_the_list",
    ),
    "d13": (
        "daemon/test_replicas_in_time.py::test_d13_a_pod_is_bound_within_three_seconds_though_the_leader_learns_late_of_the_room",
        "cluster/test_waking.py::test_d13_a_pod_that_waits_for_one_that_ends_is_bound_within_seconds",
    ),
    "d14": (
        "daemon/test_replicas_in_time.py::test_d14_nodes_never_vanish_and_pods_are_bound_once_while_leaders_are_killed_and_frozen",
        "cluster/test_replicas.py::test_pods_are_bound_once_while_leaders_are_killed_and_frozen",
    ),
    "d15": (
        "sched/test_quota_decisions.py::test_report_d15_several_cards_are_charged_each",
        "sched/test_quota_decisions.py::test_report_d15_a_percentage_is_charged_on_the_card_really_chosen",
    ),
    "HAMi#1162": (
        "sched/test_admission_rules.py::test_a_pod_that_made_no_choice_of_scheduler_gets_ours",
    ),
    "HAMi#488": (
        "sched/test_admission_rules.py::test_what_the_operator_may_not_want_gets_one_verdict_by_his_policy",
    ),
    "HAMi#893": ("codec/test_quota.py::test_a_key_that_does_not_do_what_it_seems_to_is_told_of",),
    "HAMi#815": (
        "sched/placement/test_explain.py::test_a_cluster_without_cards_says_so",
        "sched/test_known_node.py::test_without_slots_it_has_no_devices_until_there_are_some_again",
        "sched/test_outlook.py::test_why_nodes_that_registered_cards_have_none_to_give_is_said",
    ),
    "HAMi#620, #591": ("sched/placement/test_explain.py::test_too_few_cards_on_several_nodes",),
    "HAMi#1528": (
        "sched/placement/test_place.py::test_a_container_gets_distinct_cards",
        "sched/placement/test_explain.py::test_too_few_cards_on_several_nodes",
    ),
    "HAMi#812, #1557": (
        "sched/test_waker.py::test_a_node_whose_cards_were_away_makes_room_once_they_are_back",
        "sched/test_waker.py::test_a_node_that_is_deleted_and_made_anew_makes_room",
        "cluster/test_waking.py::test_a_node_that_comes_wakes_the_pod_that_waits",
        "cluster/test_waking.py::test_a_node_whose_cards_are_back_wakes_the_pod_that_waits",
        "cluster/test_waking.py::test_a_node_that_is_deleted_and_made_anew_wakes_the_pod_that_waits",
    ),
    "HAMi#1875": (
        "cluster/test_waking.py::test_a_card_that_is_healthy_again_wakes_the_pod_that_waits_for_it",
    ),
    "HAMi#1954, #877": (
        "cluster/test_slices.py::test_a_pod_of_the_gap_between_two_leaders_is_bound_once",
    ),
    "HAMi#1458": (
        "daemon/test_replicas_in_time.py::test_d12_a_leader_that_goes_on_makes_up_for_a_deletion_that_it_never_saw",
        "sched/test_schedules.py::test_the_books_are_right_and_nothing_is_promised_twice_nor_beyond_a_quota",
    ),
    "HAMi#1899": (
        "daemon/test_replicas_in_time.py::test_d14_nodes_never_vanish_and_pods_are_bound_once_while_leaders_are_killed_and_frozen",
    ),
    "HAMi#303": ("sched/test_bind.py::test_a_failed_bind_frees_the_room",),
    "HAMi#538": ("sched/placement/test_fit.py::test_amounts",),
    "volcano#3616": (
        "sched/placement/test_properties.py::test_a_cluster_that_is_filled_is_never_over_capacity",
    ),
    "volcano#5335": (
        "sched/test_admission_rules.py::test_annotations_of_ours_on_a_new_pod_are_stripped_with_a_warning",
        "codec/test_allocation_record.py::test_a_decision_of_hami_that_did_not_become_a_binding_holds_nothing",
    ),
    "volcano#5532": ("codec/test_allocation_record.py::test_a_record_that_was_copied_is_refused",),
    "HAMi#1106": (
        "sched/test_bind.py::test_another_node_than_the_reserved_one_gets_the_pod_if_it_fits_there",
    ),
    "KAI#2153": ("cluster/test_fleet.py::test_a_burst_is_placed_as_the_books_say",),
    "vgpu-manager#4": ("sched/placement/test_place.py::test_app_containers_add_up_on_one_card",),
    "HAMi#1105": (
        "sched/test_admission_rules.py::test_a_misspelt_annotation_does_not_pass_in_silence",
    ),
    "HAMi#958": ("sched/placement/test_fit.py::test_what_the_device_is",),
    "HAMi#295": ("sched/placement/test_fit.py::test_models_match_by_whole_words",),
    "HAMi#654": (
        "codec/test_pod_request.py::test_a_container_that_was_inserted_before_ours_changes_nothing_but_the_names",
    ),
    "HAMi#212": (
        "codec/test_extender.py::test_any_body_is_read_or_refused",
        "sched/test_admission_rules.py::test_a_pod_with_anything_in_any_place_is_judged",
    ),
    "HAMi#1075": (
        "sched/test_cache.py::test_a_malformed_registration_is_logged_once_and_counts_as_no_device",
    ),
    "HAMi#2959": (
        "sched/test_cache.py::test_a_card_that_an_unreadable_record_names_is_given_to_nobody_else",
    ),
    "HAMi#1494, volcano#4863": (
        "cluster/test_preemption.py::test_a_pod_short_of_card_memory_alone_gets_it_and_only_one_has_to_go",
        "cluster/test_preemption.py::test_a_disruption_budget_is_never_broken",
    ),
    "koordinator#1959": (
        "sched/test_preemptor.py::test_the_cards_are_kept_for_it_while_the_victim_ends",
    ),
    "koordinator#2151": (
        "sched/placement/test_search.py::test_a_card_without_a_numa_node_is_no_obstacle_and_no_partner",
    ),
    "HAMi#1006": ("sched/placement/test_search.py::test_numa_never_outranks_the_asked_order",),
    "HAMi#2103": (
        "nvml/test_topology.py::test_links_to_a_peer",
        "nvml/test_cards.py::test_cards_on_one_switch_are_linked_with_each_other",
    ),
    "kubernetes#72634": (
        "sched/test_extender.py::test_whole_nodes_are_refused_with_what_to_set",
        "deploy/test_chart.py::test_kube_scheduler_shows_the_extender_every_node_and_only_our_pods",
    ),
    "HAMi#2880": (
        "sched/placement/test_properties.py::test_a_refusal_has_true_reasons",
        "sched/placement/test_properties.py::test_a_refusal_names_exactly_the_cards_that_do_not_do",
    ),
    "HAMi#1336": ("sched/placement/test_fit.py::test_what_the_device_is",),
    # Admission, and what the scheduler shows.
    "HAMi#611, #790": (
        "sched/test_admission_rules.py::test_what_the_operator_may_not_want_gets_one_verdict_by_his_policy",
    ),
    "HAMi#1863, #2744": (
        "codec/test_pod_request.py::test_each_combination_of_amounts_means_what_the_table_says",
        "sched/test_admission_rules.py::test_a_count_that_is_understood_is_written_down_and_limits_equal_requests",
    ),
    "HAMi#2156": (
        "codec/test_pod_request.py::test_other_amounts_that_cannot_be_are_refused_likewise",
    ),
    "HAMi#1512": (
        "daemon/test_scheduler_role.py::test_a_follower_knows_the_leader_and_lists_nothing",
    ),
    # On the node; the others are in tests/plugin/test_field_reports.py.
    "HAMi#1367": (
        "cluster/test_slices.py::test_a_deployment_of_twenty_on_one_node",
        "plugin/test_service.py::test_fifty_pods_at_once_in_any_order_get_each_its_own",
    ),
    "HAMi#705": ("plugin/test_inventory.py::test_scaling_is_exact_and_rounds_down",),
    "HAMi#1099": (
        "cluster/test_autoscaling.py::test_hami_1099_room_is_found_where_the_sums_are_stated_until_they_are_used_up",
        "plugin/test_amounts.py::test_no_pod_that_was_placed_is_refused_whatever_else_the_node_goes_through",
    ),
    "HAMi#2573": ("hooks/test_lending.py::test_a_container_that_is_gone_is_let_go",),
}
"""Report → what tries it, below `tests/`."""


@pytest.mark.parametrize("test", sorted({test for tests in ELSEWHERE.values() for test in tests}))
def test_what_is_said_to_be_tried_elsewhere_is(test):
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text())

    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in defined


def filled(request, *nodes):
    """How many pods like this one find room, one after another."""
    by_name = {node.node_name: node for node in nodes}
    count = 0
    while isinstance(found := place(request, by_name.values(), policies=Policies()), Placement):
        best = found.best
        by_name[best.node_name] = with_allocation(by_name[best.node_name], best.allocation("x"))
        count += 1
    return count


def test_kai_416_as_many_pods_fit_as_there_are_whole_mib_for():
    """24 pods of 2000 MiB were taken onto a card of 46068 MiB."""
    card = make_device(memory_mib=46_068, slot_count=100)

    assert (
        filled(make_request(make_container(memory=MemoryMib(mib=2_000))), make_node(devices=[card]))
        == 23
    )


def test_gpushare_188_all_cards_are_considered():
    """Of five pods of 10 GiB on four cards of 23 GiB the fifth waited."""
    node = make_node(devices=make_devices(4, memory_mib=23 * 1_024))

    assert filled(make_request(make_container(memory=MemoryMib(mib=10 * 1_024))), node) == 8


@pytest.mark.parametrize("memory_mib", [40_000, 40_001, 40_537, 11_441])
def test_nos_47_two_halves_of_a_card_fit_whatever_its_size(memory_mib):
    node = make_node(devices=[make_device(memory_mib=memory_mib)])
    half = make_request(make_container(memory=MemoryPercent(percent=50), core_percent=50))

    assert filled(half, node) == 2


def test_koordinator_2097_several_cards_at_half_their_memory_each():
    four_halves = make_container(memory=MemoryPercent(percent=50), device_count=4)

    assert filled(make_request(four_halves), make_node(devices=make_devices(4))) == 2


def test_hami_888_a_pod_that_asks_for_no_memory_is_told_that_it_asks_for_the_whole_card():
    request = make_request(make_container(memory=WHOLE_CARD, core_percent=30))
    used = make_request(make_container(memory=MemoryMib(mib=1)))
    node = make_node()
    node = with_allocation(node, place(used, [node], policies=Policies()).best.allocation("x"))

    refusals = place(request, [node], policies=Policies()).refusals

    assert cluster_sentence(request, refusals) == (
        "no card of 1 fits: 1 lacks memory (need 40000 MiB, the whole card, most free 39999 MiB)"
    )


async def turn_over(world, *, rounds, **pod):
    """One pod after another takes the place of the one before, which ends."""
    for number in range(rounds):
        (call,) = await world.create(waiting(name=f"pod-{number}", **pod))
        assert (await world.filter(call)).node_names
        await world.binder.bind(call.bind("node-a"))
        await world.sync()
        yield
        await world.kube.delete(PODS, call.name, namespace="default", grace_period_s=0)
        await world.sync()


async def test_gpushare_201_hami_594_use_returns_to_nothing_after_churn():
    world = World()
    await world.create(registered(devices=make_devices(2)))
    empty = world.cache.snapshot("node-a")

    async for _ in turn_over(world, rounds=50, mib=7_000):
        assert (
            sum(usage.memory_used_mib for usage in world.cache.snapshot("node-a").usages) == 7_000
        )

    assert world.cache.snapshot("node-a") == empty
    world.assert_books_are_right()


async def test_hami_1491_exclusive_pods_never_share_a_card_while_others_come_and_go():
    world = World()
    await world.create(registered(devices=make_devices(8)))
    two_cards = (container_object("main", {"gpu": 2}),)
    for number in range(3):
        (call,) = await world.create(waiting(name=f"stays-{number}", containers=two_cards))
        await world.filter(call)
        await world.binder.bind(call.bind("node-a"))

    async for _ in turn_over(world, rounds=50, containers=two_cards):
        usages = world.cache.snapshot("node-a").usages
        assert [usage.exclusive_count for usage in usages] == [1] * 8


async def test_hami_343_what_the_scheduler_keeps_does_not_grow_with_churn():
    world = World(verdict_count=10)
    await world.create(registered())

    def kept():
        extender, cache = world.extender, world.cache
        return (
            len(cache.pod_records()),
            len(cache.reservations()),
            len(extender.explanations.all()),
            len(extender.refused.tries()),
            len(list(extender.nominations)),
        )

    async for _ in turn_over(world, rounds=20):
        pass
    before = kept()
    async for _ in turn_over(world, rounds=40):
        pass

    assert kept() == before


async def test_kai_2153_a_hundred_filters_at_once_never_promise_a_card_twice():
    world = World()
    await world.create(registered(devices=make_devices(4, slot_count=100)))
    calls = await world.create(*(waiting(name=f"p{n}", mib=12_000) for n in range(100)))

    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(world.filter(call)) for call in calls]

    assert sum(bool(answer.result().node_names) for answer in answers) == 12
    usages = world.cache.snapshot("node-a").usages
    assert all(usage.memory_used_mib == 36_000 for usage in usages)


def test_a_whole_card_asked_for_by_count_alone_is_booked_whole():
    """HAMi#1353: it showed 0 cores allocated, which was read as free."""
    node = make_node()
    found = place(make_request(whole_card()), [node], policies=Policies()).best

    (usage,) = with_allocation(node, found.allocation("x")).usages
    assert (usage.core_used_percent, usage.memory_used_mib) == (100, 40_000)


async def test_hami_2335_devices_of_another_family_move_no_card_to_another_container():
    """The device was written down for the container of the other family."""
    world = World()
    other = container_object("other", {})
    other["resources"] = {"limits": {"cambricon.com/vmlu": "1"}}
    ours = container_object("ours", {"gpu": 1, "gpumem": 1_000})
    (call,) = await world.create(registered(), waiting(containers=(other, ours)))

    await world.filter(call)
    await world.binder.bind(call.bind("node-a"))

    annotations = (await world.pod(call))["metadata"]["annotations"]
    (container,) = decode_allocation(annotations[wire.POD_ALLOCATION]).containers
    assert container.container_name == "ours"
    assert annotations[wire.POD_ALLOCATED] == ";card-0,NVIDIA,1000,0:;"


async def test_kai_65_trying_again_and_again_makes_nothing_but_answers():
    """Pods that reserve were created without end."""
    world = World()
    (call,) = await world.create(registered(), waiting(mib=50_000))
    world.kube.requests.clear()

    answers = [await world.filter(call, "node-a") for _ in range(10)]

    assert {len(answer.failed_unresolvable) for answer in answers} == {1}
    assert world.kube.requests.by() == {}


async def test_kai_848_no_pod_is_sent_again_where_its_card_was_taken_meanwhile():
    world = World()
    (call,) = await world.create(
        registered("node-a"), registered("node-b"), waiting(mib=30_000, name="mine")
    )
    assert (await world.filter(call)).node_names == ("node-a", "node-b")
    world.cache.take_pod(bound(make_share("card-0", memory_mib=30_000), uid="faster"))
    with pytest.raises(BindRefused):
        await world.binder.bind(call.bind("node-a"))

    assert (await world.filter(call)).node_names == ("node-b",)
    await world.binder.bind(call.bind("node-b"))

    assert (await world.pod(call))["spec"]["nodeName"] == "node-b"


@pytest.mark.looptime
async def test_hami_810_binds_wait_for_no_other_however_many_pods_are_pending():
    """They timed out after minutes: one lock for the whole process, and API calls under it."""
    world = World()
    nodes = [registered(f"node-{n}", make_devices(8)) for n in range(2)]
    calls = await world.create(*nodes, *(waiting(name=f"p{n}") for n in range(100)))
    for number in range(5_000):
        world.cache.take_pod(waiting(f"pending-{number}"))
    for call in calls:
        assert (await world.filter(call)).node_names
    slow = Fault(kind=FaultKind.DELAY, resource="pods/binding", delay_s=0.1, times=None)
    world.kube.faults.add(slow)
    loop = asyncio.get_running_loop()
    began_at_s = loop.time()

    async with asyncio.TaskGroup() as group:
        for call in calls:
            node_name = world.cache.reservation(call.uid).allocation.node_name
            group.create_task(world.binder.bind(call.bind(node_name)))

    assert loop.time() - began_at_s < 1
    assert world.metric("hamid_sched_binds_total", outcome="bound") == 100
