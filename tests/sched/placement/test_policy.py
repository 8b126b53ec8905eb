import pytest

from hamid.model.device import DeviceUsage
from hamid.model.request import PolicyName
from hamid.sched.placement.policy import LOAD_ORDERINGS, Policies, device_load_ppm, load_ppm
from tests.sched.builders import make_device, make_request


def test_every_policy_has_its_ordering():
    assert set(LOAD_ORDERINGS) == set(PolicyName) - {
        PolicyName.FRAGMENTATION,
        PolicyName.MUTEX,
        PolicyName.NUMA,
        PolicyName.TOPOLOGY_AWARE,
    }


@pytest.mark.parametrize(("policy", "first"), [(PolicyName.BINPACK, 9), (PolicyName.SPREAD, 1)])
def test_binpack_prefers_the_full_and_spread_the_empty(policy, first):
    assert min([5, 9, 1], key=LOAD_ORDERINGS[policy]) == first


def test_load_counts_slots_memory_and_cores_alike():
    usage = DeviceUsage(
        device=make_device(), slots_used=5, memory_used_mib=10_000, core_used_percent=100
    )

    assert device_load_ppm(usage) == 500_000 + 250_000 + 1_000_000


def test_the_load_of_several_devices_is_that_of_their_sum():
    full = DeviceUsage(device=make_device(memory_mib=30_000), memory_used_mib=30_000)
    empty = DeviceUsage(device=make_device(memory_mib=10_000))

    assert load_ppm((full, empty)) == 750_000


def test_a_device_without_cores_has_no_core_load():
    assert device_load_ppm(DeviceUsage(device=make_device(core_percent=0))) == 0


def test_the_wish_of_a_pod_comes_before_the_default():
    defaults = Policies(node=(PolicyName.SPREAD,), device=(PolicyName.SPREAD,))

    wanted = defaults.for_request(make_request(device_policies=(PolicyName.BINPACK,)))

    assert wanted == Policies(node=(PolicyName.SPREAD,), device=(PolicyName.BINPACK,))
