"""Whether this node has a driver and cards, and so a device plugin to run; and when it gets some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from hamid.aiokit.services import running
from hamid.aiokit.ticker import every
from hamid.daemon.settings import Switch
from hamid.errors import NvmlError
from hamid.nvml.client import NvmlClient
from hamid.nvml.errors import DriverStuck, DriverUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager, AsyncExitStack

    from hamid.daemon.settings import NvmlSettings, Settings
    from hamid.nvml.port import NvmlPort

log = structlog.get_logger(__name__)


async def open_driver(stack: AsyncExitStack, settings: Settings) -> NvmlPort | None:
    """The driver, open for as long as the stack; None where no device plugin is to run.

    Where the plugin runs if it can, a node without cards is watched, and the daemon ends when it
    gets some.

    Raises:
        NvmlError: the plugin always runs here, but the driver does not answer.
        DriverStuck: there is a driver, and it hangs; a process that asks it again hangs as well.
    """
    wanted = settings.roles.plugin
    if wanted is Switch.NEVER:
        return None
    try:
        nvml = await stack.enter_async_context(_opened(settings.nvml))
        if wanted is Switch.ALWAYS or await nvml.list_devices():
            return nvml
        reason, hint = "the driver lists no card", "none, if the node should have none"
    except DriverStuck:
        raise
    except NvmlError as error:
        if wanted is Switch.ALWAYS:
            raise
        reason, hint = error.message, error.hint
    # A kernel module without a library that fits is a fault; neither of them is a node without GPUs.
    has_module = (settings.nvml.host_root / "proc/driver/nvidia/version").exists()
    say = log.warning if has_module else log.info
    say("no device plugin here", reason=reason, hint=hint)
    watch = CardWatch(has_cards=lambda: has_cards(settings.nvml))
    await stack.enter_async_context(running(watch))
    return None


async def has_cards(settings: NvmlSettings) -> bool:
    """Whether a driver answers now and lists cards."""
    try:
        async with _opened(settings) as nvml:
            return bool(await nvml.list_devices())
    except DriverStuck:
        raise
    except NvmlError as error:
        log.debug("still no cards", error=error.message)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWatch:
    """Ends the process when cards appear on a node that had none; a service.

    To begin anew is the one way that is sure: a process keeps the driver library that it once
    loaded.
    """

    has_cards: Callable[[], Awaitable[bool]]
    interval_s: float = 30.0
    name: str = "card-watch"

    async def run(self) -> None:
        """Look until cancelled."""
        async for _ in every(self.interval_s):
            await self.step()

    async def step(self) -> None:
        """Look once."""
        if await self.has_cards():
            raise DriverUnavailable(
                "cards appeared on this node, which had none when the daemon started",
                hint="nothing: the daemon starts again, and runs the device plugin",
            )


def _opened(settings: NvmlSettings) -> AbstractAsyncContextManager[NvmlPort]:
    return NvmlClient.open(library_path=settings.library, host_root=settings.host_root)
