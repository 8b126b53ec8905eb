"""What the terminal shows, as values and as text; how it gets onto a terminal is `screen`'s."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hamid.daemon.simulate.manifests import DEFAULT_NAMESPACE
from hamid.daemon.simulate.outcomes import PodState, finished
from hamid.daemon.simulate.roster import pod_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from hamid.daemon.simulate.cluster import SimulatedCluster
    from hamid.daemon.simulate.outcomes import Outcome

BAR_WIDTH: Final = 10
WIDE: Final = 100
"""From so many columns on, there are bars."""
BARE_NODES_SHOWN: Final = 3
LEAST_ROOM: Final = 4
_FRAME_LINES: Final = 4  # head and rule of the table of cards, and the lines below all
_COLOURS: Final = {PodState.PENDING: "yellow", PodState.REFUSED: "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A container and its slice of a card."""

    name: str
    memory_mib: int
    core_percent: int

    def __str__(self) -> str:
        cores = f" {self.core_percent} %" if self.core_percent else ""
        return f"{self.name} {self.memory_mib} MiB{cores}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """A card and who holds what of it."""

    node: str
    index: int
    model: str
    memory_mib: int
    holders: tuple[Holder, ...]

    @property
    def used_mib(self) -> int:
        """The memory that is given away."""
        return sum(holder.memory_mib for holder in self.holders)

    @property
    def core_percent(self) -> int:
        """The cores that are given away."""
        return sum(holder.core_percent for holder in self.holders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything that is shown."""

    cards: tuple[CardRow, ...]
    waiting: tuple[Outcome, ...]
    counts: Counter[PodState]
    bare_nodes: tuple[str, ...]
    head: tuple[str, ...]

    @classmethod
    def of(cls, cluster: SimulatedCluster, *, notes: Sequence[str]) -> Picture:
        """What there is to see now."""
        outcomes = cluster.outcomes.look()
        held = _held(cluster, outcomes)
        return cls(
            cards=tuple(
                CardRow(
                    node=node.name,
                    index=card.index,
                    model=card.model,
                    memory_mib=card.memory_mib,
                    holders=tuple(held.get(card.uuid, ())),
                )
                for node in cluster.nodes
                for card in node.cards
            ),
            waiting=tuple(o for o in outcomes if o.state is not PodState.RUNNING),
            counts=Counter(outcome.state for outcome in outcomes),
            bare_nodes=tuple(node.name for node in cluster.nodes if not node.cards),
            head=(
                f"kubectl --kubeconfig {cluster.kubeconfig} get pods,nodes -A",
                f"metrics {cluster.status_url}/metrics  debug {cluster.status_url}/debug/",
                *(f"note: {note}" for note in notes),
            ),
        )

    def render(self, console: Console, *, height: int) -> RenderableType:
        """The picture as text, in so many lines if it can be."""
        parts: list[RenderableType] = [
            self._title(),
            *(Text(line, style="dim", overflow="fold") for line in self.head),
        ]
        below = [_waiting(self.waiting, max(2, height // 8))] if self.waiting else []
        taken = sum(len(console.render_lines(part)) for part in (*parts, *below))
        room = height - taken - _FRAME_LINES - len(self.bare_nodes[:BARE_NODES_SHOWN])
        is_wide = console.width >= WIDE
        cards = self._cards(max(room, LEAST_ROOM), is_wide=is_wide)
        # A short last line: what the terminal echoes at Ctrl-C must not wrap.
        return Group(*parts, cards, *below, Text("Ctrl-C ends", style="dim"))

    def _title(self) -> Text:
        said = ", ".join(
            f"{self.counts[state]} {state}" for state in PodState if self.counts[state]
        )
        node_count = len({card.node for card in self.cards}) + len(self.bare_nodes)
        return Text.assemble(
            ("hamid", "bold"),
            f" simulates {node_count} nodes, {len(self.cards)} cards; pods: {said or 'none'}",
        )

    def _cards(self, room: int, *, is_wide: bool) -> Table:
        table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("node", no_wrap=True)
        table.add_column("card", no_wrap=True)
        table.add_column("memory, MiB", justify="right", no_wrap=True)
        if is_wide:
            table.add_column("", no_wrap=True, width=BAR_WIDTH)
        table.add_column("cores", justify="right", no_wrap=True)
        table.add_column("held by", ratio=1, overflow="ellipsis", no_wrap=True)
        shown = self.cards if len(self.cards) <= room else self.cards[: room - 1]
        for card, lines in zip(shown, _lines(shown, room), strict=True):
            table.add_row(
                card.node,
                Text(f"{card.index} {_short(card.model)}"),
                f"{card.used_mib} of {card.memory_mib}",
                *([_bar(card.used_mib, card.memory_mib)] if is_wide else []),
                f"{card.core_percent} %",
                _holders(card, lines),
            )
        if len(shown) < len(self.cards):
            table.add_row("…", f"{len(self.cards) - len(shown)} more")
        for name in self.bare_nodes[:BARE_NODES_SHOWN]:
            table.add_row(name, Text("no cards", style="dim"))
        return table


def _held(cluster: SimulatedCluster, outcomes: Sequence[Outcome]) -> dict[str, list[Holder]]:
    ended = {pod_key(pod): finished(pod) for pod in cluster.view.pods.values()}
    held: dict[str, list[Holder]] = {}
    for outcome in outcomes:
        name = outcome.pod.removeprefix(f"{DEFAULT_NAMESPACE}/")
        for container, slices in outcome.containers.items():
            if container in ended.get(outcome.pod, ()):
                continue
            several = len(outcome.containers) > 1
            for part in slices:
                held.setdefault(part.uuid, []).append(
                    Holder(
                        name=f"{name}/{container}" if several else name,
                        memory_mib=part.memory_mib,
                        core_percent=part.core_percent,
                    )
                )
    return held


def _lines(cards: Sequence[CardRow], room: int) -> list[int]:
    """How many lines each card gets: what it needs, or a fair part of the room."""
    given = [1] * len(cards)
    left = room - len(cards)
    while left > 0:
        needy = [at for at, card in enumerate(cards) if given[at] < len(card.holders)]
        if not needy:
            break
        for at in needy[:left]:
            given[at] += 1
        left -= len(needy[:left])
    return given


def _holders(card: CardRow, lines: int) -> Text:
    if not card.holders:
        return Text("free", style="green")
    if len(card.holders) <= lines:
        return Text("\n".join(map(str, card.holders)))
    shown = [str(holder) for holder in card.holders[: max(lines - 1, 0)]]
    rest = card.holders[len(shown) :]
    more = "more slices" if shown else "slices"
    shown.append(f"{len(rest)} {more}, {sum(h.memory_mib for h in rest)} MiB")
    return Text("\n".join(shown))


def _bar(used: int, total: int) -> Text:
    filled = max(used * BAR_WIDTH // total, int(used > 0))  # full means full
    return Text.assemble(("█" * filled, "cyan"), ("░" * (BAR_WIDTH - filled), "dim"))


def _short(model: str) -> str:
    return model.removeprefix("NVIDIA ").removeprefix("Tesla ").removeprefix("GeForce ")


def _waiting(waiting: Sequence[Outcome], shown: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0))
    table.add_column("pod", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("why", ratio=1)
    for outcome in waiting[:shown]:
        colour = _COLOURS.get(outcome.state, "")
        # Texts, for what people wrote into manifests is no markup.
        table.add_row(
            Text(outcome.pod), Text(outcome.state, style=colour), Text(outcome.reason or "")
        )
    if len(waiting) > shown:
        table.add_row(f"… and {len(waiting) - shown} more")
    return table
