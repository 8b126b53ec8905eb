"""The nodes that the watch shows, as they are now."""

from __future__ import annotations

import pytest

from hamid.model.node import HostAmount
from hamid.sched.known_node import KnownNode
from hamid.sched.records import NodeNote
from hamid.sched.shown import Shown

CPU = HostAmount(cpu_milli=1000, memory_mib=1000)


class Nodes:
    def __init__(self):
        self.by_name = {}
        self.shown = Shown(self.by_name)

    def take(self, name, *, host=None):
        if name not in self.by_name:
            self.by_name[name] = KnownNode(name, changed=self.shown.change)
        note = NodeNote(node_name=name, inventory_text=None, cordoned=frozenset(), host=host)
        self.by_name[name].take(note)


@pytest.fixture
def nodes():
    found = Nodes()
    found.take("b")
    found.take("a")
    return found


def test_nodes_come_in_the_order_asked_and_unknown_ones_not_at_all(nodes):
    assert list(nodes.shown.of(("a", "x", "b"))) == ["a", "b"]
    assert list(nodes.shown.of(("b", "a"))) == ["b", "a"]


def test_a_change_is_seen_and_what_did_not_change_is_the_same_value(nodes):
    before = nodes.shown.of(("a", "b"))

    nodes.take("a", host=CPU)

    after = nodes.shown.of(("a", "b"))
    assert after["a"].host_free == CPU
    assert after["b"] is before["b"]


def test_asked_again_for_the_same_nodes_the_answer_is_the_same_value_until_one_changes(nodes):
    names = ("a", "b")
    before = nodes.shown.of(names)

    assert nodes.shown.of(names) is before
    nodes.take("a", host=CPU)
    assert nodes.shown.of(names)["a"].host_free == CPU
    nodes.by_name.clear()
    nodes.shown.clear()
    assert not nodes.shown.of(names)


def test_a_single_node_is_found_as_it_is_now(nodes):
    nodes.take("a", host=CPU)

    assert nodes.shown.get("a").host_free == CPU
    assert nodes.shown.get("x") is None


def test_a_node_that_goes_is_shown_no_more_until_it_is_back(nodes):
    assert "a" in nodes.shown.of(("a",))

    nodes.by_name["a"].lose()
    assert not nodes.shown.of(("a",))

    nodes.take("a")
    assert "a" in nodes.shown.of(("a",))


def test_after_clearing_nothing_is_shown(nodes):
    nodes.shown.of(("a",))
    nodes.by_name.clear()

    nodes.shown.clear()

    assert not nodes.shown.of(("a", "b"))
