"""The hook rows of field-reports.md that need no GPU: which test has each; and those that had none.

Rows of one cause share a test. Not here: 1010, a hang that nobody explained (the library asks NVML
nothing), 886 and 326 need WSL beyond look-ups by handle, 1704 and toolkit 48 are about device nodes. Of core 166
the causes are tried, by the kernel; its nanoseconds are `bench-launch`'s, for no test knows how quick a machine is. Of core 61
a framework that compiles and launches runs wherever tests do; PyTorch itself in the long run (clients/test_pytorch.py).
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, OTHER_CARD, TIMEOUT_S, Answers, Container, build

pytestmark = pytest.mark.native

TESTS = Path(__file__).parents[1]
HERE = "native/test_reports.py"
ROUTES = "native/test_routes.py"
LIMITS = "native/test_limits_hold.py"
CAP = "native/test_compute_cap.py"
KILLS = "native/test_kills.py"
EACH_ROUTE = f"{ROUTES}::test_each_route_is_granted_the_limit_refused_beyond_and_granted_again"
HANDLES = f"{ROUTES}::test_of_memory_with_handles_only_device_memory_is_charged_once_and_to_its_last_mapping"
ODD_FREES = f"{ROUTES}::test_frees_that_are_odd_get_the_driver_s_answer_and_leave_the_books_right"
NO_SURVIVOR = f"{KILLS}::test_no_survivor_of_kills_waits_long_or_is_refused"
CAP_HOLDS = f"{CAP}::test_a_tenant_gets_its_share_of_time_and_no_more"
EVERY_LAUNCH = f"{CAP}::test_every_form_of_launch_is_charged_what_it_takes"
NO_VARIABLE = "native/test_fail_closed.py::test_no_environment_raises_the_limit"
LISTS = "native/test_process_lists.py::test_every_version_lists_the_container_s_processes_with_what_they_hold"
IN_USE = "hooks/test_install.py::test_a_file_in_use_is_replaced_and_not_written_into"
UNCOUNTED = "native/test_uncounted.py::test_code_counts_where_what_the_driver_sees_does"
LOOK_UPS = "native/test_guest_manners.py::test_every_way_to_look_finds_the_hook"

TEST_OF_ROW = {
    "HAMi#2156": "native/test_limits_hold.py::test_a_card_that_the_page_does_not_name_gives_nothing",
    "HAMi#332": EACH_ROUTE,
    "HAMi#446": UNCOUNTED,
    "HAMi#952": UNCOUNTED,
    "HAMi-core#79": UNCOUNTED,
    "HAMi#409": EACH_ROUTE,
    "HAMi#1181": ODD_FREES,
    "HAMi-core#96": f"{ROUTES}::test_use_returns_to_its_base_after_a_million_cycles",
    "HAMi-core#93": ODD_FREES,
    "HAMi-core#306": f"{ROUTES}::test_a_call_that_fails_after_one_that_did_not_leaves_no_charge",
    "HAMi-core#187": HANDLES,
    "HAMi-core#169": HANDLES,
    "HAMi#1764": HANDLES,
    "HAMi-core#273": f"{KILLS}::test_of_processes_that_race_for_the_last_room_never_two_win",
    "HAMi-core#181": f"{LIMITS}::test_cuda_and_nvml_tell_one_story_of_the_slice",
    "HAMi-core#82": f"{LIMITS}::test_a_limit_above_the_card_is_told_as_the_card",
    "HAMi#1607": NO_VARIABLE,
    "volcano-vgpu-device-plugin#8": NO_VARIABLE,
    "HAMi#12": f"{HERE}::test_any_user_in_a_container_is_counted",
    "k8s-vgpu-scheduler#28": "native/test_audit.py::test_whatever_takes_or_frees_memory_or_starts_work_is_hooked_or_excused",
    "HAMi#722": f"{HERE}::test_all_cards_are_there_in_order_and_each_gives_its_own_limit_at_once",
    "HAMi#1461": f"{HERE}::test_processes_that_use_several_cards_share_the_limit_of_each",
    "HAMi#705": "deploy/test_chart.py::test_values_of_old_charts_mean_what_they_meant",
    "HAMi#1128": "native/test_memory_terms.py::test_two_containers_hold_more_than_the_card_and_lose_nothing",
    "HAMi-core#86": NO_SURVIVOR,
    "HAMi#2500": "native/test_faults.py::test_who_holds_the_slow_lock_for_ever_stops_no_member_and_refuses_newcomers",
    "HAMi-core#292": f"{HERE}::test_a_child_made_past_fork_leaves_its_parent_in_the_books",
    "HAMi-core#61": "native/clients/test_numba.py::test_it_fills_the_slice_to_the_last_byte_and_no_more",
    "HAMi-core#166": "native/test_frugal.py::test_launches_and_allocations_make_no_system_call",
    "HAMi-core#52": "native/test_replay.py::test_hooked_forms_are_answered_with_their_hook_and_all_others_as_the_driver_does",
    "HAMi-core#36": f"{HERE}::test_what_an_old_driver_does_not_have_is_not_found",
    "HAMi-core#57": "native/test_replay.py::test_what_a_runtime_asks_is_answered_as_the_driver_does_but_for_what_is_hooked",
    "HAMi-core#233": "native/test_audit.py::test_the_audit_finds_nothing",
    "HAMi-core#174": "native/test_exports.py::test_the_library_asks_for_nothing_newer_than_glibc_2_17",
    "HAMi-core#326": LOOK_UPS,
    "HAMi#2641": f"{HERE}::test_a_library_opened_for_itself_alone_shares_handles_as_without_us",
    "HAMi#1219": "native/test_fail_closed.py::test_without_a_page_to_trust_there_is_no_memory_and_one_line_says_why",
    "HAMi#753": IN_USE,
    "HAMi#727": IN_USE,
    "koordinator#2414": "native/test_guest_manners.py::test_everyday_programs_say_what_they_said_before",
    "HAMi-core#76": CAP_HOLDS,
    "HAMi-core#37": CAP_HOLDS,
    "HAMi#737": "native/test_lending.py::test_a_hard_cap_is_kept_whatever_is_idle",
    "HAMi-core#274": f"{HERE}::test_a_cap_holds_on_cards_of_any_size",
    "HAMi#1445": EVERY_LAUNCH,
    "HAMi-core#143": EVERY_LAUNCH,
    "HAMi#132": "hooks/test_lending.py::test_priorities_are_kept",
    "HAMi#1339": LISTS,
    "HAMi-core#112": LISTS,
    "HAMi#1668": "hooks/abi/test_usage.py::test_a_page_of_this_version_or_one_before_is_read",
}


NOT_IN_CI = "only_in_the_long_run"


@pytest.mark.parametrize("row", TEST_OF_ROW)
def test_each_report_has_its_test(row):
    path, name = TEST_OF_ROW[row].split("::")
    text = (TESTS / path).read_text()

    assert name in {getattr(node, "name", None) for node in ast.parse(text).body}
    assert f"{NOT_IN_CI}()" not in text


CLONER = """
import ctypes, os, signal
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(60 << 20)) == 0
clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
child = libc.syscall(clone, signal.SIGCHLD, 0, 0, 0, 0)
if child == 0:
    libc.exit(0)  # with what a library does at an exit, and without what it does at a fork
