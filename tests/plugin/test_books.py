from dataclasses import replace

from hamid.hooks.abi.usage import ProcessUsage, UsageReport
from hamid.hooks.lending import DeviceTerms
from hamid.model.request import ContainerKind
from hamid.nvml.port import DeviceSample
from hamid.plugin.books import NodeBooks
from hamid.plugin.health import DeviceView
from tests.builders import (
    UUID,
    make_allocation,
    make_container_allocation,
    make_devices,
    make_inventory,
    make_share,
    uuid,
)
from tests.plugin.values import MIB, asking, make_grant, pod_on_node


def make_books(*grants, pods=None, usage=None):
    return NodeBooks(
        inventory=make_inventory("node-1", *make_devices(2)),
        view=DeviceView(),
        pods=(pod_on_node(),) if pods is None else tuple(pods),
        grants=grants,
        usage_by_grant=usage or {},
    )


def report(used_bytes, device_uuid=UUID):
    process = ProcessUsage(
        slot_index=0,
        pid=7,
        start_time_ticks=1,
        pid_namespace=1,
        used_bytes_by_uuid=((device_uuid, used_bytes),),
    )
    return UsageReport(processes=(process,))


def books_of_one_pod():
    """One container with one share, of which everything is known."""
    sample = DeviceSample(device_uuid=UUID, memory_used_bytes=77, gpu_percent=40, memory_percent=20)
    return replace(
        make_books(
            make_grant(),
            pods=[pod_on_node("pod-1", asking(position=3))],
            usage={"g1": report(5 * MIB)},
        ),
        view=DeviceView(samples=(sample,)),
        terms={("g1", UUID): DeviceTerms(rate_percent=10, used_percent=8)},
    )


def series_by_name(families):
    """Name → [(labels, value)]."""
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in families
    }


def test_what_was_decided_counts_before_anything_was_granted():
    first, second = make_books().usages()

    assert (first.slots_used, first.memory_used_mib, first.core_used_percent) == (1, 1_000, 10)
    assert second.slots_used == 0


def test_finished_pods_hold_nothing():
    books = make_books(make_grant(), pods=[pod_on_node(is_terminal=True)])

    assert books.usages()[0].slots_used == 0
    assert list(books.allocated()) == list(books.granted()) == []


def test_init_containers_count_at_their_peak_until_they_are_done():
    containers = [asking("prep", kind=ContainerKind.INIT), asking("web")]
    decided = make_allocation(
        make_container_allocation(
            make_share(memory_mib=9_000), container_name="prep", kind=ContainerKind.INIT
        ),
        make_container_allocation(make_share(memory_mib=1_000), container_name="web"),
    )

    def used_mib(**state):
        pod = pod_on_node("pod-1", *containers, allocation=decided, **state)
        return make_books(pods=[pod]).usages()[0].memory_used_mib

    assert used_mib() == 9_000
    assert used_mib(is_initialized=True) == 1_000


def test_a_card_that_is_gone_from_the_inventory_has_no_usage():
    pod = pod_on_node(
        allocation=make_allocation(make_container_allocation(make_share(device_uuid=uuid(9))))
    )

    assert [usage.slots_used for usage in make_books(pods=[pod]).usages()] == [0, 0]


def test_a_granted_share_is_used_up_to_its_limit_at_most():
    shares = make_share(), make_share(device_uuid=uuid(2))
    books = make_books(make_grant("g1", *shares), usage={"g1": report(5_000 * MIB)})

    assert [(g.position, g.used_bytes, g.limit_bytes) for g in books.granted()] == [
        (0, 1_000 * MIB, 1_000 * MIB),
        (1, 0, 1_000 * MIB),
    ]


def test_a_grant_whose_pod_is_gone_is_not_shown_beside_its_successors():
    old = make_grant("g-old", pod_uid="uid-of-the-old-one")

    books = make_books(make_grant("g-new"), old)

    assert [granted.grant.grant_id for granted in books.granted()] == ["g-new"]
