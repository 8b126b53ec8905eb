"""Makes the pods of deployments, jobs and their like, once, as their controllers would.

Names are numbered rather than random, so that two runs read alike. Not imitated: scaling,
rolling updates, retries, volumes claimed by stateful sets, owners' deletion.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from hamid.errors import SettingsError

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject

WORKLOAD_KINDS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
MAX_PODS: Final = 10_000


def workload_pods(workload: JsonObject) -> list[JsonObject]:
    """The pods that the workload's controller would create."""
    kind, metadata = workload["kind"], workload["metadata"]
    spec = workload.get("spec") or {}
    template = spec.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise SettingsError(
            f"{kind} {metadata.get('name')!r} has no spec.template.spec",
            hint="give it a pod template",
        )
    return [_pod(workload, template, number) for number in range(_pod_count(kind, metadata, spec))]


def _pod_count(kind: str, metadata: JsonObject, spec: JsonObject) -> int:
    field = "parallelism" if kind == "Job" else "replicas"
    count = spec.get(field, 1)
    if kind == "Job":
        count = min(count, spec.get("completions") or count)
    if not isinstance(count, int) or not 0 <= count <= MAX_PODS:
        raise SettingsError(
            f"{kind} {metadata.get('name')!r} has spec.{field} {count!r}, not 0 to {MAX_PODS}",
            hint="give a whole number",
        )
    return count


def _pod(workload: JsonObject, template: JsonObject, number: int) -> JsonObject:
    metadata = copy.deepcopy(template.get("metadata") or {})
    metadata["name"] = f"{workload['metadata']['name']}-{number}"
    metadata["namespace"] = workload["metadata"].get("namespace") or "default"
    metadata["ownerReferences"] = [
        {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "name": workload["metadata"]["name"],
            "uid": workload["metadata"].get("uid") or workload["metadata"]["name"],
            "controller": True,
        }
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": copy.deepcopy(template["spec"]),
    }
