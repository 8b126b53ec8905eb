"""How a container shares the time of its devices with others, as far as its pod says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SharingMode(StrEnum):
    """What becomes of time that is idle."""

    HARD = "hard"
    """A container never uses more than its core limit."""
    LEND = "lend"
    """What is idle goes to who is busy, by weight, and back within a tenth of a second."""
    PRIORITY = "priority"
    """Those of high priority come first; those of low keep a floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What a pod says; None: nothing, and the node's setting counts."""

    mode: SharingMode | None = None
    weight: int | None = None
    """Share of what is lent, in proportion to others; 1 to 1000."""
