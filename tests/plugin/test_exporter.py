from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from hamid.hooks.lending import DeviceTerms
from hamid.nvml.port import DeviceSample
from hamid.plugin.exporter import NodeCollector
from hamid.plugin.health import DeviceView
from tests.builders import UUID, make_inventory, make_share, uuid
from tests.plugin.test_books import make_books, report
from tests.plugin.values import MIB, asking, make_grant, pod_on_node


class Scrapes:
    """A registry with the collector, scraped at will."""

    def __init__(self, *books, **names):
        self.books = list(books)
        self.registry = CollectorRegistry()
        self.registry.register(NodeCollector(lambda: tuple(self.books), **names))

    def series(self, name):
        """Labels without the node and the card's looks → value."""
        return {
            tuple(
                value
                for key, value in sorted(sample.labels.items())
                if key in ("container", "device_uuid", "pod", "vdevice_index", "node")
            ): sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == name
        }

    def lines(self):
        text = generate_latest(self.registry).decode()
        return [line.rpartition(" ")[0] for line in text.splitlines() if line[0] != "#"]


def test_limits_and_a_use_of_zero_show_from_the_moment_of_the_grant():
    """Two containers with two cards each, none of which has touched a card yet."""
    pod = pod_on_node("pod-1", asking("a", 2), asking("b", 2))
    shares = make_share(), make_share(device_uuid=uuid(2))
    grants = [make_grant(f"g-{name}", *shares, container_name=name) for name in "ab"]

    scrapes = Scrapes(make_books(*grants, pods=[pod]))

    keys = [(name, uuid(n), "node-1", "pod-1") for name in "ab" for n in (1, 2)]
    assert scrapes.series("hamid_container_memory_limit_bytes") == dict.fromkeys(keys, 1_000 * MIB)
    assert scrapes.series("hamid_container_memory_used_bytes") == dict.fromkeys(keys, 0)
    assert scrapes.series("hamid_container_cores_limit_percent") == dict.fromkeys(keys, 10)


@pytest.mark.parametrize("with_hami_names", [False, True])
def test_a_restart_of_a_container_leaves_no_double_and_no_stale_series(with_hami_names):
    books = make_books(make_grant(), usage={"g1": report(5)})
    scrapes = Scrapes(books, with_hami_names=with_hami_names)
    before = scrapes.lines()

    # Killed and started again: the same grant, made final again, and an empty usage page.
    scrapes.books = [replace(books, grants=(make_grant(is_final=True),), usage_by_grant={})]

    assert scrapes.lines() == before
    assert len(set(before)) == len(before)
    (used,) = scrapes.series("hamid_container_memory_used_bytes").values()
    assert used == 0


def test_series_of_a_container_end_with_its_pod():
    books = make_books(make_grant())
    scrapes = Scrapes(books, with_hami_names=True)
    assert any('pod="pod-1"' in line for line in scrapes.lines())

    scrapes.books = [replace(books, pods=(pod_on_node(is_terminal=True),))]

    assert not any('pod="pod-1"' in line for line in scrapes.lines())


def test_a_card_shows_what_it_has_what_is_promised_and_what_is_used():
    sample = DeviceSample(device_uuid=UUID, memory_used_bytes=77, gpu_percent=40)
    books = replace(make_books(), view=DeviceView(samples=(sample,)))

    scrapes = Scrapes(books)

    def of_card(name):
        return scrapes.series(name).get((UUID, "node-1"))

    assert of_card("hamid_device_healthy") == 1
    assert of_card("hamid_device_memory_bytes") == 40_000 * MIB
    assert of_card("hamid_device_memory_allocated_bytes") == 1_000 * MIB
    assert of_card("hamid_device_cores_percent") == 100
    assert of_card("hamid_device_cores_allocated_percent") == 10
    assert of_card("hamid_device_slots") == 10
    assert of_card("hamid_device_slots_allocated") == 1
    assert of_card("hamid_device_memory_used_bytes") == 77
    assert of_card("hamid_device_utilization_percent") == 40


def test_what_the_driver_does_not_say_has_no_series():
    scrapes = Scrapes(
        replace(make_books(), view=DeviceView(samples=(DeviceSample(device_uuid=UUID),)))
    )

    assert scrapes.series("hamid_device_memory_used_bytes") == {}
    assert scrapes.series("hamid_device_utilization_percent") == {}
    assert len(scrapes.series("hamid_device_healthy")) == 2


def test_several_nodes_of_one_process_stand_side_by_side():
    one = make_books(make_grant())
    other = replace(one, inventory=make_inventory("node-2"))

    nodes = {key[1] for key in Scrapes(one, other).series("hamid_device_healthy")}

    assert nodes == {"node-1", "node-2"}


@pytest.mark.parametrize("with_hami_names", [False, True])
@pytest.mark.parametrize("with_legacy_names", [False, True])
def test_hamis_names_are_exported_where_they_are_wanted(with_hami_names, with_legacy_names):
    lines = Scrapes(
        make_books(make_grant()),
        with_hami_names=with_hami_names,
        with_legacy_names=with_legacy_names,
    ).lines()

    assert any(line.startswith("hami_") for line in lines) is with_hami_names
    assert any(line.startswith("GPUDeviceMemoryLimit{") for line in lines) is with_legacy_names


def test_what_the_lender_decides_shows_where_it_decides():
    terms = {
        ("g1", UUID): DeviceTerms(rate_percent=45, correction=0.9, uncounted_bytes=7),
        ("g1", uuid(2)): DeviceTerms(rate_percent=None),
    }
    grant = make_grant("g1", make_share(), make_share(device_uuid=uuid(2)))
    books = replace(make_books(grant), terms=terms)
    scrapes = Scrapes(books, make_books(make_grant("g2")))

    def values(name):
        return [value for _, value in sorted(scrapes.series(name).items())]

    assert values("hamid_container_cores_rate_percent") == [45]
    assert values("hamid_container_cores_correction_ratio") == [0.9]
    assert values("hamid_container_memory_uncounted_bytes") == [7, 0]
