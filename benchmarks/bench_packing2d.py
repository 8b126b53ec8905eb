"""`bench_packing` with memory asked apart from cores."""

from __future__ import annotations

from benchmarks.bench_packing import main

if __name__ == "__main__":
    main(has_two_dimensions=True)
