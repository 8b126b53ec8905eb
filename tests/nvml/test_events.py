"""What waiting for events does beyond the contract, on the simulated library."""

import asyncio

import pytest

from hamid.nvml.binding import nvml
from hamid.nvml.client import NvmlClient
from hamid.nvml.errors import NvmlError
from hamid.nvml.port import DeviceEvent, EventKind
from tests.contracts.nvml_contract import T4_A, T4_B


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


async def test_a_set_that_the_driver_fails_to_free_is_not_used_again(
    sim_machine, sim_library, monkeypatch
):
    event = DeviceEvent(device_uuid=T4_B, kind=EventKind.XID, data=79)

    def fail(_event_set):
        raise nvml.NVMLError(nvml.NVML_ERROR_UNKNOWN)

    async with NvmlClient.open(library_path=sim_library) as client:
        with monkeypatch.context() as patch:
            patch.setattr(nvml, "nvmlEventSetFree", fail)
            sim_machine.lose(T4_A)
            with pytest.raises(NvmlError):
                await client.next_events(30)
        lost = await client.next_events(30)
        sim_machine.raise_event(event)
        events = await client.next_events(30)

    assert [(e.device_uuid, e.kind) for e in lost] == [(T4_A, EventKind.LOST)]
    assert events == (event,)


async def test_an_event_that_comes_after_its_waiter_was_cancelled_is_kept(sim_machine, sim_library):
    event = DeviceEvent(device_uuid=T4_B, kind=EventKind.XID, data=79)
    async with NvmlClient.open(library_path=sim_library) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.next_events(30)
        sim_machine.raise_event(event)
        events = await client.next_events(30)

    assert events == (event,)
