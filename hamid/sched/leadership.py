"""Whether this replica may act as the leader: what the rest of the scheduler sees of the lease.

Ask `may_act` before each write, not once at the start: a replica that was frozen for longer than
its lease goes on where it stood, and must write nothing. `KubePort.guarded` asks once more when the
write goes out, after whatever it had to wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Leadership(Protocol):
    """Who leads, as known to this replica."""

    def may_act(self) -> bool:
        """Whether this replica may write to the cluster at this moment."""
        ...

    @property
    def holder(self) -> str:
        """The identity of the replica that leads, as far as is known; empty when nobody does."""
        ...


@dataclass(slots=True, kw_only=True)
class FixedLeadership:
    """A leadership set by hand: of the only replica there is, and of tests."""

    is_leader: bool = True
    holder: str = "self"

    def may_act(self) -> bool:
        """What was set."""
        return self.is_leader
