import random
from dataclasses import replace

import pytest

from hamid.model.device import Device, DeviceUuid
from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryPercent
from hamid.model.request import PolicyName
from hamid.sched.placement.policy import Policies
from hamid.sim.chooser import ProductChooser
from hamid.sim.replay import Replay
from hamid.sim.workload import SimNode, Task, resampled

ROOM = HostAmount(cpu_milli=8_000, memory_mib=8_000)


def make_sim_node(name="node-a", count=2, host=ROOM):
    devices = tuple(
        Device(
            device_uuid=DeviceUuid(f"{name}-{n}"),
            device_index=n,
            model="T4",
            memory_mib=16_000,
            slot_count=10,
        )
        for n in range(count)
    )
    return SimNode(name=name, devices=devices, host=host)


def task(percent=100, name="task", **overrides):
    values = {"memory": MemoryPercent(percent=percent), "core_percent": percent}
    return Task(**{"name": name, "device_count": 1, **values, **overrides})


def run(tasks, *nodes, policy=PolicyName.FRAGMENTATION, **options):
    chooser = ProductChooser(Policies(node=(policy,), device=(policy,)))
    return Replay(nodes or (make_sim_node(),), chooser).run(tasks, **options)


@pytest.mark.parametrize("policy", [name for name in PolicyName if name is not PolicyName.MUTEX])
def test_what_fits_is_placed_and_the_rest_is_turned_away(policy):
    outcome = run([task() for _ in range(3)], policy=policy)

    assert (outcome.placed_count, outcome.refused_count) == (2, 1)
    assert outcome.allocated_percent == 100


def test_memory_and_cores_count_half_each():
    outcome = run([task(memory=MemoryPercent(percent=50), core_percent=25)])

    assert (outcome.memory_percent, outcome.core_percent) == (25, 12.5)
    assert outcome.allocated_percent == 18.75


def test_a_card_that_is_held_whole_is_in_use_whatever_memory_is_asked_for():
    exclusive = task(memory=MemoryPercent(percent=5), core_percent=100, lasts_s=10.0)

    assert run([exclusive]).allocated_percent == 50
    assert run([exclusive, task(50, arrives_at_s=10.0)]).allocated_percent == 25


def test_a_host_without_cpu_takes_nothing_more():
    outcome = run([task(10, host=HostAmount(cpu_milli=5_000)) for _ in range(2)])

    assert outcome.placed_count == 1


def test_tasks_without_cards_take_from_the_host_alone():
    plain = Task(name="plain", device_count=0, host=HostAmount(cpu_milli=8_000))

    outcome = run([plain, task(host=HostAmount(cpu_milli=1))])

    assert (outcome.placed_count, outcome.refused_count) == (1, 1)


def test_tasks_that_end_make_room():
    tasks = [task(arrives_at_s=n * 10.0, lasts_s=10.0) for n in range(5)]

    outcome = run(tasks, make_sim_node(count=1))

    assert outcome.placed_count == 5
    assert outcome.allocated_percent == 100  # the last is still there


def test_a_curve_has_the_load_what_is_in_use_and_what_is_wasted():
    told = []

    outcome = run([task(60) for _ in range(3)], on_progress=told.append)

    assert [p.arrived_percent for p in outcome.points] == pytest.approx([30, 60, 90])
    assert [p.allocated_percent for p in outcome.points] == pytest.approx([30, 60, 60])
    assert outcome.points[0].wasted_percent > 0
    assert told == [p.arrived_percent for p in outcome.points]


def test_choices_are_timed_by_the_clock_given():
    ticks = iter(range(100))
    replay = Replay((make_sim_node(),), ProductChooser(), clock=lambda: float(next(ticks)))

    outcome = replay.run([task(10), task(10)])

    assert outcome.choice_s == (1.0, 1.0)


@pytest.mark.parametrize("policy", PolicyName)
def test_a_replay_repeats_itself(policy):
    tasks = [task(percent, f"t-{percent}") for percent in (20, 30, 50, 70, 100)]

    def outcome():
        arrivals = resampled(tasks, capacity_milli=8_000, load_percent=130, rng=random.Random(3))
        nodes = [make_sim_node(f"node-{n}") for n in range(4)]
        return run(arrivals, *nodes, policy=policy, has_curve=False)

    assert outcome() == outcome()


def test_our_policy_brings_more_into_use_than_spreading():
    tasks = [task(percent, f"t-{percent}") for percent in (30, 70, 100, 100)]

    def allocated(policy):
        arrivals = resampled(tasks, capacity_milli=8_000, load_percent=130, rng=random.Random(3))
        nodes = [make_sim_node(f"node-{n}") for n in range(4)]
        return run(arrivals, *nodes, policy=policy, has_curve=False).allocated_percent

    assert allocated(PolicyName.FRAGMENTATION) > allocated(PolicyName.SPREAD)


def test_the_last_point_is_what_is_at_the_end():
    tasks = [task(60), *(task(0, memory=MemoryPercent(percent=1)) for _ in range(3)), task(1)]

    outcome = run(tasks, make_sim_node(count=200))

    assert [p.arrived_percent for p in outcome.points] == pytest.approx([0.32])
    assert outcome.points[-1].allocated_percent == pytest.approx(outcome.allocated_percent)


def test_cordons_and_links_count_as_in_the_cluster():
    node = make_sim_node(count=4)
    first, second, third, fourth = (device.device_uuid for device in node.devices)
    links = {first: {second: 1, third: 9}, second: {third: 1}}
    node = replace(node, cordoned=frozenset({fourth}), links=links)
    pair = task(device_count=2)

    chosen = Recording()
    Replay((node,), chosen).run([pair, task(), task()])

    assert [set(uuids) for uuids in chosen.given] == [{first, third}, {second}, set()]


class Recording(ProductChooser):
    """Remembers which cards it gave."""

    def __init__(self):
        super().__init__()
        self.given = []

    def choose(self, request):
        found = super().choose(request)
        containers = () if found is None else found[1]
        self.given.append([share.device_uuid for c in containers for share in c.shares])
        return found
