"""What a Binding makes of a pod: node, annotations and condition in one change, or a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.kube.errors import Conflict, Invalid
from hamid.kube.fake.rules import precondition_failed
from hamid.kube.port import ServerVersion

if TYPE_CHECKING:
    from hamid.kube.fake.values import Target
    from hamid.kube.port import JsonObject

LABELS_SINCE: Final = ServerVersion(major=1, minor=35)
"""As a beta feature, which an administrator may switch off."""


def bound(
    pod: JsonObject, binding: JsonObject, *, target: Target, now: str, version: ServerVersion
) -> JsonObject:
    """The pod as the Binding leaves it; raises `Conflict` where the real server does."""
    metadata, given = pod["metadata"], binding.get("metadata") or {}
    destination = binding.get("target") or {}
    if not destination.get("name") or destination.get("kind", "Node") != "Node":
        raise Invalid("target.name: Required value, and target.kind must be empty or Node")
    has_version_check = version >= ServerVersion(major=1, minor=23)
    checks = (
        ("uid", version.has_binding_uid_check),
        ("resourceVersion", has_version_check),
    )
    for name in (name for name, is_checked in checks if is_checked):
        wanted = given.get(name)
        if wanted and wanted != metadata[name]:
            raise precondition_failed(target, name, wanted, metadata)
    if "deletionTimestamp" in metadata:
        raise _refusal(target, f"pod {target.name} is being deleted, cannot be assigned to a host")
    if node_name := pod["spec"].get("nodeName"):
        said = f'pod {target.name} is already assigned to node "{node_name}"'
        raise _refusal(target, said)
    if pod["spec"].get("schedulingGates"):
        raise _refusal(target, f"pod {target.name} has non-empty .spec.schedulingGates")
    merged = {
        key: {**(metadata.get(key) or {}), **(given.get(key) or {})}
        for key in ("annotations", *(("labels",) if version >= LABELS_SINCE else ()))
    }
    status = pod.get("status") or {}
    others = [entry for entry in status.get("conditions") or () if entry["type"] != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    return {
        **pod,
        "metadata": metadata | {key: values for key, values in merged.items() if values},
        "spec": {**pod["spec"], "nodeName": destination["name"]},
        "status": {**status, "conditions": [*others, scheduled]},
    }


def _refusal(target: Target, said: str) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on pods/binding "{target.name}": {said}')
