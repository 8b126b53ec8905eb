"""Which resources the fake serves, and since which version of Kubernetes.

A table, read by discovery, by the OpenAPI stub, and by the lookup of a URL's resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.kube import port
from hamid.kube.errors import NotFound
from hamid.kube.port import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hamid.kube.port import ServerVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedResource:
    """A resource and what discovery says of it.

    Attributes:
        since: the minor version of Kubernetes 1 that has it first.
        until: the last one that has it.
        has_status: whether there is a status subresource, so that the main one leaves it alone.
        subresources: further ones: name and kind.
    """

    resource: Resource
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    since: int = 0
    until: int = 999
    has_status: bool = False
    subresources: tuple[tuple[str, str], ...] = ()


def _served(resource: Resource, *short_names: str, **more: object) -> ServedResource:
    return ServedResource(resource=resource, short_names=short_names, **more)  # type: ignore[arg-type]  # the table below names fields


def _other(
    group: str, plural: str, kind: str, *, version: str = "v1", is_namespaced: bool = True
) -> Resource:
    return Resource(
        group=group, version=version, plural=plural, kind=kind, is_namespaced=is_namespaced
    )


_ALL: Final = ("all",)

SERVED: Final = (
    _served(
        port.PODS,
        "po",
        categories=_ALL,
        has_status=True,
        subresources=(("binding", "Binding"), ("eviction", "Eviction")),
    ),
    _served(port.NODES, "no", has_status=True),
    _served(port.NAMESPACES, "ns", has_status=True),
    _served(port.EVENTS, "ev"),
    _served(port.SERVICES, "svc", categories=_ALL, has_status=True),
    _served(port.ENDPOINTS, "ep"),
    _served(port.RESOURCE_QUOTAS, "quota", has_status=True),
    _served(_other("", "limitranges", "LimitRange"), "limits"),
    _served(port.SECRETS),
    _served(port.SERVICE_ACCOUNTS, "sa"),
    _served(port.CONFIG_MAPS, "cm"),
    _served(_other("", "persistentvolumeclaims", "PersistentVolumeClaim"), "pvc", has_status=True),
    _served(
        _other("", "persistentvolumes", "PersistentVolume", is_namespaced=False),
        "pv",
        has_status=True,
    ),
    _served(_other("", "replicationcontrollers", "ReplicationController"), "rc", has_status=True),
    _served(port.LEASES, since=14),
    _served(port.ENDPOINT_SLICES, since=21),
    _served(port.MUTATING_WEBHOOKS, since=16),
    _served(port.VALIDATING_WEBHOOKS, since=16),
    _served(port.VALIDATING_POLICIES, since=30, has_status=True),
    _served(port.VALIDATING_POLICY_BINDINGS, since=30),
    _served(port.DEPLOYMENTS, "deploy", categories=_ALL, has_status=True),
    _served(port.REPLICA_SETS, "rs", categories=_ALL, has_status=True),
    _served(port.STATEFUL_SETS, "sts", categories=_ALL, has_status=True),
    _served(port.DAEMON_SETS, "ds", categories=_ALL, has_status=True),
    _served(port.JOBS, categories=_ALL, has_status=True),
    _served(port.CRON_JOBS, "cj", categories=_ALL, has_status=True, since=21),
    _served(port.POD_DISRUPTION_BUDGETS, "pdb", has_status=True, since=21),
    _served(port.ROLES),
    _served(port.ROLE_BINDINGS),
    _served(port.CLUSTER_ROLES),
    _served(port.CLUSTER_ROLE_BINDINGS),
    _served(
        _other("scheduling.k8s.io", "priorityclasses", "PriorityClass", is_namespaced=False), "pc"
    ),
    _served(_other("storage.k8s.io", "storageclasses", "StorageClass", is_namespaced=False), "sc"),
    _served(_other("node.k8s.io", "runtimeclasses", "RuntimeClass", is_namespaced=False)),
    _served(_other("networking.k8s.io", "networkpolicies", "NetworkPolicy"), "netpol"),
)


class Catalog:
    """The resources of one server: those of its version, but those it lacks, and those added."""

    def __init__(self, version: ServerVersion, *, lacks: frozenset[str] = frozenset()) -> None:
        self._served: dict[tuple[str, str, str], ServedResource] = {}
        self.add(
            served
            for served in SERVED
            if served.since <= version.minor <= served.until and served.resource.label not in lacks
        )

    def add(self, resources: Iterable[ServedResource]) -> None:
        """Serve these, too."""
        for served in resources:
            resource = served.resource
            self._served[resource.group, resource.version, resource.plural] = served

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(self._served.values())

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """The resource at these parts of a URL."""
        return self._served.get((group, version, plural))

    def of(self, resource: Resource) -> ServedResource:
        """What the server knows of a resource that a caller names."""
        served = self.find(resource.group, resource.version, resource.plural)
        if served is None:
            raise NotFound("the server could not find the requested resource")
        return served

    def group_versions(self) -> tuple[tuple[str, str], ...]:
        """All (group, version) pairs, the core group first."""
        pairs = {(group, version): None for group, version, _ in self._served}
        return tuple(pairs)

    def in_group(self, group: str, version: str) -> tuple[ServedResource, ...]:
        """The resources of one group and version."""
        return tuple(
            served for (g, v, _), served in self._served.items() if (g, v) == (group, version)
        )
