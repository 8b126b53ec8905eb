"""What every implementation of `NvmlPort` keeps to; run on the fake and on the real client.

A subclass gives the fixtures `machine` (whose cards the tests change) and `port` (what they test).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import pytest

from hamid.nvml.errors import DriverUnavailable
from hamid.nvml.port import DeviceEvent, EventKind, ProcessMemory
from hamid.nvml.profiles import CardGroup, simulated_cards

MIB = 1 << 20
GROUPS = (
    CardGroup("T4", 2),
    CardGroup("A100-80GB", 1, mig=("3g.40gb", "2g.20gb")),
    CardGroup("V100-SXM2-32GB", 2),
)
CARDS = simulated_cards(GROUPS, node_name="contract")
T4_A, T4_B, A100, V100_A, V100_B = (card.device.device_uuid for card in CARDS)
UUIDS = (T4_A, T4_B, A100, V100_A, V100_B)
EXTRA = simulated_cards([("L40S", 6)], node_name="extra")[-1].device


class Machine(Protocol):
    """A machine with the cards above; each change is seen by the next call of the port."""

    def use(self, device_uuid, *, used_mib=0, gpu_percent=0, memory_percent=0): ...
    def run_process(self, device_uuid, *, pid, used_mib): ...
    def lose(self, device_uuid): ...
    def fail(self, device_uuid): ...
    def mend(self, device_uuid): ...
    def hide_load(self, device_uuid): ...
    def raise_event(self, event: DeviceEvent): ...
    def plug(self, device): ...
    def break_driver(self): ...
    def mend_driver(self): ...


def by_uuid(values):
    return {value.device_uuid: value for value in values}


class NvmlContract:
    @pytest.fixture
    def machine(self):
        raise NotImplementedError

    @pytest.fixture
    async def port(self, machine):
        raise NotImplementedError

    async def test_all_cards_are_listed_by_index_with_their_facts(self, port):
        devices = await port.list_devices()

        assert devices == tuple(card.device for card in CARDS)

    async def test_mig_instances_are_listed_with_their_card(self, port):
        devices = by_uuid(await port.list_devices())

        instances = devices[A100].mig_instances
        assert devices[A100].mig_enabled
        assert [instance.profile for instance in instances] == ["3g.40gb", "2g.20gb"]
        assert [instance.memory_bytes // MIB for instance in instances] == [40192, 19968]

    async def test_an_idle_card_uses_nothing(self, port):
        sample = by_uuid(await port.sample_devices())[T4_A]

        assert sample.fault is None
        assert (sample.memory_used_bytes, sample.gpu_percent, sample.processes) == (0, 0, ())

    async def test_a_busy_card_says_so(self, port, machine):
        machine.use(T4_B, used_mib=1000, gpu_percent=70, memory_percent=30)

        samples = by_uuid(await port.sample_devices())

        assert samples[T4_B].memory_used_bytes == 1000 * MIB
        assert (samples[T4_B].gpu_percent, samples[T4_B].memory_percent) == (70, 30)
        assert samples[T4_A].memory_used_bytes == 0

    async def test_the_memory_of_processes_is_told_and_counted(self, port, machine):
        machine.run_process(V100_A, pid=4711, used_mib=300)

        sample = by_uuid(await port.sample_devices())[V100_A]

        assert sample.processes == (ProcessMemory(pid=4711, used_bytes=300 * MIB),)
        assert sample.memory_used_bytes == 300 * MIB

    async def test_on_an_idle_machine_no_process_is_busy(self, port, machine):
        machine.run_process(V100_A, pid=4711, used_mib=300)
        machine.lose(T4_A)

        assert await port.sample_process_loads() == ()

    async def test_how_busy_cards_are_is_told_of_those_that_can(self, port, machine):
        machine.use(T4_B, gpu_percent=70)
        machine.lose(T4_A)
        machine.hide_load(V100_A)

        assert await port.sample_gpu_percents() == {T4_B: 70, V100_B: 0}

    async def test_what_a_card_does_not_have_is_none_and_no_fault(self, port, machine):
        machine.hide_load(T4_A)

        samples = by_uuid(await port.sample_devices())

        assert (samples[T4_A].gpu_percent, samples[T4_A].fault) == (None, None)
        assert samples[T4_A].memory_used_bytes == 0
        assert samples[T4_B].gpu_percent == 0

    async def test_a_card_in_mig_mode_has_no_load_of_its_own(self, port):
        sample = by_uuid(await port.sample_devices())[A100]

        assert (sample.gpu_percent, sample.memory_percent, sample.fault) == (None, None, None)

    async def test_a_lost_card_is_a_fault_of_its_own_sample_only(self, port, machine):
        machine.lose(T4_A)

        samples = await port.sample_devices()

        faults = {sample.device_uuid: sample.fault for sample in samples}
        assert [sample.device_uuid for sample in samples] == list(UUIDS)
        assert faults.pop(T4_A).is_lost
        assert set(faults.values()) == {None}

    async def test_a_lost_card_stays_listed(self, port, machine):
        machine.lose(T4_A)

        devices = await port.list_devices()

        assert devices == tuple(card.device for card in CARDS)

    async def test_a_failing_card_has_a_reason_and_is_not_lost(self, port, machine):
        machine.fail(V100_B)

        fault = by_uuid(await port.sample_devices())[V100_B].fault

        assert not fault.is_lost
        assert "NVML error 999" in fault.reason

    async def test_a_mended_card_is_sampled_again(self, port, machine):
        machine.lose(T4_A)
        await port.sample_devices()

        machine.mend(T4_A)

        assert by_uuid(await port.sample_devices())[T4_A].fault is None

    async def test_a_card_that_comes_later_is_found_by_the_next_listing(self, port, machine):
        machine.plug(EXTRA)

        devices = await port.list_devices()

        assert devices[-1] == EXTRA
        assert [sample.device_uuid for sample in await port.sample_devices()] == [
            *UUIDS,
            EXTRA.device_uuid,
        ]

    async def test_without_events_waiting_ends_empty(self, port):
        assert await port.next_events(0.01) == ()

    async def test_an_event_is_delivered_once(self, port, machine):
        event = DeviceEvent(device_uuid=T4_B, kind=EventKind.XID, data=79)
        machine.raise_event(event)

        assert await port.next_events(30) == (event,)
        assert await port.next_events(0) == ()

    async def test_events_of_several_cards_are_all_delivered(self, port, machine):
        events = {
            DeviceEvent(device_uuid=T4_A, kind=EventKind.XID, data=48),
            DeviceEvent(device_uuid=V100_A, kind=EventKind.DOUBLE_BIT_ECC, data=0),
        }
        for event in events:
            machine.raise_event(event)

        seen = set()
        while seen != events:
            seen.update(await port.next_events(30))

        assert await port.next_events(0) == ()

    async def test_an_event_of_an_instance_names_it(self, port, machine):
        instance = CARDS[2].device.mig_instances[1]
        event = DeviceEvent(
            device_uuid=A100, kind=EventKind.XID, data=31, instance_uuid=instance.device_uuid
        )
        machine.raise_event(event)

        assert await port.next_events(30) == (event,)

    async def test_a_wait_ends_when_an_event_comes(self, port, machine):
        event = DeviceEvent(device_uuid=T4_A, kind=EventKind.XID, data=62)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(port.next_events(30))
            await port.sample_devices()
            machine.raise_event(event)

        assert waiting.result() == (event,)

    async def test_a_wait_for_events_does_not_keep_samples_waiting(self, port, machine):
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(port.next_events(30))
            samples = await port.sample_devices()
            was_waiting = not waiting.done()
            machine.raise_event(DeviceEvent(device_uuid=T4_A, kind=EventKind.XID, data=79))

        assert was_waiting
        assert len(samples) == len(CARDS)

    async def test_a_loss_is_an_event_once_and_other_cards_are_still_heard(self, port, machine):
        machine.lose(T4_A)

        assert await port.next_events(30) == (DeviceEvent(device_uuid=T4_A, kind=EventKind.LOST),)
        event = DeviceEvent(device_uuid=T4_B, kind=EventKind.XID, data=79)
        machine.raise_event(event)
        assert await port.next_events(30) == (event,)
        assert await port.next_events(0) == ()

    async def test_linked_cards_score_higher_than_cards_that_share_a_cpu(self, port):
        scores = await port.link_scores()

        assert scores[V100_A][V100_B] == scores[V100_B][V100_A] == 20 + 200
        assert scores[T4_A][T4_B] == 20
        assert scores[T4_A][V100_B] == 10

    async def test_a_lost_card_has_no_link_scores(self, port, machine):
        machine.lose(V100_B)

        scores = await port.link_scores()

        assert V100_B not in scores
        assert set(scores[V100_A]) == {T4_A, T4_B, A100}

    async def test_a_broken_driver_is_an_error_of_every_call_and_says_what_to_do(
        self, port, machine
    ):
        machine.break_driver()

        for call in (port.list_devices, port.sample_devices, port.link_scores):
            with pytest.raises(DriverUnavailable) as caught:
                await call()
            assert caught.value.hint

        machine.mend_driver()
        assert len(await port.sample_devices()) == len(CARDS)
