"""Settings: a YAML file, the environment of the pod, and flags, made into one frozen value.

The only reader of the environment. Later sources win: defaults, file, environment, flags. How a
document is read, and what is an error in it, stands in `structure`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from hamid.daemon.logs import LogFormat, LogLevel
from hamid.daemon.structure import structure
from hamid.daemon.yaml_text import load_yaml
from hamid.errors import SettingsError, require_above_zero
from hamid.kube.settings import KubeSettings, PodAddress
from hamid.model.sharing import SharingMode
from hamid.plugin.settings import PluginSettings
from hamid.sched.admission_settings import AdmissionSettings
from hamid.sched.certificate_settings import CertificateSettings
from hamid.sched.leader_settings import EndpointSettings, LeaseSettings
from hamid.sched.settings import SchedSettings
from hamid.web.server import is_loopback
from hamid.web.settings import WebSettings

LAST_PORT: Final = 65_535


class Switch(StrEnum):
    """Whether a role runs here; not `on` and `off`, which YAML reads as booleans."""

    AUTO = "auto"
    """If this node can: for the device plugin, if its driver answers."""
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSettings:
    """Which roles this replica plays.

    Attributes:
        plugin: the device plugin; `auto` runs it where a driver lists cards.
        scheduler: webhook, extender, and a share in electing the leader.
    """

    plugin: Switch = Switch.AUTO
    scheduler: Switch = Switch.ALWAYS

    def __post_init__(self) -> None:
        if self.plugin is self.scheduler is Switch.NEVER:
            raise SettingsError(
                "plugin and scheduler are both never", hint="let one of them run, or run no daemon"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How to log.

    Attributes:
        format: `auto` is for people on a terminal, JSON elsewhere.
        level: the least important lines that are shown.
    """

    format: LogFormat = LogFormat.AUTO
    level: LogLevel = LogLevel.INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlSettings:
    """Where the driver is.

    Attributes:
        library: the path of libnvidia-ml.so.1, or None for the loader's own search.
        host_root: where the host's /sys, /proc and /dev are seen.
    """

    library: Path | None = None
    host_root: Path = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """The library that containers preload.

    Attributes:
        library: libhamid.so as shipped with the daemon; copied to where containers mount it.
        usage_interval_s: how often the containers' reports are read.
        sharing_mode: of containers whose pods do not say: `hard` keeps them to their core limits,
            `lend` gives what is idle to who is busy, `priority` puts high priority first.
        low_priority_floor_percent: what containers of lower priority keep of a card while higher
            ones are busy; 0 lets them be stopped.
        lending_interval_s: how often it is decided who may use what is idle; what is lent is back
            with its owner about three of these later.
        trust_mps: the node runs NVIDIA MPS, its control daemon outside of the containers that use
            it. Then the library does not cap a container that MPS holds to a share of threads
            within its core limit.
        count_observed_memory: what the driver says that a container's processes hold beyond what
            they are charged (contexts, code, and whatever got around the library) counts against
            the limit, a few seconds late. Needs the host's processes in sight (hostPID).
    """

    library: Path = Path("/opt/hamid/libhamid.so")
    usage_interval_s: float = 5.0
    sharing_mode: SharingMode = SharingMode.HARD
    low_priority_floor_percent: int = 5
    lending_interval_s: float = 0.02
    trust_mps: bool = False
    count_observed_memory: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.low_priority_floor_percent <= 50:  # noqa: PLR2004 - the message says it
            raise SettingsError(
                f"low_priority_floor_percent is {self.low_priority_floor_percent}, not 0 to 50",
                hint="5 is usual; 0 lets containers of low priority be stopped",
            )
        if not 0.005 <= self.lending_interval_s <= 0.1:  # noqa: PLR2004 - the message says it
            raise SettingsError(
                f"lending_interval_s is {self.lending_interval_s:g}, not 0.005 to 0.1",
                hint="0.02 is usual; beyond 0.1 the libraries go by the core limits alone",
            )
        require_above_zero(self, "usage_interval_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressSettings:
    """Where the daemon listens.

    Attributes:
        status_host: for /metrics, /healthz, /readyz and /debug; the chart opens it to the
            cluster, for probes and monitoring.
        status_port, webhook_port, extender_port: 0 lets the system choose.
        debug_is_open: answer /debug, /explain and /fit to callers from elsewhere than this
            machine, too.
        webhook_host: for the API server; always TLS. `0.0.0.0` is all addresses, also those of IPv6.
        extender_host: for kube-scheduler; mutual TLS, or plain HTTP on loopback.
        extender_is_plain: plain HTTP; refused for an address that is not loopback.
    """

    status_host: str = "127.0.0.1"
    status_port: int = 31992
    debug_is_open: bool = False
    webhook_host: str = "0.0.0.0"
    webhook_port: int = 9444
    extender_host: str = "0.0.0.0"
    extender_port: int = 9443
    extender_is_plain: bool = False

    def __post_init__(self) -> None:
        for name in ("status_port", "webhook_port", "extender_port"):
            port = getattr(self, name)
            if port > LAST_PORT:
                raise SettingsError(
                    f"{name} is {port}, not 0 to {LAST_PORT}", hint="leave it out for the default"
                )
        if self.extender_is_plain and not is_loopback(self.extender_host):
            raise SettingsError(
                f"extender_is_plain is true, but extender_host is {self.extender_host}: anybody who "
                "reaches it could bind pods",
                hint="set extender_host to 127.0.0.1, or leave extender_is_plain out for mutual TLS",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderNodes:
    """Which nodes' replicas may lead: those with this label, or all if it is empty.

    Attributes:
        label: one that a node cannot give itself. A replica whose node gets it takes part from then on; one
            whose node loses it does so until it starts anew, or until it ends where it leads.
        value: of the label.
    """

    label: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this replica is, from the environment that the chart sets.

    Attributes:
        node_name: `NODE_NAME`; has to be given.
        namespace: `POD_NAMESPACE`; where Lease, Secrets and EndpointSlice are.
        pod_name: `POD_NAME`.
        pod_ip: `POD_IP`; where kube-scheduler reaches the extender of this replica.
    """

    node_name: str = ""
    namespace: str = "hamid"
    pod_name: str = ""
    pod_ip: str = "127.0.0.1"

    def __post_init__(self) -> None:
        try:
            ip_address(self.pod_ip)
        except ValueError as error:
            raise SettingsError(
                f"pod_ip is {self.pod_ip!r}, not an IP address",
                hint="the chart has the kubelet put it into POD_IP; leave it out elsewhere",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set.

    Attributes:
        hami_metrics: also export the figures that HAMi's dashboards show, under HAMi's names.
        hami_legacy_metrics: also export them under the names that HAMi had before `hami_…`.
    """

    identity: Identity = field(default_factory=Identity)
    leader_nodes: LeaderNodes = field(default_factory=LeaderNodes)
    roles: RoleSettings = field(default_factory=RoleSettings)
    log: LogSettings = field(default_factory=LogSettings)
    kube: KubeSettings = field(default_factory=KubeSettings)
    nvml: NvmlSettings = field(default_factory=NvmlSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    plugin: PluginSettings = field(default_factory=PluginSettings)
    sched: SchedSettings = field(default_factory=SchedSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    certificates: CertificateSettings = field(default_factory=CertificateSettings)
    web: WebSettings = field(default_factory=WebSettings)
    addresses: AddressSettings = field(default_factory=AddressSettings)
    hami_metrics: bool = False
    hami_legacy_metrics: bool = False

    def __post_init__(self) -> None:
        if not self.identity.node_name:
            raise SettingsError(
                "the node's name is not known",
                hint="set the environment variable NODE_NAME, as the chart does, or --node-name",
            )
        if self.certificates.server_lifetime_s < 10 * self.lease.slow_poll_s:
            raise SettingsError(
                f"certificates.server_lifetime_s is {self.certificates.server_lifetime_s:g}, less than "
                f"ten times lease.slow_poll_s, {self.lease.slow_poll_s:g}",
                hint="replicas learn of a new certificate by the lease: let them look in time",
            )


def load_settings(
    path: Path | None, *, node_name: str | None = None, kubeconfig: Path | None = None
) -> Settings:
    """The settings from the file, the environment, and these flags."""
    document = _read(path) if path is not None else {}
    given = document.get("identity") or {}
    if isinstance(given, dict):  # else `structure` says what is wrong with it
        document["identity"] = given | _environment_identity()
        if node_name is not None:
            document["identity"]["node_name"] = node_name
    settings = _in_own_namespace(
        document, structure(document, Settings, where=str(path or "the settings"))
    )
    return replace(settings, kube=_kube(settings.kube, kubeconfig))


def _in_own_namespace(document: dict[str, Any], settings: Settings) -> Settings:
    """Objects of ours are in our pod's namespace, unless the file says otherwise."""
    changed = {
        name: replace(getattr(settings, name), namespace=settings.identity.namespace)
        for name in ("lease", "endpoint", "certificates")
        if "namespace" not in (document.get(name) or {})
    }
    return replace(settings, **changed)


def _read(path: Path) -> dict[str, Any]:
    documents = load_yaml(path)
    if len(documents) > 1 or not all(isinstance(document, dict) for document in documents):
        raise SettingsError(f"{path} is not an object", hint="begin it with names such as `sched:`")
    return documents[0] if documents else {}


def _environment_identity() -> dict[str, str]:
    names = {
        "node_name": "NODE_NAME",
        "namespace": "POD_NAMESPACE",
        "pod_name": "POD_NAME",
        "pod_ip": "POD_IP",
    }
    found = {key: os.environ.get(name, "") for key, name in names.items()}  # noqa: TID251 - here
    return {key: value for key, value in found.items() if value}


def _kube(kube: KubeSettings, kubeconfig: Path | None) -> KubeSettings:
    environ = os.environ  # noqa: TID251 - the only reader
    if kubeconfig is not None:
        return replace(kube, kubeconfig=kubeconfig, in_pod=None, server=None)
    if kube.kubeconfig or kube.in_pod or kube.server:
        return kube
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if host and port:
        return replace(kube, in_pod=PodAddress(host=host, port=_port(port)))
    if environ.get("KUBECONFIG"):
        return replace(kube, kubeconfig=Path(environ["KUBECONFIG"]))
    return kube


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= LAST_PORT:
        return int(text)
    raise SettingsError(
        f"KUBERNETES_SERVICE_PORT is {text!r}, not a port",
        hint="the kubelet sets it; do not set it in the pod",
    )
