"""The limit of a container holds, to the byte, whichever way a program finds the driver."""

import subprocess
import sys

import pytest

from tests.native.container import CARD, CARD_MIB, MIB, OTHER_CARD

pytestmark = pytest.mark.native

SUCCESS = "CUDA_SUCCESS"
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
WAYS = ["dlsym", "procaddress", "procaddress1", "link"]


@pytest.mark.parametrize("way", WAYS)
def test_the_last_mib_may_be_had_and_one_more_may_not(container, way):
    container.limit((CARD, 3000))

    answers = container.alloc("--via", way, 3000, 1)

    assert answers.results("cuMemAlloc") == [SUCCESS, OUT_OF_MEMORY]
    assert container.alloc("--via", way, 3001).results("cuMemAlloc") == [OUT_OF_MEMORY]


@pytest.mark.parametrize("way", WAYS)
def test_the_limit_holds_for_the_first_version_of_the_calls(container, way):
    container.limit((CARD, 100))

    answers = container.alloc("--via", way, "--abi", 1, 100, 1)

    assert answers.results("cuMemAlloc") == [SUCCESS, OUT_OF_MEMORY]
    assert answers.only("cuMemGetInfo")["total_mib"] == 100
    assert answers.only("cuDeviceTotalMem")["total_mib"] == 100


@pytest.mark.parametrize("abi", [1, 2])
@pytest.mark.parametrize("way", ["procaddress", "procaddress1"])
def test_the_limit_holds_where_the_driver_answers_with_addresses_of_no_name(container, way, abi):
    container.limit((CARD, 100))

    answers = container.alloc(
        "--via", way, "--abi", abi, 100, 1, env={"HAMID_SIM_CUDA_ALIASES": "1"}
    )

    assert answers.results("cuMemAlloc") == [SUCCESS, OUT_OF_MEMORY]
    assert answers.only("cuDeviceTotalMem")["total_mib"] == 100


def test_the_limit_is_exact_to_the_driver_s_unit_of_512_bytes(container):
    container.limit((CARD, 1))
    tenant = container.start()

    results = [
        tenant.tell(f"bytes {n}").results("cuMemAlloc")[0] for n in (MIB - 1024, 513, 1, 512, 1)
    ]

    assert results == [SUCCESS, SUCCESS, OUT_OF_MEMORY, OUT_OF_MEMORY, OUT_OF_MEMORY]


