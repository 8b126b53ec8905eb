from pathlib import PurePosixPath

import pytest

from hamid.hooks.abi import contract
from hamid.hooks.abi.injection import (
    HostPaths,
    InjectedMount,
    MemoryTerms,
    TimeTerms,
    container_limits,
    injection,
)
from hamid.hooks.abi.pages import CoreMode, DeviceLimit, decode_control_page, encode_control_page
from hamid.model.quantities import MIB
from hamid.model.sharing import SharingMode
from tests.builders import make_share, uuid

PATHS = HostPaths(
    library=PurePosixPath("/host/lib/libhamid-1.so"),
    preload=PurePosixPath("/host/lib/ld.so.preload"),
    limits=PurePosixPath("/host/grants/g1/limits"),
    usage_page=PurePosixPath("/host/grants/g1/usage/usage.page"),
    node_by_uuid={uuid(n): f"/dev/nvidia{n}" for n in (1, 2, 3)},
    control_nodes=("/dev/nvidiactl",),
)
TWO = (make_share(device_uuid=uuid(2), memory_mib=3_000), make_share(device_uuid=uuid(1)))


def injected(*shares, priority=None, paths=PATHS):
    return injection(shares, priority=priority, grant_id="g1", paths=paths)


def test_only_the_file_that_the_container_reports_into_is_writable():
    assert injected(*TWO).mounts == (
        InjectedMount(
            container_path=contract.LIBRARY_PATH,
            host_path="/host/lib/libhamid-1.so",
            is_read_only=True,
        ),
        InjectedMount(
            container_path=contract.PRELOAD_PATH,
            host_path="/host/lib/ld.so.preload",
            is_read_only=True,
        ),
        InjectedMount(
            container_path=contract.LIMITS_DIR,
            host_path="/host/grants/g1/limits",
            is_read_only=True,
        ),
        InjectedMount(
            container_path=contract.USAGE_PAGE_PATH,
            host_path="/host/grants/g1/usage/usage.page",
            is_read_only=False,
        ),
    )


def test_only_the_nodes_of_its_own_cards_enter_and_the_control_nodes():
    nodes = injected(*TWO).device_nodes

    assert nodes == ("/dev/nvidia2", "/dev/nvidia1", "/dev/nvidiactl")


def test_where_the_host_has_no_device_nodes_none_enter():
    paths = HostPaths(
        library=PATHS.library,
        preload=PATHS.preload,
        limits=PATHS.limits,
        usage_page=PATHS.usage_page,
    )

    assert injected(*TWO, paths=paths).device_nodes == ()


def test_the_environment_speaks_hamis_names_in_the_order_of_the_shares():
    assert injected(*TWO, priority=1).envs == {
        "NVIDIA_VISIBLE_DEVICES": f"{uuid(2)},{uuid(1)}",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "1000m",
        "CUDA_DEVICE_SM_LIMIT": "10",
        "CUDA_TASK_PRIORITY": "1",
        "HAMID_GRANT_ID": "g1",
    }


def test_what_was_not_asked_for_is_not_in_the_environment():
    envs = injected(make_share(core_percent=0)).envs

    assert "CUDA_DEVICE_SM_LIMIT" not in envs
    assert "CUDA_TASK_PRIORITY" not in envs


@pytest.mark.parametrize(("priority", "on_page"), [(0, 0), (1, 1), (None, 1)])
def test_without_a_word_a_container_is_of_low_priority_as_in_hami(priority, on_page):
    assert (
        container_limits(TWO, time=TimeTerms(priority=priority), generation=1).priority == on_page
    )


def test_limits_are_in_bytes_and_survive_the_page():
    limits = container_limits(TWO, time=TimeTerms(priority=0), generation=7)

    assert limits.devices == (
        DeviceLimit(device_uuid=uuid(2), memory_bytes=3_000 * MIB, core_percent=10),
        DeviceLimit(device_uuid=uuid(1), memory_bytes=1_000 * MIB, core_percent=10),
    )
    assert limits.generation == 7
    assert decode_control_page(encode_control_page(limits)) == limits


def test_by_default_contexts_are_not_charged_and_all_of_a_limit_is_the_card_s():
    (device, _) = container_limits(TWO, time=TimeTerms(priority=0), generation=7).devices

    assert (device.context_bytes, device.fixed_bytes) == (0, None)


@pytest.mark.parametrize(
    ("scaling", "fixed_mib"), [(1.0, None), (0.5, None), (2.0, 1_500), (1.5, 2_000), (1.25, 2_400)]
)
def test_of_a_scaled_card_so_much_of_a_limit_is_fixed_as_the_card_really_has(scaling, fixed_mib):
    terms = MemoryTerms(context_mib=300, scaling=scaling)

    (device, _) = container_limits(
        TWO, time=TimeTerms(priority=0), generation=7, terms=terms
    ).devices

    assert device.context_bytes == 300 * MIB
    assert device.fixed_bytes == (None if fixed_mib is None else fixed_mib * MIB)


@pytest.mark.parametrize("mode", SharingMode)
def test_how_time_is_shared_is_on_the_page(mode):
    limits = container_limits(
        TWO, generation=7, time=TimeTerms(mode=mode, weight=5, trusts_mps=True)
    )

    assert limits.mode is CoreMode[mode.name]
    assert {device.weight for device in limits.devices} == {5}
    assert decode_control_page(encode_control_page(limits)).trusts_mps


def test_without_a_word_caps_are_hard():
    limits = container_limits(TWO, generation=7)

    assert (limits.mode, limits.trusts_mps) == (CoreMode.HARD, False)
