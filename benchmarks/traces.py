"""The traces that come with the benchmarks, by name; see `data/openb/README.md`."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hamid.errors import TraceError
from hamid.sim.openb import read_nodes, read_tasks

if TYPE_CHECKING:
    from hamid.sim.workload import SimNode, Task

OPENB: Final = Path(__file__).parent / "data" / "openb"
NODES: Final = OPENB / "openb_node_list_gpu_node.csv"


def nodes_of(path: Path = NODES) -> tuple[SimNode, ...]:
    """The nodes of the list."""
    return read_nodes(_lines(path), source=path.name)


def tasks_of(name: str) -> tuple[Task, ...]:
    """The tasks of a trace that comes with us, or of any list of that format."""
    path = OPENB / f"openb_pod_list_{name}.csv.gz"
    if not path.exists():
        path = Path(name)
    if not path.exists():
        known = sorted(
            p.name.removeprefix("openb_pod_list_").removesuffix(".csv.gz")
            for p in OPENB.glob("openb_pod_list_*")
        )
        raise TraceError(
            f"there is no trace {name!r}", hint=f"give a path, or one of {', '.join(known)}"
        )
    return read_tasks(_lines(path), source=path.name)


def _lines(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().splitlines()
