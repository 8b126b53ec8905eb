from hamid.model import names as wire
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import DeviceSelection
from hamid.sched.placement.change import Amount, Change, ChangeKind, Lowered, applied, without
from tests.sched.builders import make_container, make_node, make_request, whole_card


def lowered(amount, asked, fitting, name="main"):
    return Lowered(container_name=name, amount=amount, asked=asked, fitting=fitting)


def test_amounts_are_lowered_in_the_container_of_that_name():
    request = make_request(make_container("a"), whole_card("b"))
    change = Change(
        kind=ChangeKind.PART,
        node_name="n",
        lowered=(lowered(Amount.MEMORY_PERCENT, 100, 50, "b"), lowered(Amount.CORES, 100, 40, "b")),
    )

    after, _ = applied(change, request, ())

    assert after.requests[0] == request.requests[0]
    assert after.requests[1].memory == MemoryPercent(percent=50)
    assert after.requests[1].core_percent == 40
    assert (
        change.sentence == "ask for 50 instead of 100 % of the memory and "
        "40 instead of 100 % of the cores in container b"
    )


def test_memory_in_mib_and_cards_are_lowered():
    request = make_request(make_container(device_count=3))
    change = Change(
        kind=ChangeKind.PART,
        node_name="n",
        lowered=(lowered(Amount.MEMORY_MIB, 1_000, 7), lowered(Amount.CARDS, 3, 2)),
    )

    (container,) = applied(change, request, ())[0].requests

    assert (container.memory, container.device_count) == (MemoryMib(mib=7), 2)


def test_cards_are_uncordoned_on_the_node_of_that_name():
    nodes = [make_node("a", cordoned=("x", "y")), make_node("b", cordoned=("x",))]
    change = Change(kind=ChangeKind.UNCORDON, node_name="a", device_uuids=("x",))

    _, after = applied(change, make_request(), nodes)

    assert [node.cordoned for node in after] == [{"y"}, {"x"}]


def test_annotations_are_dropped_and_nothing_else():
    selection = DeviceSelection(use_models=("A",), avoid_models=("B",), avoid_uuids=("C",))
    request = make_request(selection=selection, is_numa_bound=True, allowed_modes=("mig",))

    after = without(request, (wire.USE_MODEL, wire.AVOID_UUID, wire.NUMA_BIND, wire.VGPU_MODE))

    assert after == make_request(selection=DeviceSelection(avoid_models=("B",)))


def test_the_mode_is_told_by_both_its_names():
    names = (wire.USE_MODEL, wire.VGPU_MODE)
    change = Change(kind=ChangeKind.ANNOTATIONS, node_name="n", annotations=names)

    assert (
        change.sentence == "drop annotations nvidia.com/use-gputype and nvidia.com/vgpu-mode "
        "(or hami.io/vgpu-mode)"
    )


def test_one_card_and_several_are_said_as_people_say_it():
    said = [
        Change(
            kind=ChangeKind.CARDS, node_name="n", lowered=(lowered(Amount.CARDS, 4, fitting),)
        ).sentence
        for fitting in (3, 2)
    ]

    assert said == [
        "ask for 1 card fewer (3 instead of 4) in container main",
        "ask for 2 cards fewer (2 instead of 4) in container main",
    ]


def test_annotations_are_called_by_that_name():
    said = [
        Change(kind=ChangeKind.ANNOTATIONS, node_name="n", annotations=names).sentence
        for names in (("a",), ("a", "b"))
    ]

    assert said == ["drop annotation a", "drop annotations a and b"]


def test_of_many_containers_not_all_amounts_are_told():
    lows = tuple(lowered(Amount.MEMORY_MIB, 100 + n, 7, f"c{n}") for n in range(6))

    said = Change(kind=ChangeKind.MEMORY, node_name="n", lowered=lows).sentence

    assert said == (
        "ask for 93 MiB less (7 instead of 100) in container c0 and "
        "94 MiB less (7 instead of 101) in container c1 and "
        "95 MiB less (7 instead of 102) in container c2 and less in 3 more containers"
    )
