import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceHold
from hamid.model.request import ContainerKind
from tests.builders import UUID, make_allocation, make_container_allocation, make_share, uuid

INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


def pod(*parts):
    """An allocation from (kind, MiB) pairs, all on one device."""
    return make_allocation(
        containers=tuple(
            make_container_allocation(
                make_share(memory_mib=mib, core_percent=mib // 100),
                container_name=f"c{n}",
                kind=kind,
            )
            for n, (kind, mib) in enumerate(parts)
        )
    )


@pytest.mark.parametrize(
    ("parts", "at_first_mib", "later_mib"),
    [
        pytest.param([(APP, 3_000)], 3_000, 3_000, id="one app container"),
        pytest.param([(APP, 3_000), (APP, 2_000)], 5_000, 5_000, id="app containers add up"),
        pytest.param(
            [(INIT, 10_000), (INIT, 10_000), (INIT, 10_000), (APP, 4_000)],
            10_000,
            4_000,
            id="init containers run one after another",
        ),
        pytest.param([(INIT, 2_000), (APP, 4_000)], 4_000, 4_000, id="a small init container"),
        pytest.param(
            [(INIT, 10_000), (SIDECAR, 3_000), (APP, 8_000)],
            11_000,
            11_000,
            id="a sidecar stays with the app containers",
        ),
        pytest.param(
            [(SIDECAR, 3_000), (INIT, 10_000), (APP, 1_000)],
            13_000,
            4_000,
            id="a sidecar before an init container adds to its peak",
        ),
        pytest.param(
            [(INIT, 10_000), (SIDECAR, 3_000), (APP, 1_000)],
            10_000,
            4_000,
            id="a sidecar after an init container does not",
        ),
        pytest.param([(SIDECAR, 3_000), (SIDECAR, 2_000)], 5_000, 5_000, id="sidecars add up"),
    ],
)
def test_what_a_pod_holds_is_its_peak(parts, at_first_mib, later_mib):
    allocation = pod(*parts)

    assert allocation.holds()[UUID].memory_mib == at_first_mib
    assert allocation.holds(is_initialized=True)[UUID].memory_mib == later_mib


def test_cores_and_slots_peak_as_memory_does():
    held = pod((INIT, 10_000), (SIDECAR, 3_000), (APP, 1_000)).holds()[UUID]

    assert held == DeviceHold(slots=2, memory_mib=10_000, core_percent=100, is_exclusive=True)


def test_a_pod_is_exclusive_only_while_a_share_of_all_cores_runs():
    allocation = pod((INIT, 10_000), (APP, 1_000))

    assert allocation.holds()[UUID].is_exclusive
    assert not allocation.holds(is_initialized=True)[UUID].is_exclusive


def test_a_device_that_a_container_is_given_twice_counts_twice():
    container = make_container_allocation(
        make_share(memory_mib=1_000), make_share(memory_mib=2_000), kind=INIT
    )

    (hold,) = make_allocation(containers=(container,)).holds().values()

    assert (hold.slots, hold.memory_mib) == (2, 3_000)


def test_each_device_is_counted_by_itself():
    allocation = make_allocation(
        make_container_allocation(
            make_share(device_uuid=uuid(2), memory_mib=1), make_share(memory_mib=2)
        ),
        make_container_allocation(make_share(memory_mib=4), container_name="other"),
    )

    holds = allocation.holds()

    assert {key: hold.memory_mib for key, hold in holds.items()} == {uuid(1): 6, uuid(2): 1}


def test_a_container_is_found_by_its_name():
    allocation = make_allocation(make_container_allocation(container_name="train"))

    assert allocation.container("train") is allocation.containers[0]
    assert allocation.container("other") is None


PARTS = st.lists(st.tuples(st.sampled_from(ContainerKind), st.integers(0, 10_000)), max_size=8)


@given(PARTS)
def test_a_pod_never_holds_more_later_than_at_first(parts):
    allocation = pod(*parts)

    at_first, later = allocation.holds(), allocation.holds(is_initialized=True)

    assert all(hold.memory_mib <= at_first[key].memory_mib for key, hold in later.items())


def test_of_a_device_that_only_init_containers_had_a_pod_holds_nothing_later():
    allocation = pod((INIT, 1_000), (INIT, 2_000))

    assert allocation.holds()
    assert not allocation.holds(is_initialized=True)


@given(PARTS)
def test_a_pod_holds_at_least_its_largest_container_and_at_most_their_sum(parts):
    held = pod(*parts).holds().get(UUID)

    sizes = [mib for _, mib in parts]
    assert held is None or max(sizes) <= held.memory_mib <= sum(sizes)


def test_a_container_of_another_kind_is_a_bug():
    with pytest.raises(AssertionError):
        pod(("daemon", 1_000)).holds()


def test_its_devices_are_those_of_all_its_containers_each_once():
    one, other = make_share(), make_share(device_uuid=uuid(2))
    allocation = make_allocation(
        make_container_allocation(one, other),
        make_container_allocation(one, container_name="other"),
    )

    assert allocation.device_uuids == {one.device_uuid, other.device_uuid}
