from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from hamid import __version__
from hamid.cli import main


@pytest.fixture
def hamid():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(main, arguments)


def test_the_version_is_that_of_the_package(hamid):
    assert __version__ in hamid("--version").output


def test_help_names_the_subcommands(hamid):
    output = hamid("--help").output

    assert "run" in output
    assert "simulate" in output
    assert "explain" in output
    assert "fit" in output
    assert "..." not in output.partition("Commands:")[2]  # no line is cut


def test_settings_are_shown_with_default_and_meaning(hamid):
    output = hamid("settings").output

    assert "| `plugin.device_split_count` | `10` |" in output


def test_a_simulation_needs_manifests(hamid):
    result = hamid("simulate", "--once")

    assert result.exit_code == 2
    assert "--pods" in result.output


def test_a_manifest_that_is_not_there_is_bad_input(hamid, tmp_path):
    result = hamid("simulate", "--once", "--pods", str(tmp_path / "nothing.yaml"))

    assert result.exit_code == 2
    assert "cannot read" in result.output
    assert "→ give the path of a YAML file" in result.output


def test_the_command_line_imports_nothing_heavy_before_it_knows_what_to_do():
    heavy = ("aiohttp", "kubernetes_asyncio", "grpclib", "cryptography", "rich", "yaml", "asyncio")
    code = f"import sys, hamid.cli; print([m for m in {heavy!r} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stdout.strip() == "[]"
