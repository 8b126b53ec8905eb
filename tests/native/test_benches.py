"""The benchmarks of native/ start with `make -s -C native bench-…`, or say what they need."""

import shutil
import subprocess
import sys

import pytest

from tests.native.container import NATIVE

pytestmark = pytest.mark.native

MISSING = 3
ROOT = NATIVE.parent
VENV_PYTHON = ROOT / ".venv/bin/python"


def command_of(target: str) -> str:
    """What make would run, by whichever Python it takes of itself."""
    make = [shutil.which("make"), "-n", "--no-print-directory", "-C", str(NATIVE), target]
    done = subprocess.run(
        make, env={"PATH": "/usr/bin:/bin"}, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("bench", ["alloc", "cap", "kill", "launch", "memory", "start", "tenants"])
def test_a_benchmark_takes_the_python_that_setup_has_made(bench):
    python = NATIVE / ".." / ".venv/bin/python" if VENV_PYTHON.exists() else "python3"

    assert command_of(f"bench-{bench}") == (
        f"cd .. && {python} -m native.tests.bench.start bench_{bench}"
    )


def test_a_benchmark_whose_python_lacks_a_module_says_so_in_one_line():
    without_packages = [sys.executable, "-S", "-m", "native.tests.bench.start", "bench_tenants"]
    done = subprocess.run(without_packages, cwd=ROOT, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (MISSING, "")
    assert done.stderr.startswith("bench_tenants: ")
    assert "has no module " in done.stderr
    assert "make setup" in done.stderr
    assert done.stderr.count("\n") == 1
