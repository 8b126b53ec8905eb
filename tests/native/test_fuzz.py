"""The library's readers against bytes of chance: control, live and usage page, surroundings.

CI runs a fixed number of inputs, seconds of them; HAMID_LONG=1 a hundred times as many.
"""

import os
import shutil
import subprocess
import sys

import pytest

from native.tests.fuzz import seeds
from tests.native.container import NATIVE, build

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(3600)]

IS_LONG = os.environ.get("HAMID_LONG") == "1"  # noqa: TID251 - whoever runs the tests says so
RUNS = 2_000_000 if IS_LONG else 20_000
A_TARGET = "int LLVMFuzzerTestOneInput(const char *b, long n) { return b && n < 0; }"


def fuzz(target: str) -> None:
    build(target, f"FUZZ_RUNS={RUNS}", f"PYTHON={sys.executable}", timeout_s=3000)


def test_no_change_of_a_seed_breaks_a_reader():
    fuzz("fuzz")


def test_nothing_that_libfuzzer_thinks_of_breaks_a_reader():
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("clang is not installed")
    words = [clang, "-fsanitize=fuzzer", "-x", "c", "-", "-o", "/dev/null"]
    probe = subprocess.run(words, input=A_TARGET, text=True, check=False, capture_output=True)
    if probe.returncode != 0:
        pytest.skip("clang is installed without libFuzzer (Debian: libclang-rt-dev)")

    fuzz("fuzz-clang")


def test_every_target_has_seeds():
    targets = {path.stem.removeprefix("fuzz_") for path in NATIVE.glob("tests/fuzz/fuzz_*.c")}

    assert set(seeds.SEEDS) == targets
    assert all(len(of_target()) > 3 for of_target in seeds.SEEDS.values())
