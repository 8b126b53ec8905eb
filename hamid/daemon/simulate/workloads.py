"""The pods that deployments, jobs and their like stand for.

Names are numbered rather than random, so that two runs read alike. Not imitated: replica sets
between a deployment and its pods, rolling updates, retries, volumes of stateful sets, jobs that
complete.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from hamid.daemon.simulate.manifests import DEFAULT_NAMESPACE
from hamid.errors import SettingsError
from hamid.kube.port import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject

WORKLOADS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS)
WORKLOAD_KINDS: Final = frozenset(resource.kind for resource in WORKLOADS)
MAX_PODS: Final = 10_000


def workload_pods(workload: JsonObject) -> list[JsonObject]:
    """The pods that the workload's controller would create, in the order of their numbers."""
    template = (workload.get("spec") or {}).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise SettingsError(
            f"{_called(workload)} has no spec.template.spec", hint="give it a pod template"
        )
    return [_pod(workload, template, number) for number in range(pod_count(workload))]


def pod_count(workload: JsonObject) -> int:
    """How many pods it stands for; 1 where it does not say."""
    kind, spec = workload["kind"], workload.get("spec") or {}
    if kind != JOBS.kind:
        return _count(workload, "replicas")
    if spec.get("suspend") is True:
        return 0
    parallelism = _count(workload, "parallelism")
    return min(parallelism, _count(workload, "completions", default=parallelism))


def _count(workload: JsonObject, field: str, *, default: int = 1) -> int:
    found = (workload.get("spec") or {}).get(field)
    count = default if found is None else found
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_PODS:
        raise SettingsError(
            f"{_called(workload)} has spec.{field} {count!r}, expected a whole number from 0 to "
            f"{MAX_PODS}",
            hint="mend the manifest",
        )
    return count


def _pod(workload: JsonObject, template: JsonObject, number: int) -> JsonObject:
    owner = workload["metadata"]
    metadata = copy.deepcopy(template.get("metadata") or {})
    metadata["name"] = f"{owner['name']}-{number}"
    metadata["namespace"] = owner.get("namespace") or DEFAULT_NAMESPACE
    metadata["ownerReferences"] = [
        {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "name": owner["name"],
            "uid": owner.get("uid", ""),
            "controller": True,
        }
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": copy.deepcopy(template["spec"]),
    }


def _called(workload: JsonObject) -> str:
    return f"{workload['kind']} {workload['metadata'].get('name')!r}"
