"""How well sets of devices are linked.

A set is as good as its weakest link, then as the sum of its links, then as the sum of the links
among those that it leaves behind. One device alone has no link: there the one with the worst links
to all others is the best choice, since it is missed the least.

Nodes of one model are wired alike: the order of all sets is worked out once for each matrix of
links, the *topology class*, and number of devices. Ranks of two classes do not compare: between
nodes, the links themselves count, and not what is left behind, of which a larger node has more.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import chain, combinations, product
from math import comb, prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hamid.model.node import NodeSnapshot

Links = tuple[tuple[int, ...], ...]
"""A row a device; what stands on the diagonal does not count."""

MAX_SWAPS: Final = 1_000
"""Sets that are compared for one placement: more than those of four out of eight devices."""

MAX_RANKED: Final = 13_000
"""Sets for which a whole class is ordered: those of eight out of sixteen devices."""


def link_cost(links: Links, positions: tuple[int, ...]) -> int:
    """The rank of the set among all of its size, from 0 for the best; 0 where links are unknown.

    Of classes that are too large to be ordered, `link_cost_between_nodes`.

    Args:
        links: of the node.
        positions: of the devices, ascending.
    """
    if not links:
        return 0
    if comb(len(links), len(positions)) > MAX_RANKED:
        return link_cost_between_nodes(links, positions)
    return _ranks(links, len(positions))[positions]


def link_cost_between_nodes(links: Links, positions: tuple[int, ...]) -> int:
    """How badly the set is linked: -(10⁶ × weakest link + sum of links), to compare sets of any nodes.

    Of one device alone it is 10⁶ × the sum of its links to all others: the less, the less it is
    missed. Where links are unknown there are none.

    Args:
        links: of the node.
        positions: of the devices.
    """
    if not links:
        return 0
    weakest, total, _ = _quality(links, positions)
    return -(weakest * 1_000_000 + total)


def best_linked(
    links: Links, states: Sequence[Hashable], positions: tuple[int, ...]
) -> tuple[int, ...]:
    """The best linked devices in the same states as those at these positions, ascending.

    Args:
        links: of the node.
        states: of its devices; those in equal states may stand in for each other.
        positions: of those chosen.

    Example:
        four empty cards, (0, 1) chosen, 2 and 3 linked best: (2, 3)
    """
    if not links:
        return positions
    alike: dict[Hashable, list[int]] = {}
    for position, state in enumerate(states):
        alike.setdefault(state, []).append(position)
    counts = Counter(states[position] for position in positions)
    if prod(comb(len(alike[state]), count) for state, count in counts.items()) > MAX_SWAPS:
        return positions
    parts = (combinations(alike[state], count) for state, count in counts.items())
    sets = (tuple(sorted(chain.from_iterable(found))) for found in product(*parts))
    return min(sets, key=lambda found: (link_cost(links, found), found))


def numa_count(node: NodeSnapshot, positions: Sequence[int]) -> int:
    """Of how many NUMA nodes the devices are; one that knows none is alone."""
    devices = [node.usages[position].device for position in positions]
    return len({d.device_uuid if d.numa_node is None else d.numa_node for d in devices})


@lru_cache(maxsize=256)
def _ranks(links: Links, count: int) -> Mapping[tuple[int, ...], int]:
    sets = list(combinations(range(len(links)), count))
    qualities = {found: _quality(links, found) for found in sets}
    order = sorted(set(qualities.values()), reverse=True)
    rank = {quality: number for number, quality in enumerate(order)}
    return {found: rank[quality] for found, quality in qualities.items()}


def _quality(links: Links, positions: tuple[int, ...]) -> tuple[int, int, int]:
    """Weakest link, sum of links, sum of what is left; higher is better."""
    left = [p for p in range(len(links)) if p not in positions]
    if len(positions) == 1:
        (alone,) = positions
        return (-sum(_pair(links, alone, other) for other in left), 0, 0)
    pairs = [_pair(links, a, b) for a, b in combinations(positions, 2)]
    rest = sum(_pair(links, a, b) for a, b in combinations(left, 2))
    return (min(pairs, default=0), sum(pairs), rest)


def _pair(links: Links, one: int, other: int) -> int:
    """Nodes may tell only one half of a pair; the better figure counts."""
    return max(links[one][other], links[other][one])
