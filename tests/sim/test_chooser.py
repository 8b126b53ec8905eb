import pytest

from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryPercent
from hamid.model.request import PolicyName
from hamid.sched.placement.policy import Policies
from hamid.sim.chooser import ProductChooser
from tests.sched.builders import make_container, make_devices, make_node, make_request

ROOM = HostAmount(cpu_milli=8_000, memory_mib=8_000)


def chooser(policy, *nodes):
    made = ProductChooser(Policies(node=(policy,), device=(policy,)))
    for node in nodes:
        made.put(node)
    return made


def node(name, **overrides):
    return make_node(name, devices=make_devices(2), **overrides)


def asking(percent=50, count=1, host=ROOM):
    container = make_container(
        device_count=count, memory=MemoryPercent(percent=percent), core_percent=percent
    )
    return make_request(container, host=host)


@pytest.mark.parametrize("policy", [PolicyName.FRAGMENTATION, PolicyName.BINPACK])
def test_a_pod_goes_where_it_fits(policy):
    made = chooser(policy, node("node-a"))

    found = made.choose(asking(count=2))

    assert found is not None
    name, containers = found
    assert name == "node-a"
    assert len(containers[0].shares) == 2


@pytest.mark.parametrize("policy", [PolicyName.FRAGMENTATION, PolicyName.BINPACK])
def test_a_pod_that_fits_nowhere_has_no_answer(policy):
    made = chooser(policy, node("node-a"))

    assert made.choose(asking(count=3)) is None


@pytest.mark.parametrize("policy", [PolicyName.FRAGMENTATION, PolicyName.BINPACK])
def test_a_node_without_processors_left_is_no_choice(policy):
    busy = make_node("busy")
    full = HostAmount(cpu_milli=0, memory_mib=0)
    made = chooser(policy, make_node("busy", usages=busy.usages))
    made.put(type(busy)(node_name="busy", usages=busy.usages, host_free=full))

    assert made.choose(asking()) is None


def test_a_pod_without_cards_goes_where_the_host_has_room():
    roomy = node("node-a")
    made = chooser(PolicyName.FRAGMENTATION)
    made.put(type(roomy)(node_name="node-a", usages=roomy.usages, host_free=ROOM))

    assert made.choose(make_request(host=ROOM)) is not None
