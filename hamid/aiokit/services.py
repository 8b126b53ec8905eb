"""Long-lived loops: what a service is, and how several run as one.

Invariants:

1. All tasks of the process are started here, by `running` or `Background`.
2. Cancellation is the only stop signal, and it always passes through.
3. A service that ends, by returning or by raising, ends all of them.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, Self

from hamid.errors import ServiceEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine


class Service(Protocol):
    """A loop with a name; `run` goes on until it is cancelled."""

    @property
    def name(self) -> str:
        """The kebab-case name seen in tasks, logs and metrics."""
        ...

    async def run(self) -> None:
        """Run until cancelled; to return is a fault."""
        ...


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[None]:
    """Run the services for as long as the block lasts; a failing one cancels the block.

    Nested blocks give the start order, and the reverse of it as the stop order.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_guard(service), name=service.name) for service in services]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


class Background:
    """Short-lived tasks with an owner: nothing is fired and forgotten.

    Open it as a context; what still runs at its end is cancelled. A task that fails
    takes the owner down, as in a `TaskGroup`.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await self._group.__aexit__(*exc_info)  # type: ignore[arg-type]  # passed on unchanged

    def start(self, coroutine: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Start a task that ends by itself; returns it so that a caller may await it."""
        task = self._group.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _guard(service: Service) -> None:
    try:
        await service.run()
    except Exception as error:
        error.add_note(f"in service {service.name!r}")
        raise
    raise ServiceEnded(
        f"service {service.name!r} returned",
        hint="services run until cancelled; report this as a bug",
    )