def test_a_block_of_one_byte_takes_a_whole_unit(container):
    container.limit((CARD, 1))
    tenant = container.start()

    results = [tenant.tell("bytes 1").results("cuMemAlloc")[0] for _ in range(MIB // 512 + 1)]

    assert results == [SUCCESS] * (MIB // 512) + [OUT_OF_MEMORY]


@pytest.mark.parametrize("way", WAYS)
def test_cuda_and_nvml_tell_one_story_of_the_slice(container, way):
    container.limit((CARD, 3000))

    answers = container.alloc("--via", way, 1000)

    story = {"total_mib": 3000, "free_mib": 2000}
    assert story.items() <= answers.only("cuMemGetInfo").items()
    assert answers.only("cuDeviceTotalMem")["total_mib"] == 3000
    for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        assert (story | {"used_mib": 1000, "result": 0}).items() <= answers.only(call).items()


def test_what_is_freed_may_be_had_again(container):
    container.limit((CARD, 100))
    tenant = container.start()

    assert tenant.alloc(100) == SUCCESS
    assert tenant.alloc(1) == OUT_OF_MEMORY
    assert tenant.tell("free").results("cuMemFree") == [SUCCESS]
    assert tenant.alloc(100) == SUCCESS


def test_freeing_what_was_never_allocated_is_the_drivers_to_judge(container):
    container.limit((CARD, 100))
    tenant = container.start(60)

    assert tenant.tell("junk").results("cuMemFree") == ["CUDA_ERROR_INVALID_VALUE"]
    assert tenant.tell("info").only("cuMemGetInfo")["free_mib"] == 40


def test_what_the_driver_refuses_is_not_counted(container):
    container.limit((CARD, 100))

    answers = container.alloc(60, env={"HAMID_SIM_CUDA_FAIL": "cuMemAlloc_v2=999"})

    assert answers.results("cuMemAlloc") == ["CUDA_ERROR_UNKNOWN"]
    assert answers.only("cuMemGetInfo")["free_mib"] == 100


def test_what_the_driver_does_not_free_stays_counted(container):
    container.limit((CARD, 100))
    tenant = container.start(60, env={"HAMID_SIM_CUDA_FAIL": "cuMemFree_v2=999"})

    assert tenant.tell("free").results("cuMemFree") == ["CUDA_ERROR_UNKNOWN"]
    assert tenant.tell("info").only("cuMemGetInfo")["free_mib"] == 40


def test_a_limit_above_the_card_is_told_as_the_card(container):
    container.limit((CARD, CARD_MIB + 1))

    answers = container.alloc(CARD_MIB, 1)

    assert answers.results("cuMemAlloc") == [SUCCESS, OUT_OF_MEMORY]
    assert answers.only("cuMemGetInfo")["total_mib"] == CARD_MIB


def test_without_a_limit_the_drivers_figures_stand(container):
    container.limit((CARD, None))

    answers = container.alloc(1000)

    assert answers.only("cuMemGetInfo")["total_mib"] == CARD_MIB
    assert answers.only("nvmlDeviceGetMemoryInfo")["total_mib"] == CARD_MIB


def test_a_card_that_the_page_does_not_name_gives_nothing(container):
    container.limit((CARD, 3000))

    answers = container.alloc("--device", 1, 1)

    assert answers.results("cuMemAlloc") == [OUT_OF_MEMORY]
    assert answers.only("cuMemGetInfo")["total_mib"] == 0
    assert answers.only("nvmlDeviceGetMemoryInfo")["total_mib"] == 0


@pytest.mark.parametrize(
    ("visible", "ordinal", "limit_mib"),
    [
        pytest.param("1", 0, 200, id="the other card alone"),
        pytest.param("1,0", 1, 100, id="in the other order"),
        pytest.param(OTHER_CARD, 0, 200, id="by UUID"),
        pytest.param("GPU-aaaa,0", 1, 100, id="by the start of a UUID"),
    ],
)
def test_each_card_has_its_own_limit_whatever_the_program_calls_it(
    container, visible, ordinal, limit_mib
):
    container.limit((CARD, 100), (OTHER_CARD, 200))

    answers = container.alloc(
        "--device", ordinal, limit_mib, 1, env={"CUDA_VISIBLE_DEVICES": visible}
    )

    assert answers.results("cuMemAlloc") == [SUCCESS, OUT_OF_MEMORY]
    assert answers.only("cuDeviceTotalMem")["total_mib"] == limit_mib
    assert answers.only("nvmlDeviceGetMemoryInfo")["total_mib"] == limit_mib


def test_a_mig_instance_is_limited_by_its_own_uuid(container):
    instance = "MIG-99999999-2222-3333-4444-555555555555"
    container.machine.write_text(
        f"uuid={CARD}\nname=NVIDIA A100\nmemory_mib={CARD_MIB}\nmig_capable=1\nmig=1\n"
        f"mig_instance={instance},1g.5gb,4864,7,0\n"
    )
    container.limit((instance, 1000))

    answers = container.alloc(1000, 1)

    assert answers.results("cuMemAlloc") == [SUCCESS, OUT_OF_MEMORY]
    assert answers.only("cuMemGetInfo")["total_mib"] == 1000
    assert answers.only("nvmlDeviceGetMemoryInfo")["total_mib"] == 1000


def test_a_changed_limit_is_seen_by_the_next_call_up_and_down(container):
    container.limit((CARD, 100))
    tenant = container.start(60)

    assert tenant.alloc(60) == OUT_OF_MEMORY
    container.limit((CARD, 200))
    assert tenant.alloc(60) == SUCCESS
    container.limit((CARD, 100))
    assert tenant.alloc(1) == OUT_OF_MEMORY

    info = tenant.tell("info").only("cuMemGetInfo")
    assert (info["total_mib"], info["free_mib"]) == (100, 0)


def test_a_null_pointer_is_the_drivers_to_judge(container):
    container.limit((CARD, 100))

    answers = container.start().tell("null")

    assert answers.only("cuMemGetInfo")["result"] == SUCCESS
    assert answers.only("cuMemGetInfo")["total_mib"] == 100


IN_PYTHON = """
import ctypes, pynvml
driver = ctypes.CDLL("libcuda.so.1")
context, address, mib = ctypes.c_void_p(), ctypes.c_uint64(), 1 << 20
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
print(*(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(n * mib)) for n in (60, 41)))
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
for memory in (
    pynvml.nvmlDeviceGetMemoryInfo(card),
    pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2),
):
    print(memory.total // mib, memory.used // mib, memory.free // mib)
"""


def test_python_programs_with_ctypes_and_pynvml_are_limited_and_told_so(container):
    container.limit((CARD, 100))

    done = subprocess.run(
        [sys.executable, "-c", IN_PYTHON],
        env=container.environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.splitlines() == ["0 2", "100 60 40", "100 60 40"], done.stderr


@pytest.mark.parametrize("order", ["before", "after"])
def test_beside_another_interposer_the_limit_holds(container, order):
    container.limit((CARD, 100))
    other = str(container.build / "bin/lib_interposer.so")
    ours = str(container.library)
    preload = f"{other}:{ours}" if order == "before" else f"{ours}:{other}"

    answers = container.alloc("--via", "link", 100, 1, env={"LD_PRELOAD": preload})

    assert answers.results("cuMemAlloc") == [SUCCESS, OUT_OF_MEMORY]
