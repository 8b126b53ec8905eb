from hamid.model.device import DeviceHold
from hamid.model.node import HostAmount
from hamid.sched.books import NodeBook
from tests.sched.builders import make_devices


def hold(mib=1_000, **overrides):
    values = {"slots": 1, "memory_mib": mib, "core_percent": 10, "is_exclusive": False}
    return DeviceHold(**{**values, **overrides})


def book(count=2):
    found = NodeBook("node-a")
    found.register(make_devices(count))
    return found


def memory_used(found):
    return [usage.memory_used_mib for usage in found.snapshot().usages]


def test_holds_of_pods_add_up_on_each_device():
    found = book()

    found.hold("a", {"card-0": hold(1_000), "card-1": hold(2_000)})
    found.hold("b", {"card-0": hold(3_000, is_exclusive=True)})

    first = found.snapshot().usages[0]
    assert memory_used(found) == [4_000, 2_000]
    assert (first.slots_used, first.core_used_percent, first.exclusive_count) == (2, 20, 1)


def test_a_new_hold_replaces_the_one_before():
    found = book()
    found.hold("a", {"card-0": hold(1_000)})

    found.hold("a", {"card-1": hold(500)})

    assert memory_used(found) == [0, 500]


def test_a_pod_that_holds_nothing_of_a_card_any_more_outlives_who_holds_all_of_it():
    """The card was its init container's: until that was over both held it, then the other alone."""
    found = book()
    empty = found.snapshot()
    found.hold("a", {"card-0": hold(1_000), "card-1": hold(500)})
    found.hold("b", {"card-0": hold(3_000)})

    found.hold("a", {"card-1": hold(500)})
    assert memory_used(found) == [3_000, 500]
    found.release("b")
    assert memory_used(found) == [0, 500]
    found.release("a")

    assert found.snapshot() == empty
    assert not found.is_held


def test_a_released_pod_leaves_nothing_behind():
    found = book()
    empty = found.snapshot()
    found.hold("a", {"card-0": hold()})

    found.release("a")
    found.release("a")

    assert found.snapshot() == empty
    assert not found.is_held


def test_a_hold_on_a_device_that_is_missing_counts_when_it_comes_back():
    found = book(1)
    found.hold("a", {"card-1": hold(700)})

    found.register(make_devices(2))

    assert memory_used(found) == [0, 700]


def test_a_snapshot_is_the_same_value_until_something_changes():
    found = book()
    before = found.snapshot()

    found.register(make_devices(2))
    found.cordon(frozenset())

    assert found.snapshot() is before

    found.cordon(frozenset({"card-0"}))

    assert found.snapshot() is not before
    assert found.snapshot().cordoned == {"card-0"}


def test_the_version_grows_with_each_change():
    found = book()
    before = found.version

    found.release("nobody")
    assert found.version == before

    found.hold("a", {"card-0": hold()})
    assert found.version > before


def test_the_books_tell_when_there_may_be_more_room_and_not_when_there_is_less():
    told = []
    found = NodeBook("node-a", freed=told.append)

    def tells(change):
        told.clear()
        change()
        return bool(told)

    first, second = make_devices(2)
    assert tells(lambda: found.register((first, second)))
    assert not tells(lambda: found.hold("a", {"card-0": hold(2_000)}))
    assert not tells(lambda: found.hold("a", {"card-0": hold(2_000)}))
    assert tells(lambda: found.hold("a", {"card-0": hold(1_000)}))
    assert tells(lambda: found.release("a"))
    assert not tells(lambda: found.release("a"))
    assert tells(lambda: found.cordon(frozenset({"card-0"})))
    assert tells(lambda: found.offer(HostAmount(cpu_milli=1, memory_mib=1)))
    assert not tells(lambda: found.ask("b", HostAmount(cpu_milli=1, memory_mib=1)))
    assert tells(lambda: found.unask("b"))
