import pytest

from hamid.errors import TraceError
from hamid.model.node import HostAmount
from hamid.model.quantities import WHOLE_CARD, MemoryPercent
from hamid.sim.openb import read_nodes, read_tasks

NODES = ["sn,cpu_milli,memory_mib,gpu,model", "n-0,64000,262144,2,P100", "n-1,32000,1000,0,"]
TASKS = [
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time",
    "whole,12000,16384,1,1000,,LS,Running,5,25",
    "part,6000,12288,1,460,V100M16|V100M32,LS,Running,7,0",
    "pair,1,1,2,1000,,LS,Running,0,0",
    "plain,500,100,0,0,,LS,Running,0,0",
]


def test_nodes_have_their_gpus_and_hosts():
    first, second = read_nodes(NODES, source="nodes")

    assert first.name == "n-0"
    assert first.host == HostAmount(cpu_milli=64_000, memory_mib=262_144)
    assert [d.model for d in first.devices] == ["P100", "P100"]
    assert len({d.device_uuid for d in first.devices}) == 2
    assert second.devices == ()


def test_tasks_ask_for_shares_of_memory_and_cores_alike():
    whole, part, pair, plain = read_tasks(TASKS, source="tasks")

    assert (whole.memory, whole.core_percent, whole.lasts_s) == (WHOLE_CARD, 100, 20)
    assert (part.memory, part.core_percent) == (MemoryPercent(percent=46), 46)
    assert (part.models, part.lasts_s) == (("V100M16", "V100M32"), None)
    assert (pair.device_count, pair.core_milli) == (2, 2_000)
    assert (plain.device_count, plain.core_milli) == (0, 0)
    assert plain.request("uid").requests == ()


def test_lists_without_times_and_models_are_taken():
    (task,) = read_tasks(
        ["name,cpu_milli,memory_mib,num_gpu,gpu_milli", "t,1,1,1,500"], source="tasks"
    )

    assert task.lasts_s is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["name,num_gpu"], "tasks: the head line has no column gpu_milli"),
        (["name,num_gpu,gpu_milli,cpu_milli"], "no column memory_mib"),
        ([], "has no column name"),
        ([TASKS[0], "t,1,1,x,500"], "line 2: num_gpu is 'x'"),
        ([TASKS[0], "t,1,1,1,1001"], "gpu_milli is '1001', not a whole number from 0 to 1000"),
        ([TASKS[0], "t,-1,1,1,500"], "cpu_milli is '-1', not a whole number from 0"),
        ([TASKS[0], "", ",1,1,1,500"], "line 3: name is empty"),
        ([TASKS[0], "t" * 200_000], "line 2: field larger than"),
        (["t" * 200_000], "line 1: field larger than"),
    ],
)
def test_what_cannot_be_read_is_refused_by_line_and_column(lines, said):
    with pytest.raises(TraceError, match=said):
        read_tasks(lines, source="tasks")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["sn,cpu_milli,gpu,model"], "no column memory_mib"),
        ([NODES[0], "n-0,1,1,x,P100"], "line 2: gpu is 'x'"),
        ([NODES[0], "n-0,1,1,65,P100"], "gpu is '65', not a whole number from 0 to 64"),
    ],
)
def test_nodes_that_cannot_be_read_are_refused_likewise(lines, said):
    with pytest.raises(TraceError, match=said):
        read_nodes(lines, source="nodes")
