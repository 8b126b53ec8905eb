from dataclasses import replace

import pytest

from hamid.nvml.port import DeviceSample
from hamid.plugin.health import DeviceView
from hamid.plugin.legacy_exporter import legacy_families
from tests.builders import MODEL, UUID, make_device, make_inventory, uuid
from tests.plugin.test_books import books_of_one_pod, series_by_name
from tests.plugin.values import MIB

HOST = {"zone": "vGPU", "deviceuuid": UUID, "deviceidx": "0", "devicetype": MODEL}
TYPED = {**HOST, "nodeid": "node-1"}
CARD = {"zone": "vGPU", "nodeid": "node-1", "deviceuuid": UUID, "deviceidx": "0"}
OF_POD = {
    "zone": "vGPU",
    "podnamespace": "default",
    "nodename": "node-1",
    "podname": "pod-1",
    "containeridx": "3",
    "deviceuuid": UUID,
}
OF_CONTAINER = {
    "zone": "vGPU",
    "podnamespace": "default",
    "podname": "pod-1",
    "ctrname": "train",
    "vdeviceid": "0",
    "deviceuuid": UUID,
}


books = pytest.fixture(books_of_one_pod)


def series(*nodes):
    return series_by_name(legacy_families(nodes))


FIGURES = [
    ("HostGPUMemoryUsage", HOST, 77),
    ("HostCoreUtilization", HOST, 40),
    ("GPUDeviceMemoryLimit", TYPED, 40_000 * MIB),
    ("GPUDeviceCoreLimit", TYPED, 100),
    ("GPUDeviceMemoryAllocated", {**TYPED, "devicecores": "100"}, 1_000 * MIB),
    ("GPUDeviceSharedNum", TYPED, 1),
    ("GPUDeviceCoreAllocated", TYPED, 10),
    (
        "nodeGPUOverview",
        {**TYPED, "devicecores": "100", "devicememorylimit": "40000", "sharedcontainers": "1"},
        1_000 * MIB,
    ),
    ("nodeGPUMemoryPercentage", CARD, 0.025),
    ("vGPUMemoryAllocated", OF_POD, 1_000 * MIB),
    ("vGPUCoreAllocated", OF_POD, 10),
    ("vGPUPodsDeviceAllocated", {**OF_POD, "deviceusedcore": "10"}, 1_000 * MIB),
    ("vGPUMemoryPercentage", OF_POD, 0.025),
    ("vGPUCorePercentage", OF_POD, 10),
    ("vGPU_device_memory_limit_in_bytes", OF_CONTAINER, 1_000 * MIB),
    ("vGPU_device_memory_usage_in_bytes", OF_CONTAINER, 5 * MIB),
    (
        "Device_memory_desc_of_container",
        {**OF_CONTAINER, "context": "0", "module": "0", "data": "0", "offset": "0"},
        5 * MIB,
    ),
    ("Device_utilization_desc_of_container", OF_CONTAINER, 8),
]


@pytest.mark.parametrize(("name", "labels", "value"), FIGURES)
def test_a_figure_has_hamis_old_name_labels_and_unit(books, name, labels, value):
    assert (labels, value) in series(books)[name]


def test_there_are_no_other_names(books):
    assert series(books).keys() == {name for name, _, _ in FIGURES}


def test_cores_are_as_they_are_promised_where_they_are_oversubscribed(books):
    found = series(
        replace(books, inventory=make_inventory("node-1", make_device(core_percent=200)))
    )

    assert found["GPUDeviceCoreLimit"] == [(TYPED, 200)]
    assert found["GPUDeviceCoreAllocated"] == [(TYPED, 10)]
    assert found["vGPUCoreAllocated"] == [(OF_POD, 10)]


def test_what_nobody_says_has_no_series(books):
    silent = replace(books, view=DeviceView(samples=(DeviceSample(device_uuid=UUID),)), terms={})
    gone = make_inventory("node-1", make_device(device_uuid=uuid(2)))

    assert series(silent)["HostGPUMemoryUsage"] == []
    assert series(silent)["Device_utilization_desc_of_container"] == []
    assert series(replace(books, inventory=gone))["vGPUMemoryPercentage"] == []
    assert series(replace(books, inventory=gone))["HostCoreUtilization"] == []


def test_a_card_without_memory_divides_by_nothing(books):
    none = make_inventory("node-1", make_device(memory_mib=0))

    assert series(replace(books, inventory=none))["nodeGPUMemoryPercentage"] == [(CARD, 0)]
