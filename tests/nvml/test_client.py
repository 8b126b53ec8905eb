"""The real client on the simulated library: the contract, and what only the real one has."""

import asyncio

import pytest

from hamid.nvml.client import NvmlClient
from hamid.nvml.errors import DriverStuck, DriverUnavailable
from hamid.nvml.port import DeviceEvent, EventKind
from hamid.nvml.profiles import simulated_cards
from tests.contracts.nvml_contract import CARDS, T4_A, T4_B, UUIDS, NvmlContract, by_uuid
from tests.nvml.machine import SimMachine


class TestClient(NvmlContract):
    @pytest.fixture
    def machine(self, sim_machine):
        return sim_machine

    @pytest.fixture
    async def port(self, machine, sim_library):  # noqa: ARG002 - the machine is set up first
        async with NvmlClient.open(library_path=sim_library) as client:
            yield client


async def test_a_library_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DriverUnavailable, match=r"libnvidia-ml\.so\.1") as caught:
        async with NvmlClient.open(library_path=tmp_path / "libnvidia-ml.so.1"):
            pass

    assert "install the NVIDIA driver" in caught.value.hint


@pytest.mark.parametrize(
    ("fail", "says", "hint"),
    [
        pytest.param("driver_not_loaded", "error 9", "kernel driver", id="no kernel driver"),
        pytest.param("version_mismatch", "error 18", "reboot", id="library of another version"),
    ],
)
async def test_a_driver_that_cannot_be_used_says_what_to_do(
    sim_machine, sim_library, fail, says, hint
):
    sim_machine.driver_lines = [f"fail={fail}"]
    sim_machine.write()

    with pytest.raises(DriverUnavailable, match=says) as caught:
        async with NvmlClient.open(library_path=sim_library):
            pass

    assert hint in caught.value.hint


async def test_it_can_be_opened_again_after_a_failure(sim_machine, sim_library):
    sim_machine.break_driver()
    with pytest.raises(DriverUnavailable):
        async with NvmlClient.open(library_path=sim_library):
            pass

    sim_machine.mend_driver()
    async with NvmlClient.open(library_path=sim_library) as client:
        devices = await client.list_devices()

    assert len(devices) == len(CARDS)


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


async def test_a_stuck_driver_misses_its_deadline_and_answers_when_it_comes_back(
    sim_machine, sim_library
):
    async with NvmlClient.open(library_path=sim_library, deadline_s=0.05) as client:
        sim_machine.add(T4_A, "fail=hang")
        with pytest.raises(DriverStuck, match=r"within 0\.05 s") as caught:
            await client.sample_devices()
        sim_machine.mend(T4_A)
        while True:
            try:
                samples = await client.sample_devices()
                break
            except DriverStuck:
                continue  # on a slow machine the thread is not free yet

    assert "reboot" in caught.value.hint
    assert by_uuid(samples)[T4_A].fault is None


async def test_a_card_without_events_does_not_keep_others_from_being_heard(
    sim_machine, sim_library
):
    sim_machine.add(T4_A, "fail=not_supported_events")
    event = DeviceEvent(device_uuid=T4_B, kind=EventKind.XID, data=79)

    async with NvmlClient.open(library_path=sim_library) as client:
        sim_machine.raise_event(event)
        events = await client.next_events(30)

    assert events == (event,)


async def test_events_from_before_it_was_opened_are_not_news(sim_machine, sim_library):
    sim_machine.raise_event(DeviceEvent(device_uuid=T4_B, kind=EventKind.XID, data=79))

    async with NvmlClient.open(library_path=sim_library) as client:
        events = await client.next_events(0)

    assert events == ()


async def test_a_card_that_comes_back_is_heard_again(sim_machine, sim_library):
    event = DeviceEvent(device_uuid=T4_A, kind=EventKind.XID, data=79)
    async with NvmlClient.open(library_path=sim_library) as client:
        sim_machine.lose(T4_A)
        await client.next_events(30)
        sim_machine.mend(T4_A)
        await client.next_events(0)
        sim_machine.raise_event(event)
        events = await client.next_events(30)

    assert events == (event,)


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


async def test_links_that_only_one_card_knows_of_score_nothing(sim_machine, sim_library):
    v100_a, v100_b = (card.device.device_uuid for card in CARDS[3:])
    sim_machine.add(v100_a, f"nvlink={v100_b}:1")

    async with NvmlClient.open(library_path=sim_library) as client:
        scores = await client.link_scores()

    assert scores[v100_a][v100_b] == scores[v100_b][v100_a] == 0


async def test_an_event_that_comes_after_its_waiter_was_cancelled_is_kept(sim_machine, sim_library):
    event = DeviceEvent(device_uuid=T4_B, kind=EventKind.XID, data=79)
    async with NvmlClient.open(library_path=sim_library) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.next_events(30)
        sim_machine.raise_event(event)
        events = await client.next_events(30)

    assert events == (event,)