assert os.waitpid(child, 0)[1] == 0
print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(60 << 20)), flush=True)
input()
"""


def test_a_child_made_past_fork_leaves_its_parent_in_the_books(container):
    container.limit((CARD, 100))
    with subprocess.Popen(
        [sys.executable, "-c", CLONER],
        env=container.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        more = parent.stdout.readline()
        charged = container.usage().used_bytes(CARD)
        parent.communicate("\n", timeout=TIMEOUT_S)

    assert more == "2\n"
    assert charged == 60 * MIB


FOUR_CARDS = [f"GPU-{number}0000000-2222-3333-4444-555555555555" for number in range(4)]
ON_ALL_CARDS = """
import sys
from ctypes import *
cuda, count, address = CDLL("libcuda.so.1"), c_int(), c_uint64()
assert cuda.cuInit(0) == cuda.cuDeviceGetCount(byref(count)) == 0
uuid, results = create_string_buffer(16), []
for device in range(count.value):
    context = c_void_p()
    assert cuda.cuDeviceGetUuid_v2(uuid, device) == 0
    assert cuda.cuDevicePrimaryCtxRetain(byref(context), device) == cuda.cuCtxSetCurrent(context) == 0
    taken = [cuda.cuMemAlloc_v2(byref(address), c_size_t(int(mib) << 20)) for mib in sys.argv[1:]]
    print(uuid.raw.hex()[0], *taken, flush=True)
