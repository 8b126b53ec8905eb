"""What a node may say of memory besides limits: what contexts cost, and that a card is oversubscribed."""

import json

import pytest

from hamid.hooks.abi.injection import MemoryTerms
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB

pytestmark = pytest.mark.native

SUCCESS = 0
OUT_OF_MEMORY = 2
CONTEXT_MIB = 300
UNIT_MIB = 32


def limit(container, memory_mib, terms):
    memory_bytes = memory_mib * MIB
    device = DeviceLimit(
        device_uuid=CARD,
        memory_bytes=memory_bytes,
        context_bytes=terms.context_mib * MIB,
        fixed_bytes=terms.fixed_bytes(memory_bytes),
    )
    page = encode_control_page(ContainerLimits(devices=(device,), priority=1, generation=1))
    container.write_page(page)


def tried(container, *arguments):
    done = container.run("route", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def costly(container):
    """A container on a card where each context takes 300 MiB, and is charged as much."""
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("name=", f"context_mib={CONTEXT_MIB}\nname="))
    return container


def test_contexts_and_their_heaps_are_charged_what_they_take_until_they_are_gone(costly):
    limit(costly, 1000, MemoryTerms(context_mib=CONTEXT_MIB))

    lines = {line["case"]: line for line in tried(costly, "contexts")}

    charged = {case: line["charged"] / MIB for case, line in lines.items()}
    assert charged == {
        "primary": 300,
        "retained again": 300,
        "released again": 300,
        "second": 600,
        "heap": 664,
        "heap lowered": 664,
        "heap raised": 728,
        "heap of all there is": 728,
        "unknown limit": 728,
        "third": 728,
        "second destroyed": 300,
        "destroyed twice": 300,
        "printf": 308,
        "primary reset": 300,
        "primary released": 0,
    }
    refused = {case for case, line in lines.items() if line["result"] == OUT_OF_MEMORY}
    assert refused == {"heap of all there is", "third"}
    # The simulated driver's printf costs nothing.
    assert all(
        line["charged"] == line["physical"] for case, line in lines.items() if case != "printf"
    )


def test_where_contexts_are_charged_cuda_and_nvml_tell_so_and_the_rest_may_be_allocated(costly):
    limit(costly, 1000, MemoryTerms(context_mib=CONTEXT_MIB))

    answers = costly.alloc(700, 1)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]
    story = {"total_mib": 1000, "free_mib": 0}
    assert story.items() <= answers.only("cuMemGetInfo").items()
    for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        assert (story | {"used_mib": 1000}).items() <= answers.only(call).items()


def test_by_default_the_whole_slice_may_be_allocated_and_only_what_is_made_of_contexts_is_charged(
    costly,
):
    limit(costly, 1000, MemoryTerms())

    assert costly.alloc(1000, 1).results("cuMemAlloc") == [
        "CUDA_SUCCESS",
        "CUDA_ERROR_OUT_OF_MEMORY",
    ]
    charged = {line["case"]: line["charged"] / MIB for line in tried(costly, "contexts")}
    assert charged["primary"] == charged["second"] == 0
    assert charged["heap raised"] == 128
    assert charged["primary released"] == 0


OVERSUBSCRIBED = MemoryTerms(scaling=2.0)


def test_of_an_oversubscribed_card_the_first_half_is_device_memory_and_the_second_managed(
    container,
):
    limit(container, 512, OVERSUBSCRIBED)

    (line,) = tried(container, "touch", UNIT_MIB)

    assert (line["count"], line["managed"]) == (16, 8)
    assert (line["charged"], line["fixed"]) == (512 * MIB, 256 * MIB)
    assert (line["result"], line["failed"], line["wrong"]) == (OUT_OF_MEMORY, SUCCESS, 0)
    assert line["left"] == 0


def test_two_containers_hold_more_than_the_card_and_lose_nothing(container):
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("memory_mib=40960", "memory_mib=512", 1))
    limit(container, 512, OVERSUBSCRIBED)
    other = container.start(256)  # a process of another container would be the same to the card

    (line,) = tried(container, "touch", UNIT_MIB)

    assert line["fixed"] == 0  # all that is fast is the other's
    assert line["charged"] == 256 * MIB
    assert line["most"] <= 256 * MIB
    assert (line["result"], line["failed"], line["wrong"]) == (OUT_OF_MEMORY, SUCCESS, 0)
    other.end()


@pytest.mark.parametrize("route", ["alloc", "pitch", "managed"])
def test_what_can_be_managed_memory_may_be_had_up_to_the_limit(container, route):
    limit(container, 512, OVERSUBSCRIBED)

    (line,) = tried(container, "fill", route, UNIT_MIB)

    assert line["granted"] == line["charged"] == 512 * MIB
    assert (line["result"], line["left"]) == (OUT_OF_MEMORY, 0)
    assert line["regained"] == line["count"]


@pytest.mark.parametrize(
    "route", ["async", "pool", "handle", "mapping", "array", "array3d", "mipmap", "graph"]
)
def test_what_cannot_be_managed_memory_may_be_had_up_to_the_real_share(container, route):
    limit(container, 512, OVERSUBSCRIBED)

    (line,) = tried(container, "fill", route, UNIT_MIB)

    assert line["granted"] == line["charged"] == line["physical"] == 256 * MIB
    assert (line["result"], line["left"]) == (OUT_OF_MEMORY, 0)
    assert line["regained"] == line["count"]


def test_a_limit_above_an_oversubscribed_card_is_told_as_it_is(container):
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("memory_mib=40960", "memory_mib=512", 1))
    limit(container, 1024, OVERSUBSCRIBED)

    answers = container.alloc(768)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS"]
    story = {"total_mib": 1024, "free_mib": 256}
    assert story.items() <= answers.only("cuMemGetInfo").items()
    assert answers.only("cuDeviceTotalMem")["total_mib"] == 1024
    assert (story | {"used_mib": 768}).items() <= answers.only("nvmlDeviceGetMemoryInfo").items()


def test_the_daemon_reads_of_an_oversubscribed_card_what_is_held_of_it_once(container):
    limit(container, 512, OVERSUBSCRIBED)
    container.start(300)

    assert container.usage().used_bytes(CARD) == 300 * MIB
    assert [dict(p.used_bytes_by_uuid) for p in container.usage().processes] == [{CARD: 300 * MIB}]
