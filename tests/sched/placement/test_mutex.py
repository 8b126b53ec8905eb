"""The policy `mutex`: nobody else at the time."""

from hamid.model.device import DeviceUsage
from hamid.model.shortfall import Resource
from hamid.sched.placement.mutex import device_shortfalls, is_in_use
from tests.sched.builders import make_device, make_node

IDLE = DeviceUsage(device=make_device("card-a"))
USED = DeviceUsage(device=make_device("card-b"), slots_used=2)


def test_a_device_that_others_use_lacks_being_alone():
    (lacking,) = device_shortfalls(USED)

    assert device_shortfalls(IDLE) == ()
    assert (lacking.resource, lacking.used, lacking.device_uuid) == (
        Resource.EXCLUSIVITY,
        2,
        "card-b",
    )


def test_a_node_is_in_use_as_soon_as_one_of_its_devices_is():
    assert not is_in_use(make_node(usages=[IDLE]))
    assert is_in_use(make_node(usages=[IDLE, USED]))
    assert not is_in_use(make_node(devices=[]))
