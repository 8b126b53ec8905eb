"""Where all tests must run, as in CI, one that is left out for want of something fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MAY_BE_LEFT_OUT

TESTS = f"""
import pytest

@pytest.fixture(scope="module")
def cluster():
    pytest.skip("this machine runs no cluster: no root")

def test_inside():
    pytest.skip("busybox is not installed")

@pytest.mark.skipif(True, reason="kubectl is not installed")
def test_marked():
    pass

def test_of_a_fixture(cluster):
    pass

@pytest.mark.skip(reason="{MAY_BE_LEFT_OUT[0]}: it is large")
def test_that_is_asked_for():
    pass

@pytest.mark.xfail(reason="known", strict=True)
def test_known_to_fail():
    raise AssertionError
"""


def outcomes(folder: Path, **environment: str) -> dict[str, int]:
    """How many of the tests above ended in which way."""
    (folder / "test_left_out.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "--rootdir", folder, folder],
        cwd=Path(__file__).parents[1],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    last = done.stdout.splitlines()[-1]
    found = {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z]+)", last)}
    assert done.returncode == (1 if "failed" in found else 0), done.stdout + done.stderr
    for warned in ("warning", "warnings"):  # of one Python or the other, not of a test
        found.pop(warned, None)
    return found


@pytest.mark.slow
def test_what_a_machine_lacks_is_left_out_where_nobody_minds(tmp_path: Path):
    found = outcomes(tmp_path)

    assert found == {"skipped": 4, "xfailed": 1}


@pytest.mark.slow
def test_it_fails_where_all_must_run_and_only_what_no_package_mends_is_left_out(tmp_path: Path):
    found = outcomes(tmp_path, HAMID_REQUIRE_ALL="1")

    # An error is what fails before the test itself: by a mark, in a fixture.
    assert found == {"failed": 1, "errors": 2, "skipped": 1, "xfailed": 1}
