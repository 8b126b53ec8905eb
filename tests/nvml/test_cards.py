"""What listing and sampling do beyond the contract, on the simulated library."""

from types import SimpleNamespace

import pytest

from hamid.nvml.binding import nvml
from hamid.nvml.cards import Cards
from hamid.nvml.client import NvmlClient
from hamid.nvml.profiles import simulated_cards
from tests.contracts.nvml_contract import CARDS, T4_A, T4_B, UUIDS, by_uuid
from tests.nvml.machine import SimMachine


async def test_a_card_lost_from_the_start_is_left_out_and_logged_once(
    sim_machine, sim_library, logs
):
    sim_machine.lose(T4_A)

    async with NvmlClient.open(library_path=sim_library) as client:
        devices = await client.list_devices()
        await client.list_devices()

    assert [device.device_uuid for device in devices] == list(UUIDS[1:])
    unreadable = [entry for entry in logs if entry["event"] == "cards unreadable"]
    assert [entry["reason_by_index"] for entry in unreadable] == [{0: "NVML error 15: GPU is lost"}]


async def test_a_card_that_is_gone_from_the_driver_is_lost(sim_machine, sim_library):
    async with NvmlClient.open(library_path=sim_library) as client:
        sim_machine.unplug(T4_B)
        devices = await client.list_devices()
        samples = by_uuid(await client.sample_devices())

    assert T4_B in by_uuid(devices)
    assert samples[T4_B].fault.is_lost
    assert samples[T4_A].fault is None


async def test_a_card_that_shares_memory_with_the_cpu_is_left_out(sim_machine, sim_library):
    sim_machine.add(T4_A, "fail=not_supported_memory")

    async with NvmlClient.open(library_path=sim_library) as client:
        devices = await client.list_devices()

    assert T4_A not in by_uuid(devices)


async def test_processes_that_cannot_be_listed_are_none_and_no_fault(sim_machine, sim_library):
    sim_machine.add(T4_A, "fail=not_supported_processes", "used_mib=5")

    async with NvmlClient.open(library_path=sim_library) as client:
        sample = by_uuid(await client.sample_devices())[T4_A]

    assert (sample.processes, sample.fault, sample.memory_used_bytes) == ((), None, 5 << 20)


@pytest.mark.parametrize(
    ("vendor_and_node", "expected"),
    [
        pytest.param(("0x10de\n", "3\n"), 3, id="sysfs knows the node"),
        pytest.param(("0x10de\n", "-1\n"), None, id="sysfs says there is none"),
        pytest.param(("0x8086\n", "3\n"), None, id="the address is another vendor's device here"),
        pytest.param(("0x10de\n", "?\n"), None, id="sysfs says nonsense"),
    ],
)
async def test_without_numa_in_the_driver_sysfs_is_asked(
    sim_machine, sim_library, tmp_path, vendor_and_node, expected
):
    sim_machine.add(T4_A, "numa=-1")
    folder = tmp_path / "sys/bus/pci/devices" / CARDS[0].device.pci_bus_id
    folder.mkdir(parents=True)
    for name, text in zip(("vendor", "numa_node"), vendor_and_node, strict=True):
        (folder / name).write_text(text)

    async with NvmlClient.open(library_path=sim_library, host_root=tmp_path) as client:
        device = by_uuid(await client.list_devices())[T4_A]

    assert device.numa_node == expected


async def test_cards_on_one_switch_are_linked_with_each_other(
    tmp_path, monkeypatch, sim_machine, sim_library
):
    cards = simulated_cards([("H100", 8)], node_name="hgx")
    SimMachine(sim_machine.path, cards)
    first, *_, last = (card.device.device_uuid for card in cards)

    async with NvmlClient.open(library_path=sim_library) as client:
        scores = await client.link_scores()

    assert scores[first][last] == 10 + 18 * 100


async def test_what_changes_of_the_topology_is_seen_by_a_client_that_is_open(
    sim_machine, sim_library
):
    v100_a, v100_b = (card.device.device_uuid for card in CARDS[3:])

    async with NvmlClient.open(library_path=sim_library) as client:
        node_before = by_uuid(await client.list_devices())[T4_A].numa_node
        score_before = (await client.link_scores())[v100_a][v100_b]
        sim_machine.add(T4_A, f"numa={node_before + 1}")
        sim_machine.add(v100_a, f"nvlink={v100_b}:1")
        sim_machine.add(v100_b, f"nvlink={v100_a}:1")

        assert by_uuid(await client.list_devices())[T4_A].numa_node == node_before + 1
        assert (await client.link_scores())[v100_a][v100_b] != score_before


async def test_links_that_only_one_card_knows_of_score_nothing(sim_machine, sim_library):
    v100_a, v100_b = (card.device.device_uuid for card in CARDS[3:])
    sim_machine.add(v100_a, f"nvlink={v100_b}:1")

    async with NvmlClient.open(library_path=sim_library) as client:
        scores = await client.link_scores()

    assert scores[v100_a][v100_b] == scores[v100_b][v100_a] == 0


def test_loads_of_processes_are_told_once_in_whatever_order_the_driver_has_them(
    monkeypatch, tmp_path
):
    asked = []

    def loads_since(_handle, since_us):
        asked.append(since_us)
        times = [(7, 300), (8, 500), (7, 400)]
        return [
            SimpleNamespace(pid=pid, smUtil=at // 10, timeStamp=at)
            for pid, at in times
            if at > since_us
        ]

    monkeypatch.setattr(nvml, "nvmlDeviceGetProcessUtilization", loads_since)
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 1)
    device = CARDS[0].device
    cards = Cards(
        host_root=tmp_path,
        devices={device.device_uuid: device},
        handles={device.device_uuid: None},
    )

    first, second = cards.sample_process_loads(), cards.sample_process_loads()

    assert [(load.pid, load.gpu_percent) for load in first] == [(7, 35.0), (8, 50.0)]
    assert second == ()
    assert asked == [0, 500]
