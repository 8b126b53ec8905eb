"""`hamid simulate`, from checked input to exit code."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.aiokit.services import running
from hamid.daemon.compose import Clocks
from hamid.daemon.lifecycle import cancelled_by_signals
from hamid.daemon.logs import LogFormat, configure_logs
from hamid.daemon.simulate.applying import apply_plan
from hamid.daemon.simulate.cluster import simulated_cluster
from hamid.daemon.simulate.ground import built_library
from hamid.daemon.simulate.nodes import DEFAULT_NODES, load_nodes
from hamid.daemon.simulate.outcomes import PodState
from hamid.daemon.simulate.plan import make_plan
from hamid.model.names import ResourceNames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from hamid.daemon.logs import LogLevel
    from hamid.daemon.simulate.cluster import SimulatedCluster
    from hamid.daemon.simulate.nodes import SimulatedNode
    from hamid.daemon.simulate.outcomes import Outcome
    from hamid.daemon.simulate.plan import Plan

ALL_RUN: Final = 0
SOME_DO_NOT: Final = 3
INTERRUPTED: Final = 130
STATUS_PORT: Final = 31992


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What to simulate, read and checked."""

    plan: Plan
    nodes: tuple[SimulatedNode, ...]
    library: Path


def prepare(pods: Sequence[Path], *, nodes: Path | None, library: Path | None) -> Simulation:
    """Read everything. Raises `SettingsError` if anything of it is wrong."""
    return Simulation(
        plan=make_plan(pods, names=ResourceNames()),
        nodes=load_nodes(nodes) if nodes is not None else DEFAULT_NODES,
        library=built_library(library),
    )


def run_once(simulation: Simulation) -> int:
    """Print one JSON line a pod; returns the exit code."""
    for note in simulation.plan.notes:
        print(f"hamid: {note}", file=sys.stderr)  # noqa: T201 - the command line speaks
    return asyncio.run(_once(simulation))


async def _once(simulation: Simulation) -> int:
    with cancelled_by_signals():
        outcomes = await _apply(simulation)
        for outcome in outcomes:
            sys.stdout.buffer.write(outcome.encode())
        sys.stdout.buffer.flush()
        do_all_run = all(outcome.state is PodState.RUNNING for outcome in outcomes)
        return ALL_RUN if do_all_run else SOME_DO_NOT
    return INTERRUPTED


async def _apply(simulation: Simulation) -> tuple[Outcome, ...]:
    # Nobody has the time to look: any port will do.
    async with _cluster(simulation, status_port=0) as cluster:
        await apply_plan(cluster, simulation.plan)
        return cluster.outcomes.look()


def run_live(simulation: Simulation, *, log_level: LogLevel) -> int:
    """Show the cluster until interrupted; returns the exit code."""
    return asyncio.run(_live(simulation, log_level))


async def _live(simulation: Simulation, log_level: LogLevel) -> int:
    from hamid.daemon.simulate.screen import Screen  # noqa: PLC0415 - rich is for terminals only

    with cancelled_by_signals(), Screen.opened() as screen:
        # The screen has taken over stderr: log lines appear above the picture.
        configure_logs(LogFormat.AUTO, log_level)
        async with (
            _cluster(simulation, status_port=STATUS_PORT) as cluster,
            running(screen.of(cluster, notes=simulation.plan.notes)),
        ):
            await apply_plan(cluster, simulation.plan)
            await asyncio.Event().wait()
    return ALL_RUN


def _cluster(
    simulation: Simulation, *, status_port: int
) -> AbstractAsyncContextManager[SimulatedCluster]:
    return simulated_cluster(
        simulation.nodes, library=simulation.library, clocks=Clocks(), status_port=status_port
    )
