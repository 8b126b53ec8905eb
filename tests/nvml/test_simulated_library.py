"""The simulated library as such: what callers other than our client may rely on."""

import ctypes
import signal
import subprocess
from pathlib import Path

import pynvml
import pytest

from tests.contracts.nvml_contract import A100, CARDS, MIB, T4_A, T4_B
from tests.nvml.machine import built

INSTANCE = CARDS[2].device.mig_instances[0].device_uuid


@pytest.fixture
def nvml(sim_machine, sim_library):
    pynvml.nvmlLib = ctypes.CDLL(str(sim_library))
    pynvml._nvmlGetFunctionPointer_cache.clear()
    pynvml.nvmlInit()
    yield pynvml
    pynvml.nvmlShutdown()


@pytest.fixture
def hold(sim_machine):
    """Start a process that holds memory; returns it and the answer to its reservation."""
    program = built("hold_memory")
    started = []

    def start(device_uuid, held_bytes, *, capacity_bytes=1 << 40, wrapper=()):
        process = subprocess.Popen(
            [*wrapper, program, device_uuid, str(held_bytes), str(capacity_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in started:
        process.communicate()


def ask(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def used_bytes(nvml, device_uuid):
    handle = nvml.nvmlDeviceGetHandleByUUID(device_uuid)
    return nvml.nvmlDeviceGetMemoryInfo(handle).used


def test_what_a_process_holds_is_used_and_listed_with_its_pid(nvml, hold):
    process, answer = hold(T4_A, 100 * MIB)

    handle = nvml.nvmlDeviceGetHandleByUUID(T4_A)
    listed = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert answer == 0
    assert used_bytes(nvml, T4_A) == 100 * MIB
    assert [(p.pid, p.usedGpuMemory) for p in listed] == [(process.pid, 100 * MIB)]
    assert used_bytes(nvml, T4_B) == 0


def test_memory_given_back_is_free(nvml, hold):
    process, _ = hold(T4_A, 100 * MIB)

    ask(process, f"- {40 * MIB}")

    assert used_bytes(nvml, T4_A) == 60 * MIB


def test_a_killed_process_holds_nothing(nvml, hold):
    process, _ = hold(T4_A, 100 * MIB)

    process.send_signal(signal.SIGKILL)
    process.wait()

    assert used_bytes(nvml, T4_A) == 0
    assert nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByUUID(T4_A)) == []


def test_a_process_of_another_pid_namespace_is_listed_with_the_pid_that_we_see(nvml, hold):
    wrapper = ("unshare", "--pid", "--fork", "--kill-child")
    if subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("pid namespaces cannot be made here (needs root)")
    hold(T4_A, MIB, wrapper=wrapper)

    handle = nvml.nvmlDeviceGetHandleByUUID(T4_A)
    [process] = nvml.nvmlDeviceGetComputeRunningProcesses(handle)

    assert Path(f"/proc/{process.pid}/comm").read_text() == "hold_memory\n"


def test_processes_share_the_capacity_of_a_device(nvml, hold):
    first, answer = hold(T4_A, 700, capacity_bytes=1000)
    second, refused = hold(T4_A, 301, capacity_bytes=1000)

    assert (answer, refused) == (0, -12)
    assert ask(second, "+ 300") == 0
    assert ask(second, "+ 1") == -12
    assert ask(first, "- 1") == 0
    assert ask(second, "+ 1") == 0
    assert used_bytes(nvml, T4_A) == 1000


def test_memory_of_an_instance_counts_for_it_and_for_its_card(nvml, hold):
    hold(INSTANCE, 50 * MIB)

    assert used_bytes(nvml, INSTANCE) == 50 * MIB
    assert used_bytes(nvml, A100) == 50 * MIB


def test_memory_in_two_versions_of_the_call_adds_up(nvml, sim_machine):
    sim_machine.add(T4_A, "reserved_mib=300", "used_mib=1000")
    handle = nvml.nvmlDeviceGetHandleByUUID(T4_A)

    first = nvml.nvmlDeviceGetMemoryInfo(handle)
    second = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)

    assert (first.total, first.used) == (15360 * MIB, 1300 * MIB)
    assert (second.reserved, second.used) == (300 * MIB, 1000 * MIB)
    assert first.free == second.free == (15360 - 1300) * MIB


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        pytest.param(None, 5, id="unset hides none"),
        pytest.param("all", 5, id="all"),
        pytest.param("none", 0, id="none"),
        pytest.param("void", 0, id="void"),
        pytest.param("", 0, id="empty hides all, as in the container toolkit"),
        pytest.param(T4_B, 1, id="one UUID"),
        pytest.param(f"{A100},{T4_A}", 2, id="two UUIDs"),
        pytest.param("0,4", 2, id="indices"),
        pytest.param(INSTANCE, 1, id="an instance shows its card"),
        pytest.param("GPU-of-another-node", 0, id="unknown"),
    ],
)
def test_visible_devices_filter_the_cards(sim_machine, sim_library, monkeypatch, visible, expected):
    if visible is not None:
        monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", visible)
    pynvml.nvmlLib = ctypes.CDLL(str(sim_library))
    pynvml._nvmlGetFunctionPointer_cache.clear()
    pynvml.nvmlInit()

    count = pynvml.nvmlDeviceGetCount()

    pynvml.nvmlShutdown()
    assert count == expected


