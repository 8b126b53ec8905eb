"""The fake kubelet's books: its rules for ids, and its quirks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from hamid.kubelet.checkpoint import decode_checkpoint
from hamid.kubelet.fake.books import AllocationRefused, Capacity, DeviceBooks
from hamid.kubelet.port import AdvertisedDevice
from tests.contracts.kubelet_contract import make_slots

RESOURCE = "nvidia.com/gpu"
KEY = ("uid", "main", RESOURCE)


def make_books(count=4, *, seed=0, sick=()):
    books = DeviceBooks(rng=random.Random(seed))
    books.replace_devices(RESOURCE, make_slots(count, sick=sick))
    return books


def give(books, key=KEY, *, required=1, preferred=(), reusable=()):
    selection = books.begin(key, required=required, reusable=reusable)
    slot_ids = books.finish(selection, preferred)
    return books.record(key, slot_ids, b"")


def test_preferred_ids_are_taken_as_far_as_they_are_offered():
    entry = give(make_books(sick={2}), required=3, preferred=("slot-2", "alien", "slot-3"))

    assert "slot-3" in entry.slot_ids
    assert set(entry.slot_ids) <= {"slot-0", "slot-1", "slot-3"}
    assert len(entry.slot_ids) == 3


def test_too_many_preferred_ids_are_cut():
    entry = give(make_books(), required=1, preferred=("slot-3", "slot-1"))

    assert entry.slot_ids == ("slot-3",)


def test_reusable_ids_come_first():
    books = make_books()

    selection = books.begin(KEY, required=2, reusable=("slot-1",))

    assert selection.taken == ["slot-1"]
    assert (selection.needed, "slot-1" in selection.candidates) == (1, False)


def test_the_same_seed_makes_the_same_choice():
    first, second = (give(make_books(seed=7), required=2).slot_ids for _ in range(2))

    assert first == second


def test_what_is_on_record_is_not_chosen_again():
    books = make_books()
    give(books)

    assert books.begin(KEY, required=1, reusable=()) is None


@pytest.mark.parametrize(
    ("sick", "required", "words"),
    [
        pytest.param((), 5, "Requested: 5, Available: 4", id="too many"),
        pytest.param((0, 1, 2, 3), 1, "no healthy devices present", id="all are sick"),
        pytest.param((0, 1, 2), 2, "Requested: 2, Available: 1", id="too many are sick"),
    ],
)
def test_refusals_are_in_the_kubelets_words(sick, required, words):
    with pytest.raises(AllocationRefused, match=words):
        make_books(sick=sick).begin(KEY, required=required, reusable=())


def test_an_unknown_resource_is_refused():
    with pytest.raises(AllocationRefused, match="unregistered device other/x"):
        make_books().begin(("uid", "main", "other/x"), required=1, reusable=())


def test_a_count_that_changed_is_refused():
    books = make_books()
    give(books)

    with pytest.raises(AllocationRefused, match="from 1 to 2"):
        books.begin(KEY, required=2, reusable=())


def test_a_recorded_id_that_fell_ill_is_refused():
    books = make_books()
    [slot_id] = give(books).slot_ids
    sick = [replace(device, is_healthy=device.slot_id != slot_id) for device in make_slots(4)]
    books.replace_devices(RESOURCE, sick)

    with pytest.raises(AllocationRefused, match="no longer healthy"):
        books.begin(KEY, required=1, reusable=())


def test_ended_pods_free_their_ids():
    books = make_books(1)
    give(books)
    books.release_inactive(["another"])

    assert give(books, ("another", "main", RESOURCE)).slot_ids == ("slot-0",)


def test_ids_of_a_running_allocate_drop_out_when_a_pod_ends_meanwhile():
    books = make_books(2)
    give(books, ("ended", "main", RESOURCE), preferred=("slot-0",))
    selection = books.begin(KEY, required=1, reusable=())
    running = books.finish(selection, ())

    books.release_inactive(["uid"])  # as a List of pod resources does

    assert not books.in_use.get(RESOURCE, set()) & set(running)


def test_capacity_counts_the_sick_and_a_gone_plugin_leaves_nothing_to_give():
    books = make_books(sick={0})
    assert books.capacity(RESOURCE) == Capacity(capacity=4, allocatable=3)

    books.mark_unhealthy(RESOURCE)

    assert books.capacity(RESOURCE) == Capacity(capacity=4, allocatable=0)


def test_a_checkpoint_restores_the_allocations_and_no_devices():
    books = make_books()
    books.replace_devices(
        RESOURCE, [AdvertisedDevice(slot_id="a", numa_nodes=(0, 1)), AdvertisedDevice(slot_id="b")]
    )
    entry = give(books, required=2)
    restored = DeviceBooks(rng=random.Random(0))

    restored.restore(books.encode_checkpoint())

    assert restored.recorded == {KEY: entry}
    assert restored.in_use == {RESOURCE: {"a", "b"}}
    assert restored.capacity(RESOURCE) == Capacity(capacity=0, allocatable=0)


def test_the_checkpoint_is_in_the_real_format():
    books = make_books()
    slot_ids = give(books, required=2).slot_ids

    [entry] = decode_checkpoint(books.encode_checkpoint())

    assert (entry.pod_uid, entry.container_name, entry.resource_name) == KEY
    assert set(entry.slot_ids) == set(slot_ids)


def test_a_checkpoint_without_allocations_has_null_as_gos_nil_slice():
    assert decode_checkpoint(make_books().encode_checkpoint()) == ()
    assert b'"PodDeviceEntries":null' in make_books().encode_checkpoint()
