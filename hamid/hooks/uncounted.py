"""What containers hold of devices beyond what they are charged, by the driver's figures. Pure.

Code, contexts that nobody is charged for, and whatever got around the library. The two figures are
not of one moment: what was taken or given back between them would look as if it were uncounted. So
what was charged is read before and after the driver is asked, the larger one counts, and of the last
readings the smallest is believed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

READINGS: Final = 3


@dataclass(slots=True, kw_only=True)
class Uncounted:
    """Of one container on one device."""

    _readings: deque[int] = field(default_factory=lambda: deque(maxlen=READINGS))

    def note(self, held_bytes: int, charged_bytes: tuple[int, int]) -> None:
        """Take what the driver says, and what was charged before it was asked and after."""
        self._readings.append(max(0, held_bytes - max(charged_bytes)))

    @property
    def believed_bytes(self) -> int:
        """What counts; nothing before there are enough readings."""
        return min(self._readings) if len(self._readings) == READINGS else 0
