"""`hamid sim`: reads what is to be replayed, shows how far it is, and tells how it ended."""

from __future__ import annotations

import gzip
import json
import random
import statistics
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table

from hamid.errors import TraceError
from hamid.sched.placement.policy import Policies
from hamid.sched.settings import policy_chain
from hamid.sim import openb, own_format
from hamid.sim.chooser import ProductChooser
from hamid.sim.plot import Curves, draw
from hamid.sim.replay import Replay
from hamid.sim.workload import recorded, resampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rich.progress import TaskID

    from hamid.model.device import Device
    from hamid.sim.replay import Outcome
    from hamid.sim.snapshot import Snapshot
    from hamid.sim.workload import Arrival, SimNode

FIRST_SEED: Final = 42
MAX_LOAD_PERCENT: Final = 100_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to replay, and how.

    Attributes:
        policies: by the name under which they are shown.
        load_percent: of all cards, to arrive in random order; None replays as recorded.
        seed_count: replays of each policy.
    """

    nodes: tuple[SimNode, ...]
    arrivals: tuple[Arrival, ...]
    policies: dict[str, Policies]
    load_percent: float | None
    seed_count: int

    def tasks(self, capacity_milli: int, seed: int) -> Iterator[Arrival]:
        """The pods of one replay."""
        if self.load_percent is None:
            return recorded(self.arrivals)
        return resampled(
            self.arrivals,
            capacity_milli=capacity_milli,
            load_percent=self.load_percent,
            rng=random.Random(seed),  # noqa: S311 - a replay must repeat itself
        )


def plan(
    *,
    nodes: Path | None,
    tasks: Path | None,
    snapshot: Snapshot | None,
    policies: Sequence[str],
    load_percent: float | None,
    seed_count: int,
) -> Plan:
    """Read the files, unless a snapshot is given.

    Raises:
        TraceError, SettingsError: something cannot be read, or does not go together.
    """
    arrivals: tuple[Arrival, ...]
    if snapshot is not None:
        if nodes is not None or tasks is not None:
            raise TraceError(
                "a trace and a cluster are given", hint="give --nodes and --tasks, or a cluster"
            )
        sim_nodes, arrivals = snapshot.nodes, snapshot.tasks
    elif nodes is None or tasks is None:
        raise TraceError(
            "there is nothing to replay", hint="give --nodes and --tasks, or --snapshot, or --live"
        )
    else:
        sim_nodes = _format_of(nodes).read_nodes(_text(nodes).splitlines(), source=nodes.name)
        arrivals = _format_of(tasks).read_tasks(_text(tasks).splitlines(), source=tasks.name)
    cards = _cards(sim_nodes)
    memory_mib = sum(card.memory_mib for card in cards) // len(cards)
    sized = tuple(arrival.on_cards_of(memory_mib) for arrival in arrivals)
    if not sized:
        raise TraceError("there is no pod to replay", hint="check the list of pods")
    _assert_load(load_percent, seed_count, sized)
    return Plan(
        nodes=sim_nodes,
        arrivals=sized,
        policies={text: _policies(text) for text in policies},
        load_percent=load_percent,
        seed_count=seed_count,
    )


def _assert_load(load_percent: float | None, seed_count: int, arrivals: Sequence[Arrival]) -> None:
    """Refuse a load that never comes, and seeds of what is not random."""
    if load_percent is None:
        if seed_count > 1:
            raise TraceError(
                "--seeds is given, but what is replayed as recorded is not random",
                hint="give --load, too, or leave --seeds out",
            )
        return
    if not 0 < load_percent <= MAX_LOAD_PERCENT:
        raise TraceError(
            f"--load is {load_percent:g}", hint=f"give 1 to {MAX_LOAD_PERCENT:.0f} percent"
        )
    if not any(arrival.core_milli for arrival in arrivals):
        raise TraceError(
            "no pod asks for cards, so that no load ever arrives",
            hint="check the list of pods, or leave --load out",
        )


def _cards(nodes: Sequence[SimNode]) -> list[Device]:
    """All cards of the nodes, each of which is there once."""
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise TraceError(
                f"node {node.name} is there twice", hint="give each node a name of its own"
            )
        seen.add(node.name)
    cards = [device for node in nodes for device in node.devices]
    if not cards:
        raise TraceError("no node has a card", hint="check the list of nodes")
    return cards


def assert_writable(path: Path | None) -> None:
    """Find out before the replay whether what it came to can be written there.

    Raises:
        TraceError: it cannot.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise TraceError(f"there is no folder {path.parent}", hint="make it, or check the path")
    if path.is_dir():
        raise TraceError(f"{path} is a folder", hint="give the name of a file")


