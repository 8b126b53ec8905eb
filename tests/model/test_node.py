import pytest

from hamid.model.node import HostAmount, NodeSnapshot, sorted_devices
from tests.builders import make_device, uuid


def test_devices_stand_by_index_then_uuid():
    first = make_device(device_uuid=uuid(9), device_index=0)
    second = make_device(device_uuid=uuid(1), device_index=1)
    third = make_device(device_uuid=uuid(2), device_index=1)

    assert sorted_devices([third, second, first]) == (first, second, third)


def test_amounts_of_the_host_add_up_and_down():
    one, two = HostAmount(cpu_milli=500, memory_mib=100), HostAmount(cpu_milli=250, memory_mib=40)

    assert one + two == HostAmount(cpu_milli=750, memory_mib=140)
    assert one - two == HostAmount(cpu_milli=250, memory_mib=60)


def test_the_greater_of_two_amounts_is_taken_amount_by_amount():
    one, two = HostAmount(cpu_milli=500, memory_mib=10), HostAmount(cpu_milli=250, memory_mib=40)

    assert one.most(two) == two.most(one) == HostAmount(cpu_milli=500, memory_mib=40)


@pytest.mark.parametrize(
    ("cpu_milli", "memory_mib", "is_covered"),
    [
        pytest.param(500, 0, True, id="memory is overdrawn, but none is asked"),
        pytest.param(501, 0, False, id="too much of the processors"),
        pytest.param(0, 1, False, id="any of what is overdrawn"),
        pytest.param(0, 0, True, id="nothing"),
    ],
)
def test_what_is_not_asked_may_be_overdrawn(cpu_milli, memory_mib, is_covered):
    left = HostAmount(cpu_milli=500, memory_mib=-10)

    assert left.covers(HostAmount(cpu_milli=cpu_milli, memory_mib=memory_mib)) is is_covered


def test_a_host_of_which_nothing_is_known_has_enough_and_stays_unknown():
    node = NodeSnapshot(node_name="n", usages=())
    asked = HostAmount(cpu_milli=1 << 40)

    assert node.has_host_for(asked)
    assert node.with_host_asked(asked) is node


def test_what_is_asked_of_a_host_is_not_free_any_more():
    node = NodeSnapshot(node_name="n", usages=(), host_free=HostAmount(cpu_milli=500))

    after = node.with_host_asked(HostAmount(cpu_milli=300))

    assert [after.has_host_for(HostAmount(cpu_milli=cpu)) for cpu in (200, 201)] == [True, False]
