"""argv → settings → exit code. What a subcommand needs is imported when it is called.

Exit codes: 0 as asked, 1 something failed, 2 bad input; `simulate --once` adds 3, some pods do not
run, and 130, it was interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hamid import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from hamid.codec.cluster_copy import ClusterCopy
    from hamid.sched.explainer import Explainer
    from hamid.sched.settings import SchedSettings
    from hamid.sim.snapshot import Snapshot

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


@main.command(short_help="Show all settings and what they mean.")
def settings() -> None:
    """Show all settings, their defaults and what they mean, as Markdown."""
    from hamid.daemon.settings_table import settings_page  # noqa: PLC0415 - see the module

    click.echo(settings_page(), nl=False)


@main.command(short_help="Run a cluster in this process: no GPU, no Kubernetes.")
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


def _of_a_copy(command: Callable[..., None]) -> Callable[..., None]:
    """Options of what can work on a copy of a cluster."""
    for option in reversed(
        (
            click.option(
                "--snapshot",
                type=_FILE,
                help="A copy of a cluster: what kubectl get nodes,pods,resourcequotas "
                "--all-namespaces -o json printed; - reads standard input.",
            ),
            click.option("--live", is_flag=True, help="A cluster as it is now; it is only listed."),
            click.option("--kubeconfig", type=_FILE, help="How to reach it; default: as kubectl."),
            click.option("--config", type=_FILE, help="The daemon's settings, as YAML."),
        )
    ):
        command = option(command)
    return command


def _copy_of(
    *, snapshot: Path | None, live: bool, kubeconfig: Path | None, config: Path | None
) -> tuple[ClusterCopy, SchedSettings] | None:
    """The copy that the options name, and the cluster's settings; None where they name none."""
    from hamid.daemon import offline  # noqa: PLC0415 - see the module
    from hamid.errors import SettingsError  # noqa: PLC0415

    if snapshot is None and not live and kubeconfig is None:
        return None
    if snapshot is not None and (live or kubeconfig is not None):
        raise SettingsError("--snapshot and a live cluster are both given", hint="give one of them")
    settings = offline.settings_of(config, kubeconfig)
    copy = offline.live_copy(settings) if snapshot is None else offline.read_copy(snapshot)
    return copy, settings.sched


@main.command(short_help="Replay a trace or a cluster's pods under a policy.")
@click.option("--nodes", type=_FILE, help="Nodes: openb's CSV, or JSON lines of our own.")
@click.option("--tasks", type=_FILE, help="Tasks: openb's CSV, or JSON lines of our own.")
@_of_a_copy
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
    policies: tuple[str, ...],
    load_percent: float | None,
    seeds: int,
    json_path: Path | None,
    plot_path: Path | None,
    **copy_options: Any,
) -> None:
    """Replay a trace or a cluster's pods, and see how much of the cards a policy brings into use."""
    from rich.console import Console  # noqa: PLC0415 - see the module

    from hamid.errors import HamidError  # noqa: PLC0415
    from hamid.sim import command  # noqa: PLC0415
    from hamid.sim.plot import assert_drawable  # noqa: PLC0415

    try:
        for path in (json_path, plot_path):
            command.assert_writable(path)
        if plot_path is not None:
            assert_drawable(plot_path)
        plan = command.plan(
            nodes=nodes,
            tasks=tasks,
            snapshot=_snapshot(copy_options),
            policies=policies,
            load_percent=load_percent,
            seed_count=seeds,
        )
    except HamidError as error:
        sys.exit(_complain(error))
    outcomes = command.run(plan)
    # Into a file or a pipe, no line is cut.
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(command.table(outcomes))
    try:
        command.write(plan, outcomes, json_path=json_path, plot_path=plot_path)
    except HamidError as error:
        sys.exit(_complain(error))


def _snapshot(copy_options: dict[str, Any]) -> Snapshot | None:
    """Nodes and pods of the copy that the options name."""
    from hamid.sim.snapshot import read_snapshot  # noqa: PLC0415 - see the module

    found = _copy_of(**copy_options)
    if found is None:
        return None
    copy, settings = found
    snapshot = read_snapshot(copy, names=settings.resources, defaults=settings.defaults)
    if snapshot.unreadable_count:
        click.echo(
            f"hamid: pods that cannot be read, and do not come: {snapshot.unreadable_count}",
            err=True,
        )
    return snapshot


_SERVER = click.option(
    "--server",
    default="http://127.0.0.1:31992",
    show_default=True,
    help="Where the replica that leads shows its status.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the whole answer, as JSON.")


