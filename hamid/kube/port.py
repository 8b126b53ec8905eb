"""What roles may ask of the Kubernetes API, and the plain values of the asking.

Objects are JSON as the server gives it (`JsonObject`): no model classes, no copies of fields.
Errors are those of `hamid.kube.errors`, and nothing else escapes an implementation.

Invariants:

1. Objects that come back belong to the caller: changing one changes nothing elsewhere.
2. `list` returns everything, however many pages it took, as of one resourceVersion.
3. `watch` ends, without error, when the server closes it in order; the caller resumes at the
   last resourceVersion it saw. It raises `Gone` when that is too old, and `Unavailable` when the
   stream was cut or fell silent.
4. `bind` is one call, and all or nothing. Servers that do not compare the uid themselves
   (`ServerVersion.has_binding_uid_check`) cost a second call, a read before; between the two a pod
   of the same name may still take the other's place.
5. What a guarded port writes is sent only if its guard says so once nothing is left to wait for: no
   connection, no credentials, no repetition of a call that the server was too busy for. What was
   sent may still arrive late.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

JsonObject: TypeAlias = dict[str, Any]
PatchBody: TypeAlias = JsonObject | list[JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind of object as the API addresses it; the core group is the empty string."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the group and version, which discovery answers."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def label(self) -> str:
        """The name for logs and metrics: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        *,
        subresource: str | None = None,
    ) -> str:
        """The URL path of a collection, an object, or an object's subresource.

        Without a namespace, the collection of a namespaced resource is that of all namespaces.
        """
        parts = [self.root]
        if self.is_namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


def _core(plural: str, kind: str, *, is_namespaced: bool = True) -> Resource:
    return Resource(group="", version="v1", plural=plural, kind=kind, is_namespaced=is_namespaced)


def _grouped(
    group: str, plural: str, kind: str, *, version: str = "v1", is_namespaced: bool = True
) -> Resource:
    return Resource(
        group=group, version=version, plural=plural, kind=kind, is_namespaced=is_namespaced
    )


_ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"

PODS: Final = _core("pods", "Pod")
NODES: Final = _core("nodes", "Node", is_namespaced=False)
NAMESPACES: Final = _core("namespaces", "Namespace", is_namespaced=False)
EVENTS: Final = _core("events", "Event")
SERVICES: Final = _core("services", "Service")
ENDPOINTS: Final = _core("endpoints", "Endpoints")
RESOURCE_QUOTAS: Final = _core("resourcequotas", "ResourceQuota")
SECRETS: Final = _core("secrets", "Secret")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
LEASES: Final = _grouped("coordination.k8s.io", "leases", "Lease")
ENDPOINT_SLICES: Final = _grouped("discovery.k8s.io", "endpointslices", "EndpointSlice")
MUTATING_WEBHOOKS: Final = _grouped(
    _ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", is_namespaced=False
)
VALIDATING_WEBHOOKS: Final = _grouped(
    _ADMISSION,
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    is_namespaced=False,
)
VALIDATING_POLICIES: Final = _grouped(
    _ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", is_namespaced=False
)
VALIDATING_POLICY_BINDINGS: Final = _grouped(
    _ADMISSION,
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    is_namespaced=False,
)
DEPLOYMENTS: Final = _grouped("apps", "deployments", "Deployment")
REPLICA_SETS: Final = _grouped("apps", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = _grouped("apps", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = _grouped("apps", "daemonsets", "DaemonSet")
JOBS: Final = _grouped("batch", "jobs", "Job")
CRON_JOBS: Final = _grouped("batch", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS: Final = _grouped("policy", "poddisruptionbudgets", "PodDisruptionBudget")
ROLES: Final = _grouped(_RBAC, "roles", "Role")
ROLE_BINDINGS: Final = _grouped(_RBAC, "rolebindings", "RoleBinding")
CLUSTER_ROLES: Final = _grouped(_RBAC, "clusterroles", "ClusterRole", is_namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _grouped(
    _RBAC, "clusterrolebindings", "ClusterRoleBinding", is_namespaced=False
)


_UID_CHECK_BACK_IN_1_25: Final = 9
_UID_CHECK_BACK_IN_1_26: Final = 4


class EventKind(StrEnum):
    """What a watch event says; the server's errors become exceptions instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class PatchKind(StrEnum):
    """How a patch is to be read; the values are its content types."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectList:
    """All objects of a list, as of one resourceVersion."""

    items: tuple[JsonObject, ...]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One line of a watch; a bookmark's object has a resourceVersion and little else."""

    kind: EventKind
    object: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServerVersion:
    """The API server's version, such as 1.37; the patch is 0 where nobody cares."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def has_binding_uid_check(self) -> bool:
        """Whether the server compares a Binding's uid with the pod's.

        It does since 1.23 (kubernetes/kubernetes#105913), but 1.25 and 1.26 had lost it until
        1.25.9 and 1.26.4 (#116550).
        """
        if (self.major, self.minor) == (1, 25):
            return self.patch >= _UID_CHECK_BACK_IN_1_25
        if (self.major, self.minor) == (1, 26):
            return self.patch >= _UID_CHECK_BACK_IN_1_26
        return self >= ServerVersion(major=1, minor=23)


class KubePort(Protocol):
    """The API server, as far as roles use it."""

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None
    ) -> JsonObject:
        """One object."""
        ...

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        not_older_than: str | None = None,
    ) -> ObjectList:
        """All objects that match; from every namespace unless one is named.

        `not_older_than` lets the server answer from its cache as long as that is at least of the
        resourceVersion given; "0" accepts any. Without it the answer is the newest there is,
        which older servers read from etcd: a thousand replicas must not ask that of them.
        """
        ...

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_s: float = 300.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """What happens after the resourceVersion, until the server ends it after `timeout_s`."""
        ...

    async def create(
        self, resource: Resource, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        """Create the object; returns it as stored. The namespace may stand in its metadata."""
        ...

    async def replace(
        self, resource: Resource, body: JsonObject, *, subresource: str | None = None
    ) -> JsonObject:
        """Replace the object; its metadata.resourceVersion, if given, must be the current one."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: PatchBody,
        *,
        kind: PatchKind,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> JsonObject:
        """Change the object; a metadata.resourceVersion in a merge patch is a precondition."""
        ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_period_s: int | None = None,
    ) -> None:
        """Delete the object, or begin to; with a uid, only if it is still that one."""
        ...

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node_name: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Give the pod its node and merge annotations and labels into it, in one transaction.

        Servers before 1.35 do not take labels from a binding, and leave them out.
        Raises `Conflict`, having changed nothing, if the pod of this name has another uid,
        already has a node, or is being deleted.
        """
        ...

    async def evict(
        self, *, namespace: str, name: str, uid: str | None = None, is_dry_run: bool = False
    ) -> None:
        """Ask for the pod to be deleted; `TooManyRequests` if a disruption budget forbids it.

        A dry run changes nothing, and raises what the eviction would: budgets and webhooks have
        been asked. One eviction is not seen by the dry run of the next.
        """
        ...

    def within(self, deadline_s: float) -> KubePort:
        """The same server, but a request not answered within so long is `Unavailable`."""
        ...

    def guarded(self, may_write: Callable[[], bool]) -> KubePort:
        """The same server, to which nothing is written unless this is true: else `Withheld`."""
        ...

    async def version(self) -> ServerVersion:
        """The server's version."""
        ...

    async def serves(self, resource: Resource) -> bool:
        """Whether the server has this resource in this version."""
        ...
