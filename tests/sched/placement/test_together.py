"""What several containers must ask less of at once: against all there is, on small nodes."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.sched.placement.change import ChangeKind, applied
from hamid.sched.placement.place import Placement, place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.smallest_change import smallest_changes
from hamid.sched.placement.together import together
from hamid.sched.placement.trials import Trials
from tests.sched.builders import make_container, make_device, make_node, make_request, whole_card


def fits(request, nodes):
    return isinstance(place(request, nodes, policies=Policies()), Placement)


def node(*free_mib, cores=0, name="node-a"):
    devices = [make_device(f"card-{n}", device_index=n) for n in range(len(free_mib))]
    return make_node(
        name,
        usages=[
            DeviceUsage(
                device=device,
                memory_used_mib=device.memory_mib - mib,
                core_used_percent=cores,
                slots_used=1,
            )
            for device, mib in zip(devices, free_mib, strict=True)
        ],
    )


def asking(*mib, **overrides):
    return make_request(
        *(
            make_container(f"c{n}", memory=MemoryMib(mib=each), **overrides)
            for n, each in enumerate(mib)
        )
    )


def sentences(request, *nodes):
    return [change.sentence for change in smallest_changes(request, nodes, Policies())]


def test_containers_that_ask_for_the_same_are_told_together():
    assert sentences(asking(50_000, 50_000, 10), node(20_010, 20_000)) == [
        "ask for 30000 MiB less (20000 instead of 50000) in each of containers c0 and c1"
    ]


def test_many_that_ask_for_the_same_are_not_all_named():
    assert sentences(asking(*[50_000] * 6), node(24_000)) == [
        "ask for 46000 MiB less (4000 instead of 50000) in each of containers c0, c1, c2 and 3 more"
    ]


def test_each_gets_the_same_part_and_then_what_is_left():
    nodes = node(5_000, name="a"), node(9_001, name="b")

    (said,) = sentences(asking(40_000, 20_000), *nodes)

    assert said == (
        "ask for 33999 MiB less (6001 instead of 40000) in container c0 and "
        "17000 MiB less (3000 instead of 20000) in container c1"
    )


@pytest.mark.parametrize(
    ("request_", "nodes", "kind", "fitting"),
    [
        pytest.param(
            asking(10, 20, device_count=3),
            [node(1_000, 1_000)],
            ChangeKind.CARDS,
            [2, 2],
            id="one card fewer in each",
        ),
        pytest.param(
            asking(10, 20, core_percent=80),
            [node(1_000, cores=50)],
            ChangeKind.CORES,
            [25, 25],
            id="fewer cores in each",
        ),
        pytest.param(
            make_request(whole_card("a"), whole_card("b")),
            [node(10_000, 30_000, cores=50)],
            ChangeKind.PART,
            [37, 37, 25, 25],
            id="a part of a card each",
        ),
        pytest.param(
            asking(50_000, device_count=2),
            [node(30_000)],
            ChangeKind.PART,
            [30_000, 1],
            id="less of one card alone",
        ),
        pytest.param(
            make_request(
                make_container("a", memory=MemoryMib(mib=50_000)),
                make_container("b", memory=MemoryPercent(percent=100)),
            ),
            [node(20_000)],
            ChangeKind.MEMORY,
            None,
            id="of MiB and of percent",
        ),
    ],
)
def test_what_several_must_change_is_found(request_, nodes, kind, fitting):
    changes = smallest_changes(request_, nodes, Policies())

    (change,) = [each for each in changes if each.kind is kind]
    assert fits(*applied(change, request_, nodes))
    if fitting is not None:
        assert [low.fitting for low in change.lowered] == fitting


@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=4),
    st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=2), min_size=1, max_size=2),
    st.booleans(),
)
def test_no_larger_part_would_do_for_all_and_no_step_more_of_any(asked, free, is_percent):
    request = asking(*asked)
    if is_percent:
        first = replace(request.requests[0], memory=MemoryPercent(percent=100))
        request = replace(request, requests=(first, *request.requests[1:]))
    nodes = [node(*each, name=f"n{n}") for n, each in enumerate(free)]
    assume(not fits(request, nodes))
    assume(sum(mib > 1 for mib in asked) > 1)

    def lowered(values):
        found = []
        for each, value in zip(request.requests, values, strict=True):
            percent = isinstance(each.memory, MemoryPercent)
            found.append(
                replace(
                    each, memory=MemoryPercent(percent=value) if percent else MemoryMib(mib=value)
                )
            )
        return replace(request, requests=tuple(found))

    wanted = [100 if is_percent and n == 0 else mib for n, mib in enumerate(asked)]
    trials = Trials(request, nodes, Policies())
    change = together(trials, (ChangeKind.MEMORY,))

    most = max(wanted)
    levels = [[max(1, mib * level // most) for mib in wanted] for level in range(most + 1)]
    doing = [values for values in levels if fits(lowered(values), nodes)]
    if change is None:
        assert not doing or trials.is_partial
        return
    given_ = {low.container_name: low.fitting for low in change.lowered}
    values = [
        given_.get(each.container_name, mib)
        for each, mib in zip(request.requests, wanted, strict=True)
    ]
    assert fits(lowered(values), nodes)
    assert all(had >= least for had, least in zip(values, doing[-1], strict=True))
    for kind in trials.kinds:
        names = {each.container_name for each in kind}
        more = [
            value + (each.container_name in names)
            for each, value in zip(request.requests, values, strict=True)
        ]
        if all(value <= mib for value, mib in zip(more, wanted, strict=True)):
            assert not fits(lowered(more), nodes)


def test_where_one_amount_of_one_container_is_all_there_is_nothing_is_done_together():
    trials = Trials(asking(50_000), [node(10)], Policies())

    assert together(trials, (ChangeKind.MEMORY,)) is None
