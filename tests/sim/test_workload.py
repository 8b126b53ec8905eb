import random

import pytest

from hamid.model.quantities import WHOLE_CARD, MemoryMib, MemoryPercent
from hamid.sim.workload import Task, in_two_dimensions, recorded, resampled


def part(name, core_percent=50, **overrides):
    return Task(
        name=name,
        device_count=1,
        memory=MemoryPercent(percent=core_percent),
        core_percent=core_percent,
        **overrides,
    )


def drawn(seed, tasks, load_percent):
    return list(
        resampled(tasks, capacity_milli=2_000, load_percent=load_percent, rng=random.Random(seed))
    )


def test_every_task_comes_once_before_any_comes_twice():
    tasks = [part(f"t-{n}", lasts_s=5.0) for n in range(4)]

    found = drawn(1, tasks, 130)

    assert sorted(t.name for t in found[:4]) == ["t-0", "t-1", "t-2", "t-3"]
    assert len(found) == 6  # the first with which 2.6 cards are asked for
    assert {t.lasts_s for t in found} == {None}


def test_the_same_seed_gives_the_same_arrivals():
    tasks = [part(f"t-{n}") for n in range(20)]

    assert drawn(7, tasks, 500) == drawn(7, tasks, 500) != drawn(8, tasks, 500)


@pytest.mark.parametrize(
    ("mib", "core_percent", "milli"),
    [
        pytest.param(4_000, 30, 600, id="cores count where they are asked for"),
        pytest.param(4_000, 0, 800, id="memory stands in for them"),
        pytest.param(40_000, 0, 2_000, id="as no more than whole cards"),
    ],
)
def test_the_load_of_a_task_is_its_part_of_the_cards(mib, core_percent, milli):
    asking = Task(name="t", device_count=2, memory=MemoryMib(mib=mib), core_percent=core_percent)

    assert asking.on_cards_of(10_000).core_milli == milli


def test_tasks_that_never_ask_for_cards_do_not_come_for_ever():
    assert drawn(1, [Task(name="plain", device_count=0)], 130) == []


def test_recorded_tasks_come_by_time():
    tasks = [part("late", arrives_at_s=9.0), part("early", arrives_at_s=1.0)]

    assert [t.name for t in recorded(tasks)] == ["early", "late"]


def test_in_two_dimensions_only_parts_of_cards_change_and_only_in_memory():
    tasks = [part(f"t-{n}", 80) for n in range(50)]
    whole = Task(name="whole", device_count=1)

    *parts, same = in_two_dimensions([*tasks, whole], rng=random.Random(1))

    assert same.memory == WHOLE_CARD
    assert {t.core_percent for t in parts} == {80}
    assert {t.memory.percent for t in parts} == {40, 60, 80, 100}