input()
"""


def on_all_cards(container, *mib, count):
    """A process that takes so much of each card, in turn, and stays; what it says of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", ON_ALL_CARDS, *map(str, mib)],
        env=container.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, [process.stdout.readline().split() for _ in range(count)]


@pytest.fixture
def four_cards(container):
    """The container, with 100, 200, 300 and 400 MiB of the cards of its machine."""
    container.machine.write_text(
        "\n".join(f"uuid={card}\nname=NVIDIA A100\nmemory_mib=4096\n" for card in FOUR_CARDS)
    )
    container.limit(*((card, 100 * number) for number, card in enumerate(FOUR_CARDS, 1)))
    return container


def test_all_cards_are_there_in_order_and_each_gives_its_own_limit_at_once(four_cards):
    process, told = on_all_cards(four_cards, 100, 100, 100, 100, 1, count=4)
    charged = [four_cards.usage().used_bytes(card) // MIB for card in FOUR_CARDS]
    process.communicate("\n", timeout=TIMEOUT_S)

    assert told == [
        ["0", "0", "2", "2", "2", "2"],
        ["1", "0", "0", "2", "2", "2"],
        ["2", "0", "0", "0", "2", "2"],
        ["3", "0", "0", "0", "0", "2"],
    ]
    assert charged == [100, 200, 300, 400]


def test_processes_that_use_several_cards_share_the_limit_of_each(four_cards):
    processes, told = zip(
        *(on_all_cards(four_cards, 60, 40, count=4) for _ in range(4)), strict=True
    )
    charged = [four_cards.usage().used_bytes(card) // MIB for card in FOUR_CARDS]
    processes[0].communicate("\n", timeout=TIMEOUT_S)
    _, after = last = on_all_cards(four_cards, 60, 40, count=4)
    for process in (*processes[1:], last[0]):
        process.communicate("\n", timeout=TIMEOUT_S)

    granted, refused = ["0", "0"], ["2", "2"]
    for number, process in enumerate(told):
        for card, line in enumerate(process):
            assert line == [str(card), *(granted if number <= card else refused)]
    assert charged == [100, 200, 300, 400]
    assert after == told[0]


# What NCCL does first, as ctypes loads it: for itself alone, so nothing of the driver is in the global scope.
SHARING = """
import sys
from ctypes import *
cuda, results = CDLL("libcuda.so.1", mode=RTLD_LOCAL), []
class Properties(Structure):
    _fields_ = [(name, c_int) for name in ("type", "handles", "location", "device")] + [("rest", c_char * 72)]
class Access(Structure):
    _fields_ = [("location", c_int), ("device", c_int), ("flags", c_int)]
def call(symbol, *arguments):
    results.append(getattr(cuda, symbol)(*arguments))
none, size, unit = c_ulonglong(0), c_size_t(), c_size_t(32 << 20)
call("cuInit", 0)
contexts, handles, imports, addresses = (c_void_p * 2)(), [], [], []
for device in (0, 1):
    here, handle, again, fd, address = c_void_p(), c_ulonglong(), c_ulonglong(), c_int(), c_ulonglong()
    call("cuDevicePrimaryCtxRetain", byref(here), device)
    call("cuCtxSetCurrent", here)
    properties = Properties(1, 1, 1, device)
    call("cuMemGetAllocationGranularity", byref(size), byref(properties), 0)
    call("cuMemCreate", byref(handle), unit, byref(properties), none)
    call("cuMemExportToShareableHandle", byref(fd), handle, 1, none)
    call("cuMemImportFromShareableHandle", byref(again), c_void_p(fd.value), 1)
    call("cuMemAddressReserve", byref(address), c_size_t(64 << 20), size, none, none)
    call("cuMemMap", address, unit, c_size_t(0), handle, none)
    call("cuMemMap", c_ulonglong(address.value + unit.value), unit, c_size_t(0), again, none)
    both = (Access * 2)(Access(1, 0, 3), Access(1, 1, 3))
    call("cuMemSetAccess", address, c_size_t(64 << 20), both, c_size_t(2))
    call("cuMemRelease", handle)
    call("cuMemRelease", again)
    addresses.append(address)
print(*results, flush=True)
input()
results.clear()
for address in addresses:
    call("cuMemUnmap", address, c_size_t(64 << 20))
    call("cuMemAddressFree", address, c_size_t(64 << 20))
print(*results, flush=True)
input()
"""


def test_a_library_opened_for_itself_alone_shares_handles_as_without_us(container):
    container.limit((CARD, 32), (OTHER_CARD, 32))
    said, charged = {}, []
    for name, env in (("bare", container.env), ("ours", container.environment())):
        with subprocess.Popen(
            [sys.executable, "-c", SHARING],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            said[name] = []
            for _ in range(2):
                said[name].append(process.stdout.readline().split())
                if name == "ours":
                    usage = container.usage()
                    charged.append((usage.used_bytes(CARD), usage.used_bytes(OTHER_CARD)))
                process.stdin.write("\n")
                process.stdin.flush()

    assert said["ours"] == said["bare"]
    assert {result for line in said["ours"] for result in line} == {"0"}
    assert charged == [(32 * MIB, 32 * MIB), (0, 0)]


def test_what_an_old_driver_does_not_have_is_not_found(container):
    """A driver of 11.5 knows only the first cuGetProcAddress; this one has a few names at all."""
    build("build/bench/libcuda.so.1")
    container.limit((CARD, 100))
    program = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
print([hasattr(cuda, name) for name in ("cuInit", "cuMemAlloc_v2", "cuGetProcAddress_v2", "cuGraphLaunch")])
"""
    old = str(container.build / "bench")
    answers = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**env, "LD_LIBRARY_PATH": old},
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        ).stdout
        for env in (container.env, container.environment())
    ]

    assert "False" in answers[0]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("multiprocessors", [20, 80, 200])
def test_a_cap_holds_on_cards_of_any_size(container, multiprocessors):
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("name=", f"sm={multiprocessors}\nname="))
    device = DeviceLimit(device_uuid=CARD, memory_bytes=None, core_percent=30)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))

    done = subprocess.run(
        [str(container.build / "bin/launch"), "kernel", "1000000", "3000", "4096"],
        env=container.environment({"HAMID_SIM_CLOCK": "virtual"}),
        input="\n",
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    told = json.loads(done.stdout.splitlines()[-1])

    assert 29 < 100 * told["gpu_ns"] / told["elapsed_ns"] < 31


def test_any_user_in_a_container_is_counted(native_build):
    """The page is the host's, made empty, and open to all; nothing beside it is."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        build = directory / "build"  # for others may not reach what is in root's home
        for part in ("bin", "sim", "test"):
            shutil.copytree(native_build / part, build / part)
        with Container(build, directory) as container:
            container.limit((CARD, 100))
            page = container.usage_dir / contract.USAGE_PAGE_NAME
            page.touch()
            page.chmod(contract.USAGE_PAGE_MODE)
            container.usage_dir.chmod(0o755)
            states = directory / "states"
            states.mkdir()
            states.chmod(0o777)
            results = []
            for uid in (12345, 0, 54321):
                done = subprocess.run(
                    [str(build / "bin/alloc_mib"), "60", "60"],
                    env={
                        **container.environment(),
                        "HAMID_SIM_STATE": str(states / f"sim-{uid}"),
                    },
                    user=uid,
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT_S,
                )
                assert done.stderr == ""
                lines = Answers(map(json.loads, done.stdout.splitlines()))
                results.append(lines.results("cuMemAlloc"))

    assert results == [["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]] * 3
