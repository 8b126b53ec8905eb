"""What `up/build.sh` does on a machine that runs no nodes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cluster.harness import CANNOT, UP

if TYPE_CHECKING:
    from pathlib import Path

GO = """#!/bin/sh
case $1 in
env) echo go1.999.0 ;;
list) echo v1.2.3 ;;
build)
    while [ "$1" != -o ]; do shift; done
    echo built > "$2"
    ;;
esac
"""
PROGRAMS = {"go": GO, "id": "#!/bin/sh\necho 1000\n", "uname": "#!/bin/sh\necho $SYSTEM\n"}


@pytest.fixture
def build(tmp_path: Path):
    """Runs it without root, and with a Go that builds nothing."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def run(*arguments: str, system: str = "Linux") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(UP / "build.sh"), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": f"{programs}:{os.defpath}",
                "HAMID_CLUSTER_CACHE": str(tmp_path / "cache"),
                "SYSTEM": system,
            },
        )

    return run


def test_without_root_there_is_helm_and_it_is_said_why_there_is_no_more(build, tmp_path):
    done = build()

    assert done.returncode == CANNOT
    assert done.stderr.splitlines()[-1] == "build.sh: cannot run a cluster here: a node needs root"
    assert [path.name for path in (tmp_path / "cache/bin").iterdir()] == ["helm"]


@pytest.mark.parametrize("arguments", [(), ("helm",), ("check",)])
def test_off_linux_there_is_nothing_and_it_is_said(build, tmp_path, arguments):
    done = build(*arguments, system="Darwin")

    assert done.returncode == CANNOT
    assert "Darwin is not Linux" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_whether_all_is_there_is_not_asked_where_it_cannot_run(build, tmp_path):
    done = build("check")

    assert done.returncode == CANNOT
    assert not (tmp_path / "cache").exists()
