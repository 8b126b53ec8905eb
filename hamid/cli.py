"""argv → settings → exit code. What a subcommand needs is imported when it is called.

Exit codes: 0 as asked, 1 something failed, 2 bad input; `simulate --once` adds 3: some pods do not
run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hamid import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FILE = click.Path(path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hamid")
def main() -> None:
    """Share GPUs on Kubernetes so that limits hold."""


@main.command()
@click.option("--config", type=_FILE, help="Settings, as YAML.")
@click.option("--node-name", help="This node's name; default: the environment's NODE_NAME.")
@click.option("--kubeconfig", type=_FILE, help="How to reach the API server, outside a pod.")
def run(config: Path | None, node_name: str | None, kubeconfig: Path | None) -> None:
    """Run the daemon of one node."""
    from hamid.daemon.lifecycle import leave, report  # noqa: PLC0415 - see the module
    from hamid.daemon.lifecycle import run as run_daemon  # noqa: PLC0415
    from hamid.daemon.logs import LogFormat, LogLevel, configure_logs  # noqa: PLC0415
    from hamid.daemon.settings import load_settings  # noqa: PLC0415
    from hamid.errors import SettingsError  # noqa: PLC0415

    configure_logs(LogFormat.AUTO, LogLevel.INFO)
    try:
        settings = load_settings(config, node_name=node_name, kubeconfig=kubeconfig)
    except SettingsError as error:
        sys.exit(report(error))
    configure_logs(settings.log.format, settings.log.level)
    leave(run_daemon(settings))


@main.command()
def settings() -> None:
    """Show all settings, their defaults and what they mean, as Markdown."""
    from hamid.daemon.settings_table import settings_page  # noqa: PLC0415 - see the module

    click.echo(settings_page(), nl=False)


@main.command()
@click.option(
    "--pods",
    type=_FILE,
    multiple=True,
    required=True,
    help="Manifests to apply, as YAML; may be given several times.",
)
@click.option("--nodes", type=_FILE, help="Simulated nodes, as YAML; default: four of mixed cards.")
@click.option("--once", is_flag=True, help="Print one JSON line a pod, and end.")
@click.option("--library", type=_FILE, help="The hook library; default: native/build/libhamid.so.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="The least important log lines shown on stderr.",
)
def simulate(
    pods: tuple[Path, ...], nodes: Path | None, library: Path | None, *, once: bool, log_level: str
) -> None:
    """Run a cluster in this process, and watch pods get their slices: no GPU, no Kubernetes."""
    from hamid.daemon.logs import LogFormat, LogLevel, configure_logs  # noqa: PLC0415 - see the module
    from hamid.daemon.simulate import command  # noqa: PLC0415
    from hamid.errors import HamidError  # noqa: PLC0415

    configure_logs(LogFormat.AUTO, LogLevel(log_level))
    try:
        simulation = command.prepare(pods, nodes=nodes, library=library)
        code = (
            command.run_once(simulation)
            if once
            else command.run_live(simulation, log_level=LogLevel(log_level))
        )
    except (HamidError, BaseExceptionGroup) as error:
        code = _complain(error)
    sys.exit(code)


@main.command()
@click.option("--nodes", type=_FILE, help="Nodes: openb's CSV, or JSON lines of our own.")
@click.option("--tasks", type=_FILE, help="Tasks: openb's CSV, or JSON lines of our own.")
@click.option(
    "--snapshot", type=_FILE, help="A cluster: kubectl get nodes,pods --all-namespaces -o json."
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    default=("fragmentation",),
    show_default=True,
    help="NODE or NODE/DEVICE, each a chain such as binpack,numa; may be given several times.",
)
@click.option(
    "--load",
    "load_percent",
    type=click.FloatRange(min=1),
    help="Let tasks arrive at random until they ask for that much of all cards; none ends.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--json", "json_path", type=_FILE, help="Write figures and curves there.")
@click.option(
    "--plot", "plot_path", type=_FILE, help="Draw the curves there; NAME.png or NAME.svg."
)
def sim(
    *,
    nodes: Path | None,
    tasks: Path | None,
    snapshot: Path | None,
    policies: tuple[str, ...],
    load_percent: float | None,
    seeds: int,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """Replay a trace or a cluster's pods, and see how much of the cards a policy brings into use."""
    import json  # noqa: PLC0415 - see the module

    from rich.console import Console  # noqa: PLC0415

    from hamid.errors import HamidError  # noqa: PLC0415
    from hamid.sim import command  # noqa: PLC0415
    from hamid.sim.plot import assert_drawable  # noqa: PLC0415

    try:
        if plot_path is not None:
            assert_drawable(plot_path)
        plan = command.plan(
            nodes=nodes,
            tasks=tasks,
            snapshot=snapshot,
            policies=policies,
            load_percent=load_percent,
            seed_count=seeds,
        )
    except HamidError as error:
        sys.exit(_complain(error))
    outcomes = command.run(plan)
    Console().print(command.table(outcomes))
    if json_path is not None:
        json_path.write_text(json.dumps(command.report(plan, outcomes), indent=1) + "\n")
    if plot_path is not None:
        command.plot(outcomes, plot_path)


