import random
from dataclasses import replace

import pytest

from benchmarks.baselines import FGD, NAMES, baseline
from hamid.model.device import DeviceUsage
from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryPercent
from hamid.sim.workload import Task
from tests.sched.builders import make_container, make_devices, make_node, make_request

HOST = HostAmount(cpu_milli=8_000, memory_mib=8_000)
TASKS = [Task(name="t", device_count=1, memory=MemoryPercent(percent=30), core_percent=30)]


def node(name, *percents):
    """A node whose cards are promised so far."""
    usages = [
        DeviceUsage(
            device=device,
            slots_used=int(percent > 0),
            memory_used_mib=device.memory_mib * percent // 100,
            core_used_percent=percent,
        )
        for device, percent in zip(make_devices(len(percents)), percents, strict=True)
    ]
    return make_node(name, usages=usages, host_free=HOST)


def asking(percent):
    container = make_container(memory=MemoryPercent(percent=percent), core_percent=percent)
    return make_request(container, host=HostAmount(cpu_milli=1_000))


def chosen(policy, percent, *nodes):
    """The node and the card that a part of a card gets."""
    made = baseline(policy, TASKS, random.Random(1))
    for each in nodes:
        made.put(each)
    found = made.choose(asking(percent))
    if found is None:
        return None
    name, ((share,),) = found[0], [container.shares for container in found[1]]
    return name, share.device_uuid


@pytest.mark.parametrize("policy", sorted({*NAMES, *FGD}))
def test_a_pod_goes_only_where_it_fits(policy):
    full, roomy = node("full", 80, 90), node("roomy", 50, 90)

    assert chosen(policy, 30, full, roomy) == ("roomy", "card-0")
    assert chosen(policy, 60, full, roomy) is None


@pytest.mark.parametrize(
    ("policy", "node_name", "card"),
    [
        pytest.param("hami", "fuller", "card-1", id="nodes packed, cards spread"),
        pytest.param("hami-spread-binpack", "emptier", "card-0", id="nodes spread, cards packed"),
        pytest.param("best-fit", "fuller", "card-0", id="both packed"),
    ],
)
def test_nodes_and_cards_are_packed_or_spread(policy, node_name, card):
    assert chosen(policy, 30, node("emptier", 20, 10), node("fuller", 40, 30)) == (node_name, card)


@pytest.mark.parametrize(
    ("policy", "node_name"),
    [
        pytest.param("fgd", "a-plenty", id="one more task fits on both, so names decide"),
        pytest.param("fgd-by-best-fit", "z-scarce", id="less is left"),
        pytest.param("known-by-name", "z-scarce", id="it has the CPU for one more task only"),
    ],
)
def test_fgd_and_ours_differ_in_what_they_count(policy, node_name):
    tasks = [replace(TASKS[0], host=HostAmount(cpu_milli=4_000))]
    made = baseline(policy, tasks, random.Random(1))
    for name, cpu_milli in (("a-plenty", 8_000), ("z-scarce", 5_000)):
        host = HostAmount(cpu_milli=cpu_milli, memory_mib=8_000)
        made.put(replace(node(name, 0), host_free=host))

    assert made.choose(asking(30))[0] == node_name
