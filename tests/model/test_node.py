from hamid.model.node import sorted_devices
from tests.builders import make_device, uuid


def test_devices_stand_by_index_then_uuid():
    first = make_device(device_uuid=uuid(9), device_index=0)
    second = make_device(device_uuid=uuid(1), device_index=1)
    third = make_device(device_uuid=uuid(2), device_index=1)

    assert sorted_devices([third, second, first]) == (first, second, third)
