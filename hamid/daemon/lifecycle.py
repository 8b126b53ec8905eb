"""From the first line of the process to the last: signals, exit codes, and an end that always comes.

Exit codes: 0 stopped as asked, 1 a service failed (Kubernetes starts the daemon again), 2 the
settings are wrong.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import structlog

from hamid.daemon.compose import daemon
from hamid.errors import HamidError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.daemon.settings import Settings

log = structlog.get_logger(__name__)

STOPPED = 0
FAILED = 1
MISCONFIGURED = 2
SWITCH_INTERVAL_S = 0.0005


def run(settings: Settings) -> int:
    """Run the daemon until it is told to stop; returns the exit code."""
    # Work in threads must not keep the loop, and with it the lease, waiting for 5 ms at a time.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # Many systems start with 1024, for programs that use select.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        asyncio.run(_serve(settings))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the last place to say it
        return report(error)
    return STOPPED


def report(error: BaseException) -> int:
    """Say why the process ends, in words where we have them; returns the exit code."""
    causes = _leaves(error)
    for cause in causes:
        notes = getattr(cause, "__notes__", [])
        if isinstance(cause, HamidError):
            log.error("daemon failed", error=cause.message, hint=cause.hint, notes=notes)
        else:
            log.error("daemon failed", exc_info=cause, notes=notes)
    if causes and all(isinstance(cause, SettingsError) for cause in causes):
        return MISCONFIGURED
    return FAILED


async def _serve(settings: Settings) -> None:
    with cancelled_by_signals():
        async with daemon(settings):
            await asyncio.Event().wait()


@contextmanager
def cancelled_by_signals() -> Iterator[None]:
    """Cancel the current task at SIGTERM, SIGINT and SIGHUP, and take that for a good end.

    SIGHUP comes when the terminal is closed; under nohup it is ignored, and stays so.

    A second signal is taken as the system takes it: the process ends at once.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    received: list[str] = []

    def stop(number: signal.Signals) -> None:
        received.append(number.name)
        log.info("stopping", signal=number.name)
        for each in signals:
            loop.remove_signal_handler(each)
            # Not Python's own for SIGINT: KeyboardInterrupt waits for threads.
            signal.signal(each, signal.SIG_DFL)
        if task is not None:
            task.cancel()

    for number in signals:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    except asyncio.CancelledError:
        if not received:
            raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]


def leave(code: int) -> NoReturn:
    """End the process now: a thread that hangs in the driver would keep a normal exit waiting."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
