"""Scores for kube-scheduler: our ranking, in numbers that survive its arithmetic.

What it does with an extender's score (kube-scheduler 1.37): final = score × weight × 10, not
clamped, added to the sum of the in-tree plugins, which lies between about 0 and 1,200; nodes
with equal sums are drawn by lot. Hence:

1. No two nodes get the same score.
2. Neighbours differ by `RANK_STEP`, more than the in-tree plugins can turn around at weight 1:
   the node for which a reservation is held is then the node that is bound.
3. Only `SCORED_COUNT` nodes get one, the best; a node without one is scored as if it had 0. Nobody
   turns down a node once scores are asked for, so all but the best only count where others give
   scores as large as ours; and reading a thousand scores takes kube-scheduler longer than us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RANK_STEP: Final = 128
"""128 × 10 = 1,280 > 1,200; see the module."""

SCORED_COUNT: Final = 16


def rank_scores(ranked: Sequence[str], *, step: int = RANK_STEP) -> Mapping[str, int]:
    """The score of each node, best first: three nodes get 3, 2 and 1 times the step."""
    return {name: (len(ranked) - rank) * step for rank, name in enumerate(ranked)}
