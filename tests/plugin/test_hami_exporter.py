from dataclasses import replace

import pytest

from hamid.hooks.lending import DeviceTerms
from hamid.plugin.hami_exporter import hami_families
from tests.builders import MODEL, UUID, make_device, make_inventory, make_share, uuid
from tests.plugin.test_books import books_of_one_pod, series_by_name
from tests.plugin.values import MIB, asking, make_grant, pod_on_node

GPU = {
    "zone": "vGPU",
    "node": "node-1",
    "device_uuid": UUID,
    "device_index": "0",
    "device_type": MODEL,
}
VGPU = {
    "zone": "vGPU",
    "namespace": "default",
    "pod": "pod-1",
    "container": "train",
    "vdevice_index": "0",
    "device_uuid": UUID,
}
ALLOCATED = {
    "zone": "vGPU",
    "namespace": "default",
    "node": "node-1",
    "pod": "pod-1",
    "container_index": "3",
    "device_uuid": UUID,
}


books = pytest.fixture(books_of_one_pod)


def series(*nodes):
    return series_by_name(hami_families(nodes))


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("hami_gpu_memory_limit_bytes", GPU, 40_000 * MIB),
        ("hami_gpu_core_limit_ratio", GPU, 100),
        ("hami_gpu_memory_allocated_bytes", {**GPU, "device_cores": "100"}, 1_000 * MIB),
        ("hami_gpu_shared_count", GPU, 1),
        ("hami_gpu_core_allocated_ratio", GPU, 10),
        (
            "hami_node_gpu_overview",
            {**GPU, "device_cores": "100", "device_memory_limit": "40000"},
            1_000 * MIB,
        ),
        ("hami_node_gpu_memory_allocated_ratio", GPU, 0.025),
        ("hami_vgpu_memory_allocated_bytes", ALLOCATED, 1_000 * MIB),
        ("hami_vgpu_core_allocated_ratio", ALLOCATED, 10),
        ("hami_host_gpu_memory_used_bytes", GPU, 77),
        ("hami_host_gpu_utilization_ratio", GPU, 40),
        ("hami_host_gpu_memory_controller_utilization_ratio", GPU, 20),
        ("hami_vgpu_memory_limit_bytes", VGPU, 1_000 * MIB),
        ("hami_vgpu_memory_used_bytes", VGPU, 5 * MIB),
        ("hami_container_device_memory_bytes", VGPU, 5 * MIB),
        ("hami_container_device_utilization_ratio", VGPU, 8),
    ],
)
def test_a_figure_has_hamis_name_labels_and_unit(books, name, labels, value):
    assert (labels, value) in series(books)[name]


def test_a_cards_figures_are_there_for_every_card_used_or_not(books):
    found = series(books)

    for name in ("hami_gpu_memory_allocated_bytes", "hami_node_gpu_overview"):
        assert [labels["device_uuid"] for labels, _ in found[name]] == [uuid(1), uuid(2)]


@pytest.mark.parametrize("terms", [{}, {("g1", UUID): DeviceTerms(rate_percent=None)}])
def test_how_busy_a_container_is_is_not_told_where_nobody_knows(books, terms):
    assert series(replace(books, terms=terms))["hami_container_device_utilization_ratio"] == []


def test_oversubscribed_cores_are_still_counted_to_a_hundred(books):
    twice = replace(books, inventory=make_inventory("node-1", make_device(core_percent=200)))

    found = series(twice)

    assert found["hami_gpu_core_limit_ratio"] == [(GPU, 100)]
    assert found["hami_gpu_core_allocated_ratio"] == [(GPU, 5)]
    assert found["hami_vgpu_core_allocated_ratio"] == [(ALLOCATED, 5)]


def test_a_card_without_memory_or_cores_divides_by_nothing(books):
    none = make_device(core_percent=0, memory_mib=0)

    found = series(replace(books, inventory=make_inventory("node-1", none)))

    assert found["hami_node_gpu_memory_allocated_ratio"] == [(GPU, 0)]
    assert found["hami_gpu_core_limit_ratio"] == [(GPU, 0)]


def test_a_share_of_a_card_that_is_gone_still_shows_its_memory(books):
    gone = pod_on_node("pod-1", asking(position=3))
    gone = replace(gone, allocation=replace(gone.allocation, containers=()))
    empty = replace(books, inventory=make_inventory("node-1", make_device(device_uuid=uuid(2))))

    found = series(empty)

    assert found["hami_vgpu_memory_allocated_bytes"] == [(ALLOCATED, 1_000 * MIB)]
    assert found["hami_vgpu_core_allocated_ratio"] == []
    assert found["hami_host_gpu_memory_used_bytes"] == []
    assert series(replace(empty, pods=(gone,)))["hami_vgpu_memory_allocated_bytes"] == []


def test_a_containers_devices_are_numbered_in_the_order_of_choice(books):
    shares = make_share(device_uuid=uuid(2)), make_share()

    found = series(replace(books, grants=(make_grant("g1", *shares),)))

    numbers = [
        (x["vdevice_index"], x["device_uuid"]) for x, _ in found["hami_vgpu_memory_limit_bytes"]
    ]
    assert numbers == [("0", uuid(2)), ("1", uuid(1))]
