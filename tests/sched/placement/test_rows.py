from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.model.request import NODE_POLICIES
from hamid.sched.placement.place import place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.rows import Placer
from tests.sched.builders import make_container, make_device, make_node, make_request

POLICIES = Policies()


def node(number, used_mib):
    return make_node(
        f"node-{number}", usages=[DeviceUsage(device=make_device(), memory_used_mib=used_mib)]
    )


def asking(mib, uid="uid-1", policy=()):
    container = make_container(memory=MemoryMib(mib=mib))
    return make_request(container, uid=uid, node_policies=policy)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(0, 40_000),
            st.sampled_from([1_000, 20_000]),
            st.sampled_from([(), *((name,) for name in NODE_POLICIES)]),
        ),
        max_size=30,
    )
)
def test_the_answer_is_always_that_of_place(steps):
    placer = Placer(policies=POLICIES, rows_kept=2)
    nodes = {number: node(number, 0) for number in range(5)}
    for changed, used_mib, asked_mib, policy in steps:
        nodes[changed] = node(changed, used_mib)
        request = asking(asked_mib, policy=policy)

        found = placer.place(request, nodes.values())

        assert found == place(request, nodes.values(), policies=POLICIES)


def test_pods_of_one_shape_share_what_was_found_but_not_their_identity():
    placer = Placer(policies=POLICIES)
    nodes = [node(0, 0)]

    first = placer.place(asking(1_000, "a"), nodes).best
    second = placer.place(asking(1_000, "b"), nodes).best

    assert first is second
    assert second.allocation("b").pod_uid == "b"


def test_nodes_that_are_gone_are_forgotten():
    placer = Placer(policies=POLICIES)
    for number in range(200):
        placer.place(asking(1_000), [node(number, 0)])

    (row,) = placer._rows.values()

    assert len(row) < 20
