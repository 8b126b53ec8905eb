from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryPercent
from hamid.sched.placement.board import Board
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import (
    Placement,
    chosen_placement,
    lone_ask,
    place,
    with_allocation,
)
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.typical import Arrivals
from tests.sched.builders import make_container, make_devices, make_node, make_request

ROOMY = HostAmount(cpu_milli=8_000, memory_mib=8_000)


def asking(uid, percent, count, cpu_milli):
    container = make_container(
        device_count=count, memory=MemoryPercent(percent=percent), core_percent=percent
    )
    return make_request(container, uid=uid, host=HostAmount(cpu_milli=cpu_milli))


def empty(number):
    usages = [DeviceUsage(device=device) for device in make_devices(3, slot_count=4)]
    return make_node(f"node-{number}", usages=usages, host_free=ROOMY)


asks = st.tuples(
    st.sampled_from([10, 30, 50, 100]), st.sampled_from([1, 1, 2]), st.sampled_from([0, 1_000])
)


@given(st.lists(asks, max_size=40), st.lists(st.integers(0, 3), max_size=4))
def test_the_answer_is_always_that_of_place(steps, dropped):
    arrivals = Arrivals()
    board = Board(arrivals)
    nodes = {f"node-{number}": empty(number) for number in range(4)}
    for node in nodes.values():
        board.put(node)
    for step, (percent, count, cpu_milli) in enumerate(steps):
        request = asking(f"uid-{step}", percent, count, cpu_milli)
        arrivals.observe(request)

        found = board.best(lone_ask(request), request.host)

        room = [n for n in nodes.values() if n.host_free.covers(request.host)]
        measure = Fragmentation(arrivals.typical)
        right = place(request, room, policies=Policies(), measure=measure)
        if found is None:
            assert not isinstance(right, Placement)
            continue
        node, choice = found
        assert chosen_placement(request, node, choice) == right.best
        allocation = right.best.allocation(request.pod_uid)
        after = with_allocation(node, allocation)
        after = make_node(
            node.node_name, usages=after.usages, host_free=node.host_free - request.host
        )
        nodes[node.node_name] = after
        board.put(after)
        if step in dropped:
            board.drop(node.node_name)
            del nodes[node.node_name]


def test_a_node_that_is_dropped_and_put_again_takes_part_again():
    board = Board(Arrivals())
    request = asking("uid", 50, 1, 0)
    board.put(empty(0))
    board.drop("node-0")
    assert board.best(lone_ask(request), request.host) is None

    board.put(empty(0))

    node, _ = board.best(lone_ask(request), request.host)
    assert node.node_name == "node-0"


def test_a_pod_without_cards_goes_only_where_the_host_has_room():
    board = Board(Arrivals())
    for number in range(2):
        board.put(empty(number))

    assert board.best(None, HostAmount(cpu_milli=8_001)) is None
    assert board.best(None, HostAmount(cpu_milli=8_000)) is not None


def test_a_board_forgets_its_log_before_it_grows_without_end():
    board = Board(Arrivals())
    request = asking("uid", 50, 1, 0)
    for _ in range(200):
        board.put(empty(0))
        board.best(lone_ask(request), request.host)

    assert len(board._log) < 50


def test_a_board_begins_anew_once_it_remembers_too_much(monkeypatch):
    monkeypatch.setattr("hamid.sched.placement.fragmentation.ANSWERS_KEPT", 40)
    board, measure = Board(Arrivals()), Fragmentation(Arrivals().typical)
    nodes = [empty(number) for number in range(3)]
    for node in nodes:
        board.put(node)
    board.put(empty(3))
    board.drop("node-3")
    measures = set()

    for percent in range(1, 60):
        request = asking("uid", percent, 1, 1_000)
        node, choice = board.best(lone_ask(request), request.host)
        right = place(request, nodes, policies=Policies(), measure=measure)
        assert chosen_placement(request, node, choice) == right.best
        measures.add(id(board._measure))

    assert len(measures) > 1


def test_one_node_that_changed_is_all_that_is_worked_out_anew(monkeypatch):
    looked_at, bounds = [], []

    class Counting(Fragmentation):
        def view(self, node):
            looked_at.append(node.node_name)
            return super().view(node)

        def bound(self, view, number):
            bounds.append(number)
            return super().bound(view, number)

    monkeypatch.setattr("hamid.sched.placement.board.Fragmentation", Counting)
    board, request = Board(Arrivals()), asking("uid", 50, 1, 1_000)
    for number in range(100):
        board.put(empty(number))
    board.best(lone_ask(request), request.host)
    assert (len(looked_at), len(bounds)) == (100, 100)

    board.put(make_node("node-42", usages=empty(42).usages[:2], host_free=ROOMY))
    board.best(lone_ask(request), request.host)

    assert (looked_at[100:], len(bounds)) == (["node-42"], 101)
