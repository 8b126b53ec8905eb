from hamid.model.names import ResourceNames
from hamid.sched.known_node import PLUGIN_AWAY, KnownNode
from hamid.sched.records import read_node
from tests.sched.builders import make_devices
from tests.sched.objects import registered


def note(node=None, **allocatable):
    node = node or registered(devices=make_devices(2))
    if allocatable:
        node = {**node, "status": {"allocatable": {"nvidia.com/gpu": allocatable["slots"]}}}
    return read_node(node, names=ResourceNames())


def test_what_the_watch_shows_is_in_the_books():
    node = KnownNode("node-a")

    node.take(note())

    assert node.is_listed
    assert len(node.book.snapshot().usages) == 2


def test_without_slots_it_has_no_devices_until_there_are_some_again():
    node = KnownNode("node-a")
    node.take(note())

    node.take(note(slots="0"))
    assert (node.problem, node.book.snapshot().usages) == (PLUGIN_AWAY, ())

    node.take(note(slots="20"))
    assert (node.problem, len(node.book.snapshot().usages)) == ("", 2)


def test_where_all_devices_are_unhealthy_they_say_so_and_not_that_the_plugin_is_away():
    """Of such devices the kubelet offers no slots either."""
    node = KnownNode("node-a")
    unhealthy = registered(devices=make_devices(2, is_healthy=False))
    node.take(note())

    node.take(note(unhealthy, slots="0"))

    assert node.problem == ""
    assert [usage.device.is_healthy for usage in node.book.snapshot().usages] == [False, False]


def test_a_lost_node_that_comes_back_as_it_was_has_its_devices_again():
    node = KnownNode("node-a")
    node.take(note())

    node.lose()
    assert (node.is_listed, node.book.snapshot().usages) == (False, ())

    node.take(note())
    assert len(node.book.snapshot().usages) == 2


def test_a_cordon_that_names_no_card_of_the_node_is_remarked_on_once(logs):
    node = KnownNode("node-a")
    devices = make_devices(2)

    for cordoned in (["card-0"], ["card-0", "0"], ["card-0", "0"]):
        node.take(note(registered(devices=devices, cordoned=cordoned)))

    (said,) = logs
    assert (said["event"], said["unknown_uuids"]) == ("cordon of unknown cards", ["0"])


def test_while_the_device_plugin_is_away_nothing_is_remarked_on(logs):
    node = KnownNode("node-a")

    node.take(note(registered(devices=make_devices(2), cordoned=["0"]), slots="0"))

    assert logs == []
