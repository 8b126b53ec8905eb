"""Spares Python's garbage collector the cluster's books.

A full collection looks at every object there is. With 1,000 nodes and 8,000 pods in the books that takes
100 ms and more, in which kube-scheduler waits for its answer. The books are plain values without
cycles and need no collector, so they are put out of its sight once they are complete, and what
came since every now and then.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hamid.aiokit.ticker import every

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_S: Final = 2.0
STEPS_BETWEEN: Final = 30


@dataclass(slots=True, kw_only=True)
class HeapKeeper:
    """Freezes the heap while this replica leads.

    Args:
        is_settled: whether the books are complete.
    """

    is_settled: Callable[[], bool]
    name: str = "heap-keeper"
    _steps_left: int = field(default=0, init=False)

    async def run(self) -> None:
        """Look now and then, until cancelled; then the collector sees everything again."""
        try:
            async for _ in every(STEP_S):
                self.step()
        finally:
            gc.unfreeze()

    def step(self) -> None:
        """Freeze what is there, if it is time to."""
        if self._steps_left:
            self._steps_left -= 1
        elif self.is_settled():
            self._steps_left = STEPS_BETWEEN
            # First what is garbage: frozen, it would stay for as long as this replica leads.
            gc.collect()
            gc.freeze()
