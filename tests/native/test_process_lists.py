"""NVML's process lists speak of the container: its processes, with what each is charged."""

import json
import subprocess
import sys

import pytest

from tests.native.container import CARD, MIB, TIMEOUT_S

pytestmark = pytest.mark.native

LISTER = """
import json, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
lists = {}
for kind in ("Compute_v2", "Compute_v3", "Graphics_v3"):
    ask = getattr(pynvml, "nvmlDeviceGet{}RunningProcesses_{}".format(*kind.split("_")))
    lists[kind] = [[p.pid, p.usedGpuMemory] for p in ask(device)]
print(json.dumps(lists))
"""


def lists(container, program=LISTER):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=container.environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_version_lists_the_container_s_processes_with_what_they_hold(container):
    container.limit((CARD, 1000))
    first, second = container.start(60), container.start(30)

    told = lists(container)

    held = [[first.process.pid, 60 * MIB], [second.process.pid, 30 * MIB]]
    assert sorted(told["Compute_v2"]) == sorted(told["Compute_v3"]) == sorted(held)
    assert told["Graphics_v3"] == []


def test_processes_of_other_containers_are_not_listed(container):
    container.machine.write_text(
        container.machine.read_text().replace("name=", "process=4242:100\nname=", 1)
    )
    container.limit((CARD, 1000))

    assert lists(container)["Compute_v3"] == []


def test_outside_of_containers_the_driver_s_own_list_stands(container):
    container.machine.write_text(
        container.machine.read_text().replace("name=", "process=4242:100\nname=", 1)
    )
    container.limits_dir.rmdir()

    assert lists(container)["Compute_v3"] == [[4242, 100 * MIB]]


FORMS = """
import json, pynvml
from ctypes import *
class Short(Structure):
    _fields_ = [("pid", c_uint), ("used", c_ulonglong)]
class Long(Structure):
    _fields_ = [*Short._fields_, ("instance", c_uint), ("compute_instance", c_uint)]
pynvml.nvmlInit()
device, nvml, told = pynvml.nvmlDeviceGetHandleByIndex(0), CDLL("libnvidia-ml.so.1"), {}
for kind in ("Compute", "Graphics", "MPSCompute"):
    for form, item in (("", Short), ("_v2", Long), ("_v3", Long)):
        ask, count, answers = nvml[f"nvmlDeviceGet{kind}RunningProcesses{form}"], c_uint(0), []
        for room in (0, 1, 8):
            listed, count = (item * 8)(), c_uint(room)
            answers.append([ask(device, byref(count), listed if room else None), count.value])
        answers.append([[one.pid, one.used] for one in listed[: count.value]])
        told[kind + form] = answers
print(json.dumps(told))
"""
INSUFFICIENT_SIZE = 7


def test_each_form_of_each_list_tells_how_much_room_it_takes_and_then_the_same(container):
    container.limit((CARD, 1000))
    first, second = container.start(60), container.start(30)
    held = sorted([[first.process.pid, 60 * MIB], [second.process.pid, 30 * MIB]])

    told = lists(container, FORMS)

    empty = {kind + form for kind in ("Graphics", "MPSCompute") for form in ("", "_v2", "_v3")}
    assert {kind for kind, answers in told.items() if answers == [[0, 0]] * 3 + [[]]} == empty
    for form in ("", "_v2", "_v3"):
        *answers, listed = told[f"Compute{form}"]
        assert answers == [[INSUFFICIENT_SIZE, 2], [INSUFFICIENT_SIZE, 2], [0, 2]]
        assert sorted(listed) == held


DETAILS = """
import json, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
ask, version = pynvml.nvmlDeviceGetRunningProcessDetailList, pynvml.nvmlProcessDetailList_v1
print(json.dumps([
    [[p.pid, p.usedGpuMemory, p.usedGpuCcProtectedMemory] for p in ask(device, version, mode)]
    for mode in range(3)
]))
"""


def test_the_list_of_details_has_the_container_s_own_processes_too(container):
    busy = "process=4242:100\nname="
    container.machine.write_text(container.machine.read_text().replace("name=", busy, 1))
    container.limit((CARD, 1000))
    tenant = container.start(60)

    assert lists(container, DETAILS) == [[[tenant.process.pid, 60 * MIB, 0]], [], []]


def test_outside_of_containers_the_list_of_details_is_the_driver_s_own(container):
    busy = "process=4242:100\nname="
    container.machine.write_text(container.machine.read_text().replace("name=", busy, 1))
    container.limits_dir.rmdir()

    assert lists(container, DETAILS) == [[[4242, 100 * MIB, 0]], [], []]


def test_outside_of_containers_each_form_is_the_driver_s_own(container):
    container.machine.write_text(
        container.machine.read_text().replace("name=", "process=4242:100\nname=", 1)
    )
    container.limits_dir.rmdir()

    told = lists(container, FORMS)

    for form in ("", "_v2", "_v3"):
        assert told[f"Compute{form}"] == [
            [INSUFFICIENT_SIZE, 1],
            [0, 1],
            [0, 1],
            [[4242, 100 * MIB]],
        ]


INSTANCE = "MIG-33333333-2222-3333-4444-555555555555"
INSTANCE_LISTER = """
import json, pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)
memory = pynvml.nvmlDeviceGetMemoryInfo(instance)
print(json.dumps({
    "memory": [memory.total, memory.free, memory.used],
    "processes": [
        [p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId]
        for p in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(instance)
    ],
}))
"""


def test_of_an_instance_the_same_story_is_told_with_the_instance_s_ids(container):
    container.machine.write_text(
        container.machine.read_text().replace(
            "name=", f"mig=1\nmig_instance={INSTANCE},1g.5gb,4864,7,0\nname=", 1
        )
    )
    container.limit((INSTANCE, 1000))
    tenant = container.start(60)

    told = lists(container, INSTANCE_LISTER)

    assert told["memory"] == [1000 * MIB, 940 * MIB, 60 * MIB]
    assert told["processes"] == [[tenant.process.pid, 60 * MIB, 7, 0]]
