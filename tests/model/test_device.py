from dataclasses import replace

import pytest

from hamid.model.device import model_matches
from tests.builders import make_device, make_hold, make_share, make_usage


@pytest.mark.parametrize(
    ("pattern", "model"),
    [
        pytest.param("A100", "NVIDIA A100-SXM4-80GB", id="one word"),
        pytest.param("a100-sxm4", "NVIDIA A100-SXM4-80GB", id="two words, in any case"),
        pytest.param("A100 SXM4", "NVIDIA A100-SXM4-80GB", id="whatever stands between the words"),
        pytest.param("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", id="the whole name"),
        pytest.param("V100", "NVIDIA-Tesla V100-PCIE-32GB", id="a model with an old name"),
        pytest.param("rtx 4090", "NVIDIA GeForce RTX 4090", id="words at the end"),
        pytest.param("nvidia", "NVIDIA A10", id="the vendor"),
        pytest.param("80GB", "NVIDIA A100-SXM4-80GB", id="the size"),
    ],
)
def test_a_pattern_matches_a_model_whose_words_it_names(pattern, model):
    assert model_matches(pattern, model)


@pytest.mark.parametrize(
    ("pattern", "model"),
    [
        pytest.param("A10", "NVIDIA A100-SXM4-80GB", id="the beginning of a word"),
        pytest.param("100", "NVIDIA A100-SXM4-80GB", id="the end of a word"),
        pytest.param("A100-80GB", "NVIDIA A100-SXM4-80GB", id="words that are not side by side"),
        pytest.param("SXM4 A100", "NVIDIA A100-SXM4-80GB", id="words in another order"),
        pytest.param("NVIDIA A100-SXM4-80GB", "A100", id="more words than the model has"),
        pytest.param("", "NVIDIA A10", id="an empty pattern"),
        pytest.param("--_", "NVIDIA A10", id="a pattern without words"),
        pytest.param("A10", "", id="an empty model"),
    ],
)
def test_a_pattern_does_not_match_other_models(pattern, model):
    assert not model_matches(pattern, model)


def test_an_unused_device_is_all_free():
    usage = make_usage(make_device(memory_mib=8_000, slot_count=4))

    assert (usage.memory_free_mib, usage.core_free_percent, usage.slots_free) == (8_000, 100, 4)


def test_a_share_takes_its_part_of_the_device():
    usage = make_usage(make_device(memory_mib=8_000, slot_count=4))

    used = usage.with_share(make_share(memory_mib=3_000, core_percent=30))

    assert (used.memory_free_mib, used.core_free_percent, used.slots_free) == (5_000, 70, 3)
    assert used.exclusive_count == 0
    assert usage.slots_used == 0


def test_a_share_of_all_cores_has_the_device_to_itself():
    used = make_usage().with_share(make_share(core_percent=100))

    assert used.exclusive_count == 1


def test_what_runs_at_the_same_time_adds_up_and_what_does_not_counts_once():
    one = make_share(memory_mib=1_000, core_percent=100).hold
    other = make_share(memory_mib=3_000, core_percent=20).hold

    assert one + other == make_hold(slots=2, memory_mib=4_000, core_percent=120, is_exclusive=True)
    assert one.most(other) == make_hold(
        slots=1, memory_mib=3_000, core_percent=100, is_exclusive=True
    )


def test_a_pods_hold_takes_its_part_of_the_device():
    hold = make_hold(slots=2, memory_mib=3_000, core_percent=100, is_exclusive=True)

    used = make_usage().with_hold(hold)

    assert (used.slots_used, used.memory_used_mib, used.core_used_percent) == (2, 3_000, 100)
    assert used.exclusive_count == 1


def test_an_over_promised_device_has_less_than_nothing_free():
    used = make_usage(make_device(memory_mib=1_000)).with_share(make_share(memory_mib=3_000))

    assert used.memory_free_mib == -2_000


@pytest.mark.parametrize(
    ("promised", "expected"),
    [
        ({"memory_used_mib": 40_000, "core_used_percent": 100, "slots_used": 10}, False),
        ({"memory_used_mib": 40_001}, True),
        ({"core_used_percent": 101}, True),
        ({"slots_used": 11}, True),
        ({"exclusive_count": 1}, False),
        ({"exclusive_count": 2}, True),
    ],
)
def test_a_device_is_over_promised_in_any_amount(promised, expected):
    usage = make_usage(make_device(memory_mib=40_000, slot_count=10))

    assert replace(usage, **promised).is_over_promised is expected
