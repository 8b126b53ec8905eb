"""A simulated cluster for tests: small, in this process, and with a library that is none."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hamid.daemon.compose import Clocks
from hamid.daemon.simulate.applying import apply_plan
from hamid.daemon.simulate.cluster import simulated_cluster
from hamid.daemon.simulate.nodes import DEFAULT_NODES, SimulatedCards, SimulatedNode
from hamid.daemon.simulate.plan import make_plan
from hamid.model.names import ResourceNames
from tests.daemon.simulate.manifests import write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from typing import Any

    from hamid.daemon.simulate.cluster import SimulatedCluster
    from hamid.daemon.simulate.outcomes import Outcome

ONE_V100 = (SimulatedNode(name="n", cards=(SimulatedCards(model="V100-16GB"),)),)


@asynccontextmanager
async def simulation(
    tmp_path: Path, *documents: Any, nodes: Sequence[SimulatedNode] = DEFAULT_NODES
) -> AsyncIterator[SimulatedCluster]:
    """The cluster, these manifests applied."""
    library = tmp_path / "libhamid.so"
    library.write_bytes(b"\x7fELF and nothing more")
    async with simulated_cluster(nodes, library=library, clocks=Clocks(), status_port=0) as cluster:
        await apply(cluster, tmp_path, *documents)
        yield cluster


async def apply(cluster: SimulatedCluster, tmp_path: Path, *documents: Any) -> None:
    """Apply further manifests."""
    if documents:
        path = write(tmp_path / "given.yaml", *documents)
        await apply_plan(cluster, make_plan([path], names=ResourceNames()))


def by_pod(cluster: SimulatedCluster) -> dict[str, Outcome]:
    """The outcomes by the pods' names, namespaces left out."""
    return {outcome.pod.partition("/")[2]: outcome for outcome in cluster.outcomes.look()}


async def state_of(cluster: SimulatedCluster, pod: str, state: str) -> Outcome:
    """The pod's outcome, once it is in this state."""
    await cluster.view.wait_until(
        lambda: (found := by_pod(cluster).get(pod)) is not None and found.state == state
    )
    return by_pod(cluster)[pod]
