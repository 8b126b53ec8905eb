"""What is to be applied: found in the manifests, and checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hamid.codec.quota import decode_quota
from hamid.daemon.simulate.manifests import DEFAULT_NAMESPACE, load_manifests
from hamid.daemon.simulate.shapes import require_pod_shape, require_shape
from hamid.daemon.simulate.workloads import WORKLOAD_KINDS, workload_pods
from hamid.errors import SettingsError
from hamid.kube.errors import Invalid
from hamid.kube.fake.api import FIRST_NAMESPACES
from hamid.kube.fake.catalog import SERVED
from hamid.kube.fake.rules import check_name
from hamid.kube.port import NAMESPACES, NODES, PODS, RESOURCE_QUOTAS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hamid.daemon.simulate.manifests import Manifest
    from hamid.kube.port import JsonObject, Resource
    from hamid.model.names import ResourceNames

# Controllers that are not imitated: such objects are stored, but nothing comes of them.
_IDLE_KINDS: Final = frozenset({"DaemonSet", "CronJob", "ReplicationController"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object to create; its namespace, if it belongs in one, is filled in."""

    resource: Resource
    object: JsonObject

    @property
    def namespace(self) -> str | None:
        """Where it goes; None for what is in no namespace."""
        return self.object["metadata"].get("namespace") if self.resource.is_namespaced else None

    @property
    def makes_pods(self) -> bool:
        """Whether it is a pod, or something whose controller makes pods."""
        return self.resource == PODS or self.resource.kind in WORKLOAD_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to apply.

    Attributes:
        first: namespaces, then quotas and whatever else pods may rest on.
        pods: pods and what makes pods, in the order of the manifests.
        notes: what a person should know, a line each.
    """

    first: tuple[Item, ...] = ()
    pods: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()


def make_plan(paths: Sequence[Path], *, names: ResourceNames) -> Plan:
    """Read all files. Raises `SettingsError` for the first thing that cannot be applied."""
    planner = _Planner(names=names)
    for manifest in load_manifests(paths):
        planner.take(manifest)
    return planner.plan()


@dataclass(slots=True, kw_only=True)
class _Planner:
    names: ResourceNames
    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _seen: dict[tuple[str, str | None, str], Manifest] = field(default_factory=dict)

    def take(self, manifest: Manifest) -> None:
        """One object of a file."""
        resource = _resource(manifest)
        if resource is None:
            self.notes.append(f"{manifest.where} was skipped: its kind is not simulated")
            return
        item = Item(resource=resource, object=_placed(manifest.object, resource))
        if self._is_copy(manifest, item):
            return
        self._judge(manifest, item)
        self.items.append(item)

    def plan(self) -> Plan:
        """All that was taken."""
        there = {item.object["metadata"]["name"] for item in self.items if _is_namespace(item)}
        named = dict.fromkeys(item.namespace for item in self.items if item.namespace)
        missing = [name for name in named if name not in {*there, *FIRST_NAMESPACES}]
        self.notes += [f"namespace {name!r} is in no manifest; it was created" for name in missing]
        if not any(item.makes_pods for item in self.items):
            self.notes.append("no manifest makes a pod")
        namespaces = [item for item in self.items if _is_namespace(item)]
        return Plan(
            first=(
                *namespaces,
                *(_namespace(name) for name in missing),
                *(i for i in self.items if not i.makes_pods and not _is_namespace(i)),
            ),
            pods=tuple(item for item in self.items if item.makes_pods),
            notes=tuple(self.notes),
        )

    def _judge(self, manifest: Manifest, item: Item) -> None:
        ours, body = self.names.all(), item.object
        _require_names(manifest, item)
        if item.resource == NODES:
            raise SettingsError(
                f"{manifest.where}: nodes do not come from manifests",
                hint="describe it in the file of nodes (make run NODES=nodes.yaml)",
            )
        require_shape(manifest.where, item.resource, body)
        if item.resource == PODS:
            require_pod_shape(manifest.where, body, our_resources=ours)
        elif item.makes_pods:
            try:
                pods = workload_pods(body)
            except SettingsError as error:
                raise SettingsError(f"{manifest.path}: {error.message}", hint=error.hint) from error
            template = body["spec"]["template"]
            require_pod_shape(f"{manifest.where}: spec.template", template, our_resources=ours)
            for pod in pods if body["metadata"].get("name") else ():
                self._claim(manifest, PODS.kind, item.namespace, pod["metadata"]["name"])
        elif item.resource == RESOURCE_QUOTAS:
            meta = {**body["metadata"], "namespace": item.namespace}
            note = decode_quota({**body, "metadata": meta}, names=self.names)
            self.notes += [f"{manifest.where}: {remark}" for remark in note.remarks]
        elif item.resource.kind in _IDLE_KINDS:
            self.notes.append(f"{manifest.where} is stored, but its pods are not simulated")

    def _is_copy(self, manifest: Manifest, item: Item) -> bool:
        """Whether the same object was taken already; another one of its name is an error."""
        name = item.object["metadata"].get("name")
        if name is None:
            return False
        before = self._claim(manifest, item.resource.kind, item.namespace, name)
        return before is not None

    def _claim(
        self, manifest: Manifest, kind: str, namespace: str | None, name: str
    ) -> Manifest | None:
        before = self._seen.setdefault((kind, namespace, name), manifest)
        if before is manifest:
            return None
        if before.object == manifest.object:
            return before
        called = f"{namespace}/{name}" if namespace else name
        raise SettingsError(
            f"{kind} {called} is there twice: as {before.kind} {before.name!r} in {before.path} and "
            f"as {manifest.kind} {manifest.name!r} in {manifest.path}",
            hint="give each a name of its own (the pods of a workload are named after it, with "
            "a number)",
        )


def _resource(manifest: Manifest) -> Resource | None:
    """What the API server knows the object's kind as; None for kinds that it does not know."""
    same_kind = [s.resource for s in SERVED if s.resource.kind == manifest.kind]
    if not same_kind:
        return None
    api_version = manifest.object["apiVersion"]
    found = next((r for r in same_kind if r.api_version == api_version), None)
    if found is None:
        known = ", ".join(resource.api_version for resource in same_kind)
        raise SettingsError(
            f"{manifest.where} has apiVersion {api_version}, which is not served",
            hint=f"write apiVersion: {known}",
        )
    return found


def _require_names(manifest: Manifest, item: Item) -> None:
    metadata = item.object["metadata"]
    try:
        if metadata.get("name"):
            check_name(item.resource, metadata["name"])
        if item.namespace:
            check_name(NAMESPACES, item.namespace)
    except Invalid as error:
        raise SettingsError(
            f"{manifest.where}: {error.message}", hint="give it another name"
        ) from error


def _placed(body: JsonObject, resource: Resource) -> JsonObject:
    metadata = dict(body["metadata"])
    if resource.is_namespaced:
        metadata["namespace"] = metadata.get("namespace") or DEFAULT_NAMESPACE
    return {**body, "metadata": metadata}


def _namespace(name: str) -> Item:
    return Item(
        resource=NAMESPACES,
        object={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
    )


def _is_namespace(item: Item) -> bool:
    return item.resource == NAMESPACES