_SERVER = click.option(
    "--server",
    default="http://127.0.0.1:31992",
    show_default=True,
    help="Where the replica that leads shows its status.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the whole answer, as JSON.")


@main.command()
@click.argument("pod", metavar="NAMESPACE/POD")
@_SERVER
@_JSON
def explain(pod: str, server: str, *, as_json: bool) -> None:
    """Why a pod waits and what would make it fit, or why it is where it is."""
    from hamid.daemon.ask import explain_lines  # noqa: PLC0415 - see the module

    namespace, slash, name = pod.partition("/")
    if not (slash and namespace and name):
        raise click.BadParameter("write NAMESPACE/POD, such as default/train-1")
    _answer(server, ("explain", namespace, name), (), explain_lines, as_json=as_json)


@main.command()
@click.option("--gpu", help="Cards.")
@click.option("--gpumem", help="MiB of each card.")
@click.option("--gpumem-percentage", help="Percent of each card's memory.")
@click.option("--gpucores", help="Percent of each card's cores.")
@click.option("--cpu", help="Processors of the node, such as 4 or 500m.")
@click.option("--memory", help="Main memory of the node, such as 16Gi.")
@click.option("--annotation", multiple=True, help="KEY=VALUE of the pod; several times.")
@click.option("--without-node", multiple=True, help="As if this node were drained; several times.")
@click.option("--without-card", multiple=True, help="As if the card of this UUID were lost.")
@_SERVER
@_JSON
def fit(server: str, *, as_json: bool, **shape: str | tuple[str, ...] | None) -> None:
    """How many more pods of a shape fit, and where; changes nothing."""
    from hamid.daemon.ask import fit_lines  # noqa: PLC0415 - see the module

    query = [
        (word.replace("_", "-"), value)
        for word, given in shape.items()
        for value in (given if isinstance(given, tuple) else (given,))
        if value is not None
    ]
    _answer(server, ("fit",), query, fit_lines, as_json=as_json)


def _answer(
    server: str,
    path: tuple[str, ...],
    query: Iterable[tuple[str, str]],
    lines: Callable[[Any], Iterable[str]],
    *,
    as_json: bool,
) -> None:
    """Ask the leader, and print what it says."""
    import json  # noqa: PLC0415 - see the module

    from hamid.daemon.ask import ask  # noqa: PLC0415
    from hamid.errors import HamidError  # noqa: PLC0415

    try:
        answer = ask(server, path, query)
    except HamidError as error:
        sys.exit(_complain(error))
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(lines(answer)))


def _complain(error: BaseException) -> int:
    """Say what is wrong and what to do; anything that is not ours to word is raised."""
    from hamid.errors import HamidError, SettingsError, TraceError  # noqa: PLC0415 - see the module

    causes: list[Any] = [error]
    while any(isinstance(cause, BaseExceptionGroup) for cause in causes):
        causes = [
            leaf
            for cause in causes
            for leaf in (cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,))
        ]
    if not all(isinstance(cause, HamidError) for cause in causes):
        raise error
    for cause in causes:
        click.echo(f"hamid: {cause.message}\n  → {cause.hint}", err=True)
    return 2 if all(isinstance(cause, SettingsError | TraceError) for cause in causes) else 1