def test_a_file_with_a_mistake_changes_nothing_and_is_said_with_its_line(nvml, sim_machine, capfd):
    sim_machine.add(T4_A, "used_mib=7", "memry_mib=1")

    assert used_bytes(nvml, T4_A) == 0
    assert used_bytes(nvml, T4_A) == 0
    complaints = capfd.readouterr().err.splitlines()
    assert len(complaints) == 1
    line = sim_machine.path.read_text().splitlines().index("memry_mib=1") + 1
    assert f"{sim_machine.path}:{line}: unknown key" in complaints[0]


@pytest.mark.parametrize(
    "line",
    [
        "memory_mib=1.5",
        "memory_mib=-1",
        "numa=x",
        "mig=2",
        "pci=17",
        "cc=8",
        "process=1",
        "process=1:2:3",
        "event=xid:79",
        "event=quake:1:1",
        "fail=somehow",
        "nvlink=5",
        "mig_instance=MIG-x,1g.5gb,1,1",
        "name=",
        "just words",
    ],
)
def test_a_bad_line_is_refused(sim_machine, sim_library, capfd, line):
    sim_machine.add(T4_A, line)
    library = ctypes.CDLL(str(sim_library))

    result = library.nvmlInit_v2()

    assert result == pynvml.NVML_ERROR_UNKNOWN
    assert "hamid-sim: " in capfd.readouterr().err


def test_a_machine_without_a_profile_has_no_driver(monkeypatch, tmp_path, sim_library):
    monkeypatch.setenv("HAMID_SIM_DEVICES", str(tmp_path / "absent"))

    assert ctypes.CDLL(str(sim_library)).nvmlInit_v2() == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_calls_before_the_start_are_refused(sim_machine, sim_library):
    count = ctypes.c_uint()

    result = ctypes.CDLL(str(sim_library)).nvmlDeviceGetCount_v2(ctypes.byref(count))

    assert result == pynvml.NVML_ERROR_UNINITIALIZED


def test_an_unknown_uuid_is_not_found(nvml):
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByUUID("GPU-of-another-node")


def test_cards_are_found_by_pci_address_in_any_spelling(nvml):
    bus_id = CARDS[1].device.pci_bus_id

    for spelling in (bus_id, bus_id.upper(), f"0000{bus_id}", bus_id.partition(":")[2]):
        handle = nvml.nvmlDeviceGetHandleByPciBusId(spelling)
        assert nvml.nvmlDeviceGetUUID(handle) == T4_B


def test_a_small_buffer_is_refused(nvml):
    handle = nvml.nvmlDeviceGetHandleByUUID(T4_A)
    buffer = ctypes.create_string_buffer(8)

    result = nvml.nvmlLib.nvmlDeviceGetUUID(handle, buffer, 8)

    assert result == nvml.NVML_ERROR_INSUFFICIENT_SIZE


def test_a_process_list_says_how_much_room_it_needs(nvml, sim_machine):
    sim_machine.add(T4_A, "process=1:1", "process=2:2")
    handle = nvml.nvmlDeviceGetHandleByUUID(T4_A)
    count = ctypes.c_uint(1)
    room = (pynvml.c_nvmlProcessInfo_t * 1)()

    result = nvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), room)

    assert (result, count.value) == (nvml.NVML_ERROR_INSUFFICIENT_SIZE, 2)


def test_a_handle_outlives_changes_of_the_file(nvml, sim_machine):
    handle = nvml.nvmlDeviceGetHandleByUUID(T4_B)

    sim_machine.unplug(T4_A)

    assert nvml.nvmlDeviceGetUUID(handle) == T4_B
    assert nvml.nvmlDeviceGetIndex(handle) == 0


def test_instances_know_their_card_and_ids(nvml):
    card = nvml.nvmlDeviceGetHandleByUUID(A100)
    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)

    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)

    assert nvml.nvmlDeviceGetUUID(parent) == A100
    assert nvml.nvmlDeviceGetName(instance) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert nvml.nvmlDeviceGetGpuInstanceId(instance) == 1
    assert nvml.nvmlDeviceGetAttributes(instance).memorySizeMB == 40192
    assert nvml.nvmlDeviceGetMigMode(card) == [1, 1]
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 2)


def test_waiting_for_events_times_out(nvml):
    event_set = nvml.nvmlEventSetCreate()

    with pytest.raises(pynvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait_v2(event_set, 1)

    nvml.nvmlEventSetFree(event_set)


def test_the_node_of_a_cards_own_memory_is_not_the_node_near_it(nvml):
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNumaNodeId(nvml.nvmlDeviceGetHandleByUUID(T4_A))


def test_only_nvml_is_exported(sim_library):
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(sim_library)], check=True, capture_output=True, text=True
    ).stdout

    names = [line.split()[2] for line in listed.splitlines()]
    assert len(names) > 50
    assert [name for name in names if not name.startswith("nvml")] == []


def test_the_loader_knows_it_by_the_drivers_soname(sim_library):
    dynamic = subprocess.run(
        ["readelf", "-d", str(sim_library)], check=True, capture_output=True, text=True
    ).stdout

    assert "soname: [libnvidia-ml.so.1]" in dynamic
    assert "SYMBOLIC" in dynamic
