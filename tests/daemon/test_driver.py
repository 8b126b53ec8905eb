from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from hamid.daemon.driver import CardWatch, has_cards, open_driver
from hamid.daemon.settings import Identity, NvmlSettings, RoleSettings, Settings, Switch
from hamid.nvml.errors import DriverStuck, DriverUnavailable
from hamid.nvml.profiles import format_profile, simulated_cards
from tests.nvml.machine import built


class Machine:
    """A node with the simulated driver, whose cards a test sets."""

    def __init__(self, root):
        self.root = root
        self.plug()

    def plug(self, count=0):
        cards = simulated_cards([("T4", count)], node_name="n") if count else ()
        (self.root / "devices").write_text(format_profile(cards))

    def settings(self, plugin, *, library: Path | None = None):
        nvml = NvmlSettings(library=library or built("libnvidia-ml.so.1"), host_root=self.root)
        return Settings(
            identity=Identity(node_name="n"), roles=RoleSettings(plugin=plugin), nvml=nvml
        )

    @property
    def missing(self):
        return self.root / "nothing.so"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HAMID_SIM_DEVICES", str(tmp_path / "devices"))
    monkeypatch.setenv("HAMID_SIM_STATE", str(tmp_path / "state"))
    return Machine(tmp_path)


@asynccontextmanager
async def opened(settings):
    async with AsyncExitStack() as stack:
        yield await open_driver(stack, settings)


@pytest.mark.slow  # to close the driver takes up to a second
@pytest.mark.parametrize("plugin", [Switch.AUTO, Switch.ALWAYS])
async def test_a_driver_with_cards_is_opened(machine, plugin):
    machine.plug(2)

    async with opened(machine.settings(plugin)) as nvml:
        assert len(await nvml.list_devices()) == 2


@pytest.mark.slow
async def test_a_node_that_always_has_the_plugin_has_it_without_cards_too(machine):
    async with opened(machine.settings(Switch.ALWAYS)) as nvml:
        assert await nvml.list_devices() == ()


async def test_a_node_that_never_has_the_plugin_is_not_even_looked_at(machine):
    async with opened(machine.settings(Switch.NEVER, library=machine.missing)) as nvml:
        assert nvml is None


async def test_a_node_without_a_driver_has_no_plugin_and_that_is_no_fault(machine, assert_logged):
    async with opened(machine.settings(Switch.AUTO, library=machine.missing)) as nvml:
        assert nvml is None
    assert_logged("no device plugin here", log_level="info")


async def test_a_kernel_module_without_a_library_that_fits_is_a_warning(machine, assert_logged):
    (machine.root / "proc/driver/nvidia").mkdir(parents=True)
    (machine.root / "proc/driver/nvidia/version").write_text("NVRM version: 580")

    async with opened(machine.settings(Switch.AUTO, library=machine.missing)) as nvml:
        assert nvml is None
    assert_logged("no device plugin here", log_level="warning")


@pytest.mark.slow
async def test_a_driver_without_cards_makes_no_plugin(machine, assert_logged):
    async with opened(machine.settings(Switch.AUTO)) as nvml:
        assert nvml is None
    assert_logged("no device plugin here", reason="the driver lists no card")


async def test_without_a_driver_the_daemon_fails_where_it_is_told_to_have_one(machine):
    with pytest.raises(DriverUnavailable):
        async with opened(machine.settings(Switch.ALWAYS, library=machine.missing)):
            pass


@pytest.mark.slow
async def test_cards_that_come_later_are_noticed(machine):
    settings = machine.settings(Switch.AUTO).nvml
    assert not await has_cards(settings)

    machine.plug(1)

    assert await has_cards(settings)


async def test_the_watch_goes_on_without_cards_and_ends_the_process_with_them():
    found = [False, True]

    async def look():
        return found.pop(0)

    watch = CardWatch(has_cards=look)

    await watch.step()
    with pytest.raises(DriverUnavailable, match="cards appeared"):
        await watch.step()


async def test_a_driver_that_hangs_ends_the_process():
    async def look():
        raise DriverStuck("no answer", hint="reboot")

    with pytest.raises(DriverStuck):
        await CardWatch(has_cards=look).step()
