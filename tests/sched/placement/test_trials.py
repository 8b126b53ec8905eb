from hamid.model.quantities import MemoryMib
from hamid.model.request import ContainerKind
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.trials import MOST_KINDS, Trials, alike
from tests.sched.builders import make_container, make_devices, make_node, make_request


def names(kinds):
    return [[each.container_name for each in kind] for kind in kinds]


def test_containers_are_alike_that_ask_for_the_same_and_find_the_same():
    init, sidecar = ContainerKind.INIT, ContainerKind.SIDECAR
    request = make_request(
        make_container("i1", kind=init),
        make_container("i2", kind=init),
        make_container("s", kind=sidecar),
        make_container("i3", kind=init),
        make_container("a1"),
        make_container("b", memory=MemoryMib(mib=1)),
        make_container("a2"),
    )

    assert names(alike(request)) == [["i1", "i2"], ["s"], ["i3"], ["a1", "a2"], ["b"]]


def test_more_is_not_tried_once_enough_was_looked_at(monkeypatch):
    monkeypatch.setattr("hamid.sched.placement.trials.LOOKS", 1)
    request = make_request(make_container(memory=MemoryMib(mib=50_000)))
    node = make_node()
    trials = Trials(request, [node], Policies())
    small = make_request(make_container(memory=MemoryMib(mib=1)))

    assert trials.fits(small, node)
    assert not trials.is_partial or not trials.fits(small, node)
    assert trials.is_partial


def test_of_many_kinds_none_is_tried_alone():
    containers = [
        make_container(f"c{n}", memory=MemoryMib(mib=20_000 + n)) for n in range(MOST_KINDS + 1)
    ]

    trials = Trials(make_request(*containers), [make_node(devices=make_devices(2))], Policies())

    assert trials.is_partial
    assert [tried.refusals for tried in trials.tried] == [()]
