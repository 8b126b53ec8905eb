"""What each way to take memory costs of the simulated card, and what bad input is answered."""

import pytest

pytestmark = pytest.mark.native

INVALID_VALUE, OUT_OF_MEMORY, INVALID_HANDLE = 1, 2, 400


def test_small_blocks_share_grains_of_two_mebibytes(machine):
    assert machine.run("small_blocks") == [0, 2, 0]


def test_a_big_block_takes_whole_grains_and_is_freed_once(machine):
    assert machine.run("big_block") == [4, 0, INVALID_VALUE, 0]


def test_bad_input_gets_the_codes_of_the_real_driver(machine):
    assert machine.run("bad_input") == {
        "no bytes": INVALID_VALUE,
        "nowhere": INVALID_VALUE,
        "too much": OUT_OF_MEMORY,
        "foreign": INVALID_VALUE,
        "inside": INVALID_VALUE,
        "no stream": INVALID_HANDLE,
        "no function": INVALID_HANDLE,
        "no such grid": INVALID_VALUE,
    }


def test_a_pitched_block_counts_with_its_pitch(machine):
    assert machine.run("pitch") == [512, 512]


def test_a_pool_reserves_in_its_own_grains_and_gives_back_at_a_sync_point(machine):
    assert machine.run("pool") == [[32, 1, 32], [32, 0, 32], [0, 0, 0]]


def test_a_pool_keeps_what_its_threshold_says_until_it_is_trimmed(machine):
    assert machine.run("pool_threshold") == [128, 0]


def test_what_a_pool_keeps_unused_is_given_back_before_memory_runs_out(machine):
    assert machine.run("pool_reclaimed") == [1024, 900]


def test_a_mapping_holds_memory_whose_handle_was_released(machine):
    assert machine.run("mapped") == {
        "odd": INVALID_VALUE,
        "used": [64, 64, 0],
        "back": [7, 7, 7, 7],
        "unmapped": INVALID_VALUE,
    }


def test_an_exported_allocation_is_the_same_memory_and_counts_once(machine):
    assert machine.run("shared_by_descriptor") == {"used": 2, "back": 9}


def test_managed_memory_counts_where_it_is(machine):
    assert machine.run("managed") == [0, 100, 0]


def test_managed_memory_makes_room(machine):
    assert machine.run("managed_makes_room") == 600


def test_an_array_counts_until_it_is_destroyed(machine):
    assert machine.run("array") == [16, 0, INVALID_HANDLE]


def test_each_context_costs_and_takes_its_memory_with_it(machine):
    machine.write("context_mib=100")

    assert machine.run("context_cost") == [100, 210, 100]


def test_a_reset_frees_all_and_leaves_a_usable_context(machine):
    assert machine.run("reset") == [0, INVALID_VALUE, True]


def test_captured_allocations_cost_when_they_run_and_stay_until_trimmed(machine):
    assert machine.run("capture") == {
        "capturing": 1,
        "refused": 900,
        "recorded": 0,
        "kept": 10,
        "trimmed": 0,
    }


def test_names_have_the_forms_that_the_drivers_version_has(machine):
    machine.profile.write_text("cuda_version=12020\n\n" + machine.profile.read_text())

    assert machine.run("per_thread_forms") == {
        "differ": True,
        "works": True,
        "newer than the driver": 500,
        "not imitated": 801,
    }