def run(plan: Plan) -> dict[str, tuple[Outcome, ...]]:
    """All replays, with a bar on stderr; the outcomes by policy."""
    outcomes: dict[str, tuple[Outcome, ...]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        for name, policies in plan.policies.items():
            bar = progress.add_task(name, total=plan.seed_count * (plan.load_percent or 100.0))
            found = []
            for number in range(plan.seed_count):
                advance = partial(_advance, progress, bar, number * (plan.load_percent or 100.0))
                found.append(_replay(plan, policies, FIRST_SEED + number, advance))
            progress.update(bar, completed=plan.seed_count * (plan.load_percent or 100.0))
            outcomes[name] = tuple(found)
    return outcomes


def _advance(progress: Progress, bar: TaskID, offset: float, percent: float) -> None:
    progress.update(bar, completed=offset + percent)


def _replay(
    plan: Plan, policies: Policies, seed: int, on_progress: Callable[[float], None]
) -> Outcome:
    replay = Replay(plan.nodes, ProductChooser(policies))
    tasks = plan.tasks(replay.capacity_milli, seed)
    return replay.run(tasks, on_progress=on_progress)


def table(outcomes: dict[str, tuple[Outcome, ...]]) -> Table:
    """How each policy did; means over the seeds, where there are several beside the lowest."""
    has_seeds = any(len(found) > 1 for found in outcomes.values())
    columns = ("allocated", *(("least",) if has_seeds else ()), "cores", "memory", "wasted")
    longest = max((len(name) for name in outcomes), default=0)
    name_column = Column("policy", no_wrap=True, min_width=longest)
    shown = Table(name_column, box=None, pad_edge=False)
    heads = ("least" if key == "least" else f"{key} %" for key in columns)
    for head in (*heads, "placed", "refused"):
        shown.add_column(head, justify="right")
    for name, found in outcomes.items():
        line = _summary(found)
        shown.add_row(
            name,
            *(f"{line[key]:.2f}" for key in columns),
            *(f"{line[key]:.0f}" for key in ("placed", "refused")),
        )
    return shown


def report(plan: Plan, outcomes: dict[str, tuple[Outcome, ...]]) -> dict[str, Any]:
    """The same and all curves, for programs; percentages of all cards."""
    return {
        "nodes": len(plan.nodes),
        "cards": sum(len(node.devices) for node in plan.nodes),
        "load_percent": plan.load_percent,
        "policies": {
            name: {
                **_summary(found),
                "runs": [
                    {
                        "seed": None if plan.load_percent is None else FIRST_SEED + number,
                        "allocated": outcome.allocated_percent,
                        "placed": outcome.placed_count,
                        "refused": outcome.refused_count,
                        "curve": [
                            [p.arrived_percent, p.allocated_percent, p.wasted_percent]
                            for p in outcome.points
                        ],
                    }
                    for number, outcome in enumerate(found)
                ],
            }
            for name, found in outcomes.items()
        },
    }


def write(
    plan: Plan,
    outcomes: dict[str, tuple[Outcome, ...]],
    *,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """Write the report and draw the picture, where they are asked for.

    Raises:
        TraceError: they cannot be written there.
    """
    try:
        if json_path is not None:
            json_path.write_text(json.dumps(report(plan, outcomes), indent=1) + "\n")
        if plot_path is not None:
            plot(outcomes, plot_path)
    except OSError as error:
        raise TraceError(
            f"the outcome cannot be written: {error.strerror}", hint="check the path"
        ) from error


def plot(outcomes: dict[str, tuple[Outcome, ...]], path: Path) -> None:
    """What was in use and what was wasted over what had arrived; see `plot`."""
    draw(
        [
            Curves(
                name=name,
                allocated=tuple(
                    tuple((p.arrived_percent, p.allocated_percent) for p in outcome.points)
                    for outcome in found
                ),
                wasted=tuple(
                    tuple((p.arrived_percent, p.wasted_percent) for p in outcome.points)
                    for outcome in found
                ),
            )
            for name, found in outcomes.items()
        ],
        path,
        title="Cards in use, as pods arrive",
    )


def _summary(found: tuple[Outcome, ...]) -> dict[str, float]:
    def mean(values: list[float]) -> float:
        return statistics.fmean(values)

    allocated = [outcome.allocated_percent for outcome in found]
    return {
        "allocated": mean(allocated),
        "least": min(allocated),
        "cores": mean([outcome.core_percent for outcome in found]),
        "memory": mean([outcome.memory_percent for outcome in found]),
        "wasted": mean([o.points[-1].wasted_percent if o.points else 0.0 for o in found]),
        "placed": mean([float(outcome.placed_count) for outcome in found]),
        "refused": mean([float(outcome.refused_count) for outcome in found]),
    }


def _policies(text: str) -> Policies:
    """`binpack`, or `binpack/spread` for nodes and devices; each may be a chain."""
    node_text, _, device_text = text.partition("/")
    return Policies(
        node=policy_chain("--policy", node_text),
        device=policy_chain("--policy", device_text or node_text),
    )


def _format_of(path: Path) -> Any:
    """By its name: `.csv` is openb's, anything else our own."""
    return openb if ".csv" in path.suffixes else own_format


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"{path} cannot be read: {why}", hint="check the path") from error
