"""The curves of a replay as a picture, PNG or SVG: two panels above the same load.

Above, how much of the cards was in use; below, how much was free and of no use. Where a policy was
replayed with several seeds, its line is their mean, and the band around it goes from the least to
the most.

Drawn by matplotlib, the one door to it: an extra, for no daemon draws pictures. It is imported when
a picture is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from hamid.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMATS: Final = ("png", "svg")
LIBRARY: Final = "matplotlib"
_SIZE_INCHES: Final = (10.0, 7.0)
_DOTS_PER_INCH: Final = 120
_MAX_PERCENT: Final = 100

Points = tuple[tuple[float, float], ...]
"""Percent that has arrived, and what the curve says of it in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What one policy did; of each seed one line of each.

    Attributes:
        allocated: in use.
        wasted: free, and of no use to what usually comes.
    """

    name: str
    allocated: tuple[Points, ...]
    wasted: tuple[Points, ...]


def assert_drawable(path: Path) -> None:
    """Find out before the replay what would be in the way of the picture after it.

    Raises:
        TraceError: it cannot be drawn there.
    """
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise TraceError(
            f"--plot is {path.name}, which is neither PNG nor SVG",
            hint="let the name end with .png or .svg",
        )
    if find_spec(LIBRARY) is None:
        raise TraceError(
            f"--plot needs {LIBRARY}, which is not installed", hint="pip install 'hamid[plot]'"
        )


def draw(curves: Sequence[Curves], path: Path, *, title: str) -> None:
    """Draw the picture there, in the format that its name ends with."""
    from matplotlib import rc_context  # noqa: PLC0415 - see the module
    from matplotlib.figure import Figure  # noqa: PLC0415

    # Equal curves make equal files.
    with rc_context({"svg.hashsalt": "hamid", "svg.fonttype": "none"}):
        figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for number, each in enumerate(curves):
            _line(above, each.allocated, colour=f"C{number}", name=each.name)
            _line(below, each.wasted, colour=f"C{number}", name=each.name)
        figure.suptitle(title)
        above.set_ylabel("in use, % of all cards")
        above.set_ylim(0, _MAX_PERCENT)
        below.set_ylabel("fragmentation: free but\nof no use, % of all cards")
        below.set_ylim(bottom=0)
        below.set_xlabel("asked for so far, % of all cards")
        for axes in (above, below):
            axes.set_xlim(left=0)
            axes.grid(alpha=0.3)
        if curves:
            above.legend(loc="lower right")
        is_svg = path.suffix.lower() == ".svg"
        figure.savefig(path, metadata={"Date": None} if is_svg else None)


def _line(axes: Any, runs: Sequence[Points], *, colour: str, name: str) -> None:
    """The mean of the runs at the loads of the first, and the band that they fill."""
    import numpy as np  # noqa: PLC0415 - comes with matplotlib

    if not runs or not runs[0]:
        axes.plot([], [], color=colour, label=name)
        return
    loads = [x for x, _ in runs[0]]
    rows = np.array(
        [np.interp(loads, [x for x, _ in run], [y for _, y in run]) for run in runs if run]
    )
    axes.plot(loads, rows.mean(axis=0), color=colour, label=name)
    if len(rows) > 1:
        axes.fill_between(
            loads, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.2, linewidth=0
        )
