import pytest

from hamid.errors import TraceError
from hamid.model.node import HostAmount
from hamid.model.quantities import WHOLE_CARD, MemoryMib, MemoryPercent
from hamid.sim.own_format import read_nodes, read_tasks


def task(line):
    (found,) = read_tasks([line], source="tasks")
    return found


def test_a_node_has_cards_and_a_host():
    (node,) = read_nodes(
        [
            '{"name": "n", "cards": 2, "cardmem": "80Gi", "cpu": "4", "memory": "8Gi"}',
            "",
        ],
        source="nodes",
    )

    assert [d.memory_mib for d in node.devices] == [81_920, 81_920]
    assert node.host == HostAmount(cpu_milli=4_000, memory_mib=8_192)


def test_a_node_that_says_nothing_of_its_host_takes_any():
    (node,) = read_nodes(['{"name": "n", "cards": 1, "cardmem": 16000}'], source="nodes")

    assert node.host is None
    assert node.devices[0].slot_count == 10


@pytest.mark.parametrize(
    ("line", "count", "memory", "cores"),
    [
        ('{"name": "t", "gpu": 2}', 2, WHOLE_CARD, 100),
        ('{"name": "t", "gpu": 1, "gpumem": "16Gi"}', 1, MemoryMib(mib=16_384), 0),
        ('{"name": "t", "gpumem-percentage": 50}', 1, MemoryPercent(percent=50), 0),
        ('{"name": "t", "gpucores": 30}', 1, WHOLE_CARD, 30),
        ('{"name": "t", "cpu": "2"}', 0, WHOLE_CARD, 100),
    ],
)
def test_what_is_left_out_counts_as_in_a_manifest(line, count, memory, cores):
    found = task(line)

    assert (found.device_count, found.memory, found.core_percent) == (count, memory, cores)


def test_times_and_models_are_read():
    found = task('{"name": "t", "gpu": 1, "models": ["A100"], "arrives_at_s": 1.5, "lasts_s": 60}')

    assert (found.models, found.arrives_at_s, found.lasts_s) == (("A100",), 1.5, 60)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "tasks, line 1"),
        ("[]", "the line"),
        ('{"name": "t", "gpus": 1}', "gpus is unknown; known are name, gpu"),
        ('{"name": "t", "gpu": 1.5}', "gpu: '1.5' is not a whole number"),
        ('{"gpu": 1}', "name"),
        ('{"name": "t", "models": "A100"}', "models is not a list"),
        ('{"name": "t", "arrives_at_s": -1}', "arrives_at_s: '-1' is below 0"),
        ('{"name": "t", "lasts_s": "-5"}', "lasts_s: '-5' is below 0"),
        ('{"name": "t", "cpu": "-1"}', "cpu: '-1' is below 0"),
        ('{"name": "t", "memory": "much"}', "memory: 'much' is no quantity"),
        ('{"name": "t", "gpumem": -3}', "gpumem: '-3' is out of range"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_with_its_number(line, said):
    with pytest.raises(TraceError, match=said):
        task(line)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ('"cards": 1', "cardmem is missing"),
        ('"cardmem": "8Gi"', "cards is missing"),
        ('"cards": 1, "cardmem": "8Gi", "cpu": 4', "of cpu and memory one is missing"),
        ('"cards": 1, "cardmem": "8Gi", "model": 4', "model is a number, not a string"),
        ('"cards": -1, "cardmem": "8Gi"', "cards: '-1' is out of range"),
    ],
)
def test_a_node_that_cannot_be_meant_is_refused(rest, said):
    with pytest.raises(TraceError, match=said):
        read_nodes([f'{{"name": "n", {rest}}}'], source="nodes")


def test_processors_and_memory_round_up():
    found = task('{"name": "t", "cpu": "0.0001", "memory": "1048577"}')

    assert found.host == HostAmount(cpu_milli=1, memory_mib=2)
