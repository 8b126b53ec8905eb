"""NVIDIA's headers and runtimes of several CUDA versions: what the audit fetches, once, into native/build."""

import fcntl
import sys
from pathlib import Path

import pytest

from tests.native.container import NATIVE

sys.path.insert(0, str(NATIVE / "tools"))
import audit

VERSIONS = [
    line.split()[0]
    for line in (NATIVE / "audit/headers.lock").read_text().splitlines()
    if not line.startswith("#")
]


def fetched() -> dict[str, Path]:
    """By version, where its headers and its runtime are."""
    directory = NATIVE / "build/cuda"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return audit.fetch(NATIVE)
        except SystemExit as fault:
            pytest.skip(f"no headers of CUDA to be had: {fault}")
