"""`make run`: its output and its exit codes are promised, and make alone would change both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.simulate.manifests import container, pod, write

ROOT = Path(__file__).parents[2]


def a_persons_environment():
    """Ours, but for what a make that runs these tests has put there for makes below it."""
    environment = dict(os.environ)  # noqa: TID251 - handed on
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"):
        environment.pop(name, None)
    return environment


def run(*variables):
    return subprocess.run(
        ["make", "run", "ONCE=1", f"VENV={sys.prefix}", *variables],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=a_persons_environment(),
        timeout=100,
    )


def make_features():
    if shutil.which("make") is None or shutil.which("cc") is None:
        return ""
    probe = ["make", "-f", "-", "features"]
    text = "$(info $(.FEATURES))\nfeatures: ; @true\n"
    return subprocess.run(
        probe,
        input=text,
        capture_output=True,
        check=False,
        text=True,
        cwd=ROOT,
        env=a_persons_environment(),
    ).stdout


pytestmark = [
    pytest.mark.slow,
    pytest.mark.native,
    pytest.mark.skipif(
        "load" not in make_features().split(),
        reason="needs a C compiler, and a GNU make that loads functions",
    ),
]


@pytest.mark.parametrize(
    ("mem", "state", "code"),
    [
        pytest.param(3000, "running", 0, id="all run"),
        pytest.param(90_000, "pending", 3, id="one does not"),
    ],
)
def test_once_prints_lines_alone_and_passes_the_exit_code_on(tmp_path, mem, state, code):
    pods = write(tmp_path / "pods.yaml", pod("a", container(gpu=1, mem=mem)))

    done = run(f"PODS={pods}")

    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["state"] == state


def test_bad_input_is_2(tmp_path):
    done = run(f"PODS={tmp_path}/nothing.yaml")

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"cannot read" in done.stderr


def test_ctrl_c_ends_it_with_0(tmp_path):
    pods = write(tmp_path / "pods.yaml", pod("a", container(gpu=1, mem=3000)))
    process = subprocess.Popen(
        ["make", "run", f"PODS={pods}", f"VENV={sys.prefix}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**a_persons_environment(), "COLUMNS": "120"},
        start_new_session=True,
    )
    for line in process.stdout:
        if b"a 3000 MiB" in line:
            break

    os.killpg(process.pid, signal.SIGINT)  # a terminal tells all that it started
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors


def test_a_dry_run_runs_nothing(tmp_path):
    done = subprocess.run(
        ["make", "-n", "run", f"PODS={tmp_path}/nothing.yaml", f"VENV={sys.prefix}"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=a_persons_environment(),
        timeout=100,
    )

    assert done.returncode == 0
    assert b"hamid simulate" in done.stdout
