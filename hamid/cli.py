"""The command line: argv → settings → exit code.

Each command imports what it needs when it runs: `hamid --help` is instant, and the simulation does
not pay for the daemon's ports.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hamid import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hamid")
def main() -> None:
    """Share GPUs on Kubernetes."""


@main.command()
@click.option("--config", type=click.Path(path_type=Path), help="The settings file (YAML).")
@click.option("--node-name", help="This node; the environment's NODE_NAME otherwise.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="How to reach the API server, outside a cluster.",
)
def run(config: Path | None, node_name: str | None, kubeconfig: Path | None) -> None:
    """Run the daemon of this node."""
    from hamid.daemon import lifecycle  # noqa: PLC0415 - see the module
    from hamid.daemon.logs import configure_logs  # noqa: PLC0415
    from hamid.daemon.settings import load_settings  # noqa: PLC0415
    from hamid.errors import SettingsError  # noqa: PLC0415

    try:
        settings = load_settings(config, node_name=node_name, kubeconfig=kubeconfig)
    except SettingsError as error:
        print(f"hamid: {error}", file=sys.stderr)
        lifecycle.leave(lifecycle.MISCONFIGURED)
    configure_logs(settings.log.format, settings.log.level)
    lifecycle.leave(lifecycle.run(settings))
