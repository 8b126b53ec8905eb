"""Where the driver says no, on whichever route: what it did not give is not charged, what it kept stays so."""

import json

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB

pytestmark = pytest.mark.native

LIMIT_MIB = 512
UNIT_MIB = 32
OUT_OF_MEMORY, UNKNOWN = 2, 999


@pytest.fixture
def filled(container):
    """What comes of filling a container of 512 MiB by a route, with calls of the driver that fail."""
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("name=", "context_mib=0\nname="))

    def fill(route, unit_mib=UNIT_MIB, *, failing=None, fixed_mib=None):
        device = DeviceLimit(
            device_uuid=CARD,
            memory_bytes=LIMIT_MIB * MIB,
            fixed_bytes=None if fixed_mib is None else fixed_mib * MIB,
        )
        limits = ContainerLimits(devices=(device,), priority=1, generation=1)
        container.write_page(encode_control_page(limits))
        env = {"HAMID_SIM_CUDA_FAIL": f"{failing}={UNKNOWN}"} if failing else None
        done = container.run("route", "fill", route, unit_mib, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    return fill


TAKES = [
    ("alloc", "cuMemAlloc_v2"),
    ("alloc v1", "cuMemAlloc"),
    ("managed", "cuMemAllocManaged"),
    ("narrow pitch", "cuMemAllocPitch_v2"),
    ("narrow pitch v1", "cuMemAllocPitch"),
    ("async", "cuMemAllocAsync"),
    ("async of thread", "cuMemAllocAsync"),
    ("pool", "cuMemAllocFromPoolAsync"),
    ("own pool", "cuMemPoolCreate"),
    ("own pool", "cuMemAllocFromPoolAsync"),
    ("handle", "cuMemCreate"),
    ("mapping", "cuMemCreate"),
    ("mapping", "cuMemAddressReserve"),
    ("mapping", "cuMemMap"),
    ("multicast", "cuMulticastCreate"),
    ("multicast", "cuMulticastBindMem"),
    ("multicast", "cuMemMap"),
    ("array", "cuArrayCreate_v2"),
    ("array3d", "cuArray3DCreate_v2"),
    ("mipmap", "cuMipmappedArrayCreate"),
    ("graph", "cuGraphAddMemAllocNode"),
    ("graph", "cuGraphInstantiateWithFlags"),
    ("graph", "cuGraphLaunch"),
    ("graph node", "cuGraphAddNode_v2"),
    ("graph node", "cuGraphInstantiateWithParams"),
    ("graph node", "cuGraphUpload"),
    ("external", "cuImportExternalMemory"),
    ("heap", "cuCtxCreate_v2"),
    ("heap", "cuCtxSetLimit"),
    ("green context", "cuGreenCtxCreate"),
    ("green context", "cuMemAlloc_v2"),
    ("sparse array", "cuMemCreate"),
    ("sparse array", "cuMemMapArrayAsync"),
]
"""Of each route, the calls that can refuse it."""


@pytest.mark.parametrize("fixed_mib", [None, LIMIT_MIB // 2], ids=["", "oversubscribed"])
@pytest.mark.parametrize(("route", "call"), TAKES)
def test_what_the_driver_refuses_is_charged_on_no_route(filled, route, call, fixed_mib):
    line = filled(route, failing=call, fixed_mib=fixed_mib)

    assert (line["count"], line["result"]) == (0, UNKNOWN)
    assert (line["charged"], line["fixed"], line["physical"]) == (0, 0, 0)


GIVES = [
    ("alloc", "cuMemFree_v2"),
    ("alloc v1", "cuMemFree"),
    ("managed", "cuMemFree_v2"),
    ("narrow pitch", "cuMemFree_v2"),
    ("async", "cuMemFreeAsync"),
    ("async of thread", "cuMemFreeAsync"),
    ("pool", "cuMemFreeAsync"),
    ("own pool", "cuMemFreeAsync"),
    ("handle", "cuMemRelease"),
    ("mapping", "cuMemUnmap"),
    ("multicast", "cuMemUnmap"),
    ("array", "cuArrayDestroy"),
    ("array3d", "cuArrayDestroy"),
    ("mipmap", "cuMipmappedArrayDestroy"),
    ("external", "cuDestroyExternalMemory"),
    ("heap", "cuCtxDestroy_v2"),
    ("green context", "cuMemFree_v2"),
]


@pytest.mark.parametrize(("route", "call"), GIVES)
def test_what_the_driver_does_not_take_back_stays_charged_on_each_route(filled, route, call):
    line = filled(route, failing=call)

    assert line["free_result"] == UNKNOWN
    assert line["left"] == line["charged"] == LIMIT_MIB * MIB
    assert line["regained"] == 0


@pytest.mark.parametrize("route", ["narrow pitch", "narrow pitch v1"])
def test_rows_for_which_the_driver_s_pitch_leaves_no_room_are_given_back(filled, route):
    """Without the pitch, a fifth of it, they would fit: only the driver says."""
    line = filled(route, 48)

    fitting_bytes = LIMIT_MIB // 48 * 48 * MIB
    assert (line["granted"], line["result"]) == (fitting_bytes, OUT_OF_MEMORY)
    assert line["charged"] == line["physical"] == fitting_bytes
    assert line["left"] == 0
