"""How well two cards are connected, as one number. Pure.

The scale is HAMi's, for its scheduler and ours read the same annotation: 10 to 60 for the nearest
common ancestor on the bus, and 100 for each NVLink between the two.

    two cards on one CPU, no NVLink          20
    the same with 12 NVLinks                 20 + 12 * 100 = 1220
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LINK_COUNT: Final = 18
LINK_SCORE: Final = 100

ANCESTOR_SCORES: Final[Mapping[int, int]] = {
    0: 60,  # same board
    10: 50,  # one PCIe switch
    20: 40,  # several PCIe switches
    30: 30,  # one host bridge
    40: 20,  # same CPU
    50: 10,  # across CPUs
}
"""NVML's level of the nearest common ancestor → its score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The active NVLinks of one card.

    Attributes:
        by_peer_bus_id: to other cards directly.
        switch_count: to a switch, which connects it with every other card on the switch.
    """

    by_peer_bus_id: Mapping[str, int]
    switch_count: int = 0

    def count_to(self, peer_bus_id: str, *, is_peer_on_switch: bool) -> int:
        """How many lead to the peer."""
        direct = self.by_peer_bus_id.get(peer_bus_id, 0)
        if direct == 0 and is_peer_on_switch:
            return self.switch_count
        return direct


def pair_score(*, ancestor_level: int, links_there: int, links_back: int) -> int:
    """The score of two cards; 0 when they disagree about the links between them."""
    if links_there != links_back:
        return 0
    links = min(links_there, MAX_LINK_COUNT)
    return ANCESTOR_SCORES.get(ancestor_level, 0) + LINK_SCORE * links


def bus_id_of(text: str) -> str:
    """A PCI address as sysfs writes it: `00000000:3B:00.0` becomes `0000:3b:00.0`."""
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"
