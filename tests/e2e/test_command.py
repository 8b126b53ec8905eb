"""`hamid simulate` as a person runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.daemon.simulate.manifests import container, pod, write

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SLICE = pod("slice", container(gpu=1, mem=3000, cores=30))
LARGE = pod("large", container(gpu=1, mem=90_000))


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libhamid.so"
    path.write_bytes(b"\x7fELF and nothing more")
    return path


@pytest.fixture
def temporary(tmp_path):
    """Where the process puts its temporary files."""
    directory = Path("/tmp") / f"hamid-test-{os.getpid()}"  # short, for unix sockets
    directory.mkdir()
    yield directory
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


@pytest.fixture
def simulate(library, temporary):
    def run(*arguments):
        return subprocess.run(
            [*command(library), *map(str, arguments)],
            capture_output=True,
            check=False,
            cwd=ROOT,
            env={"PATH": os.defpath, "TMPDIR": str(temporary)},
            timeout=60,
        )

    return run


def command(library):
    return [sys.executable, "-m", "hamid", "simulate", "--library", str(library)]


def test_once_prints_a_line_a_pod_and_nothing_else(simulate, tmp_path):
    done = simulate("--once", "--pods", write(tmp_path / "pods.yaml", SLICE))

    line = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert set(line) == {"pod", "state", "node", "containers", "reason"}
    assert (line["pod"], line["state"], line["reason"]) == ("default/slice", "running", None)
    (given,) = line["containers"]["main"]
    assert set(given) == {"uuid", "model", "memory_mib", "core_percent"}
    assert (given["memory_mib"], given["core_percent"]) == (3000, 30)
    assert done.stderr == b""


def test_once_ends_with_3_if_a_pod_does_not_run(simulate, tmp_path):
    one = write(tmp_path / "one.yaml", SLICE)
    other = write(tmp_path / "other.yaml", LARGE)

    done = simulate("--once", "--pods", one, "--pods", other)

    states = [json.loads(line)["state"] for line in done.stdout.splitlines()]
    assert (done.returncode, states) == (3, ["running", "pending"])


def test_nodes_of_ones_own(simulate, tmp_path):
    nodes = write(tmp_path / "nodes.yaml", [{"name": "mine", "cards": [{"model": "H200"}]}])

    done = simulate("--once", "--pods", write(tmp_path / "pods.yaml", LARGE), "--nodes", nodes)

    line = json.loads(done.stdout)
    assert (line["node"], line["containers"]["main"][0]["model"]) == ("mine", "NVIDIA H200")


@pytest.mark.parametrize("flag", ["--pods", "--nodes"])
def test_bad_input_ends_with_2_and_says_what_to_do(simulate, tmp_path, flag):
    good = write(tmp_path / "good.yaml", SLICE)
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [")

    done = simulate("--once", "--pods", good, flag, bad)

    assert done.returncode == 2
    assert done.stdout == b""
    message, hint = done.stderr.decode().splitlines()
    assert f"{bad} is not YAML" in message
    assert hint.strip().startswith("→")


def test_nothing_is_left_in_the_temporary_directory(simulate, temporary, tmp_path):
    simulate("--once", "--pods", write(tmp_path / "pods.yaml", SLICE))

    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("flags", [(), ("--once",)])
def test_it_ends_in_silence_where_nobody_reads(library, temporary, tmp_path, flags):
    process = subprocess.Popen(
        [*command(library), *flags, "--pods", write(tmp_path / "pods.yaml", SLICE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={"PATH": os.defpath, "TMPDIR": str(temporary)},
    )
    process.stdout.close()

    assert (process.stderr.read(), process.wait(timeout=60)) == (b"", 1)
    assert list(temporary.iterdir()) == []


def test_it_stays_until_interrupted_and_leaves_with_0(library, temporary, tmp_path):
    pods = write(tmp_path / "pods.yaml", SLICE)
    process = subprocess.Popen(
        [*command(library), "--pods", str(pods)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={"PATH": os.defpath, "TMPDIR": str(temporary), "COLUMNS": "120"},
    )
    shown = []
    for line in process.stdout:
        shown.append(line.decode())
        if "slice 3000 MiB 30 %" in shown[-1]:
            break
    told = re.findall(r"(metrics|debug) (http\S+)", "".join(shown))
    pages = {name: urlopen(url, timeout=10).read() for name, url in told}
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)

    assert process.returncode == 0, errors
    assert any("kubectl --kubeconfig" in line for line in shown)
    assert b"hamid_device_memory_bytes" in pages["metrics"]
    assert b"allocations" in pages["debug"]
    assert list(temporary.iterdir()) == []
