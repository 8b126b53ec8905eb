"""How benchmarks speak: JSON lines on stdout, one a case, and words on stderr.

A figure is the only thing that ever goes to stdout, so that `make -s bench-NAME | jq` works.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hamid.daemon.logs import LogFormat, LogLevel, configure_logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MS_PER_S = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What is said of many samples of one figure."""

    median: float
    p99: float
    n: int


def stats(samples: Sequence[float]) -> Stats:
    """Median and 99th percentile, the latter as the smallest sample that 99 % do not exceed.

    Example:
        of 300 samples p99 is the 297th smallest; of fewer than 100 it is the largest
    """
    ordered = sorted(samples)
    rank = -(-99 * len(ordered) // 100)
    return Stats(median=statistics.median(ordered), p99=ordered[rank - 1], n=len(ordered))


def emit(
    bench: str,
    case: str,
    *,
    unit: str,
    value: float | None = None,
    samples: Sequence[float] | None = None,
    least: float | None = None,
) -> None:
    """Print one figure; with samples and without a value, the value is their median.

    `least`, where given, is printed as `min`: the smallest of what `value` is the mean of.
    """
    line: dict[str, str | float] = {"bench": bench, "case": case, "unit": unit}
    if samples is not None:
        found = stats(samples)
        line["value"] = rounded(found.median if value is None else value)
        line |= {"median": rounded(found.median), "p99": rounded(found.p99), "n": found.n}
    elif value is not None:
        line["value"] = rounded(value)
    else:
        raise ValueError(f"case {case!r} has neither a value nor samples")
    if least is not None:
        line["min"] = rounded(least)
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def asked(doc: str | None) -> bool:
    """Read the command line, the same of all benchmarks; returns whether the smallest is wanted.

    Logs go to stderr, from warnings on.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--smallest", action="store_true", help="only see whether it still runs")
    configure_logs(LogFormat.AUTO, LogLevel.WARNING)
    return bool(parser.parse_args().smallest)


def say(words: str) -> None:
    """Tell a person what goes on."""
    print(words, file=sys.stderr, flush=True)


def rounded(value: float) -> float:
    """The value with as many digits as anybody compares: four, or all of a whole number."""
    return float(f"{value:.4g}") if abs(value) < 10_000 else float(round(value))


@dataclass(slots=True, kw_only=True)
class Stopwatch:
    """Collects how long blocks took, in milliseconds, by name."""

    taken_ms: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Time the block; one that fails counts for nothing."""
        begun = time.perf_counter()
        yield
        self.taken_ms.setdefault(name, []).append((time.perf_counter() - begun) * MS_PER_S)

    def take(self, name: str) -> list[float]:
        """The samples of that name, which begin anew."""
        return self.taken_ms.pop(name, [])
