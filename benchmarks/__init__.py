"""Benchmarks: each prints one JSON line a case; see README.md."""