@main.command(short_help="Why a pod waits, or is where it is.")
@click.argument("pod", metavar="NAMESPACE/POD")
@_SERVER
@_of_a_copy
@_JSON
def explain(pod: str, server: str, *, as_json: bool, **copy_options: Any) -> None:
    """Why a pod waits and what would make it fit, or why it is where it is."""
    from hamid.daemon.ask import ask, explain_lines  # noqa: PLC0415 - see the module

    namespace, slash, name = pod.partition("/")
    if not (slash and namespace and name):
        raise click.BadParameter("write NAMESPACE/POD, such as default/train-1")
    _answer(
        copy_options,
        asked=lambda: ask(server, ("explain", namespace, name), lines=explain_lines),
        worked_out=lambda explainer: explainer.explain(namespace, name),
        lines=None if as_json else explain_lines,
    )


@main.command()
@click.option("--gpu", help="Cards.")
@click.option("--gpumem", help="MiB of each card.")
@click.option("--gpumem-percentage", help="Percent of each card's memory.")
@click.option("--gpucores", help="Percent of each card's cores.")
@click.option("--cpu", help="Processors of the node, such as 4 or 500m.")
@click.option("--memory", help="Main memory of the node, such as 16Gi.")
@click.option("--namespace", help="Where the pods would be: its quotas count.")
@click.option("--annotation", multiple=True, help="KEY=VALUE of the pod; several times.")
@click.option("--without-node", multiple=True, help="As if this node were drained; several times.")
@click.option("--without-card", multiple=True, help="As if the card of this UUID were lost.")
@click.option(
    "--with-node",
    multiple=True,
    help="As if there were one more node: like the one of this name, or "
    "cards=8,model=A100,cardmem=80Gi,cpu=96,memory=1Ti; several times.",
)
@_SERVER
@_of_a_copy
@_JSON
def fit(server: str, *, as_json: bool, **given: Any) -> None:
    """How many more pods of a shape fit, and where; changes nothing."""
    from hamid.daemon.ask import ask, fit_lines  # noqa: PLC0415 - see the module
    from hamid.daemon.explain_pages import fit_of_query  # noqa: PLC0415

    copy_options = {name: given.pop(name) for name in ("snapshot", "live", "kubeconfig", "config")}
    query = [
        (word.replace("_", "-"), value)
        for word, values in given.items()
        for value in (values if isinstance(values, tuple) else (values,))
        if value is not None
    ]
    _answer(
        copy_options,
        asked=lambda: ask(server, ("fit",), lines=fit_lines, query=query),
        worked_out=lambda explainer: fit_of_query(explainer, query),
        lines=None if as_json else fit_lines,
    )


def _answer(
    copy_options: dict[str, Any],
    *,
    asked: Callable[[], Any],
    worked_out: Callable[[Explainer], Awaitable[Any]],
    lines: Callable[[Any], Iterable[str]] | None,
) -> None:
    """Ask the leader, or work it out on a copy, and print the answer: in words, or as JSON."""
    import json  # noqa: PLC0415 - see the module

    from hamid.errors import HamidError  # noqa: PLC0415

    try:
        answer = _worked_out(copy_options, worked_out)
        if answer is None:
            answer = asked()
    except HamidError as error:
        sys.exit(_complain(error))
    click.echo(json.dumps(answer, indent=2) if lines is None else "\n".join(lines(answer)))


def _worked_out(
    copy_options: dict[str, Any], act: Callable[[Explainer], Awaitable[Any]]
) -> Any | None:
    """The answer on the copy that the options name; None where they name none."""
    if not any(copy_options[name] for name in ("snapshot", "live", "kubeconfig")):
        return None  # the leader is asked: nothing of the daemon has to be loaded
    from hamid.daemon import offline  # noqa: PLC0415 - see the module

    found = _copy_of(**copy_options)
    return None if found is None else offline.answered(act(offline.explainer_of(*found)))


def _complain(error: BaseException) -> int:
    """Say what is wrong and what to do; anything that is not ours to word is raised."""
    from hamid.errors import (  # noqa: PLC0415 - see the module
        HamidError,
        RequestError,
        SettingsError,
        TraceError,
    )

    causes: list[Any] = [error]
    while any(isinstance(cause, BaseExceptionGroup) for cause in causes):
        causes = [
            leaf
            for cause in causes
            for leaf in (cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,))
        ]
    if all(isinstance(cause, BrokenPipeError) for cause in causes):
        raise causes[0]  # nobody reads on, as with `| head`: click ends in silence
    if not all(isinstance(cause, HamidError) for cause in causes):
        raise error
    for cause in causes:
        click.echo(f"hamid: {cause.message}\n  → {cause.hint}", err=True)
    is_input = all(isinstance(c, SettingsError | TraceError | RequestError) for c in causes)
    return 2 if is_input else 1
