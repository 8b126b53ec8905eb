import pytest

from hamid.nvml.errors import DriverStuck, DriverUnavailable
from hamid.nvml.fake import FakeNvml
from hamid.nvml.port import ProcessMemory
from hamid.nvml.profiles import simulated_cards
from tests.contracts.nvml_contract import CARDS, MIB, NvmlContract


class FakeMachine:
    """The contract's words for what is done to the fake."""

    def __init__(self, fake):
        self.fake = fake
        self.lose = fake.lose
        self.mend = fake.mend
        self.raise_event = fake.emit
        self.plug = fake.plug

    def use(self, device_uuid, *, used_mib=0, gpu_percent=0, memory_percent=0):
        self.fake.use(
            device_uuid,
            memory_used_bytes=used_mib * MIB,
            gpu_percent=gpu_percent,
            memory_percent=memory_percent,
        )

    def run_process(self, device_uuid, *, pid, used_mib):
        process = ProcessMemory(pid=pid, used_bytes=used_mib * MIB)
        self.fake.use(device_uuid, processes=(process,), memory_used_bytes=used_mib * MIB)

    def fail(self, device_uuid):
        self.fake.fail(device_uuid, "NVML error 999: Unknown Error")

    def hide_load(self, device_uuid):
        self.fake.use(device_uuid, gpu_percent=None, memory_percent=None)

    def break_driver(self):
        self.fake.fail_driver(DriverUnavailable("no driver", hint="load it"))

    def mend_driver(self):
        self.fake.fail_driver(None)


class TestFake(NvmlContract):
    @pytest.fixture
    def machine(self):
        return FakeMachine(FakeNvml.of_cards(CARDS))

    @pytest.fixture
    async def port(self, machine):
        yield machine.fake
        await machine.fake.close()


async def test_fail_next_fails_one_call():
    fake = FakeNvml()
    fake.fail_next(DriverStuck("no answer", hint="wait"))

    with pytest.raises(DriverStuck):
        await fake.list_devices()

    assert await fake.list_devices() == ()


async def test_cards_on_one_switch_are_linked_with_each_other():
    cards = simulated_cards([("H100", 8)], node_name="hgx")
    first, *_, last = (card.device.device_uuid for card in cards)

    scores = await FakeNvml.of_cards(cards).link_scores()

    assert scores[first][last] == 10 + 18 * 100


async def test_closing_is_noted():
    fake = FakeNvml()

    await fake.close()

    assert fake.is_closed
