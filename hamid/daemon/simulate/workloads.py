"""The pods that deployments, jobs and their like stand for.

Pods of a stateful set are numbered; the others' names look random, as they do in a cluster, but
come from the workload's name and the pod's number, so that two runs are alike. Not imitated:
replica sets between a deployment and its pods, rolling updates, retries, volumes of stateful sets,
jobs that complete.
"""

from __future__ import annotations

import copy
import zlib
from typing import TYPE_CHECKING, Final

from hamid.daemon.simulate.manifests import DEFAULT_NAMESPACE
from hamid.errors import SettingsError
from hamid.kube.fake.api import NAME_SUFFIX_CHARS
from hamid.kube.port import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject

WORKLOADS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS)
WORKLOAD_KINDS: Final = frozenset(resource.kind for resource in WORKLOADS)
MAX_PODS: Final = 10_000
_BASE_LENGTH: Final = 58
"""Controllers cut what is before the suffix to this, and so stay within a label's 63 letters."""
_SUFFIX_LENGTH: Final = 5
_SUFFIX_COUNT: Final = len(NAME_SUFFIX_CHARS) ** _SUFFIX_LENGTH
_STRIDE: Final = 5_318_011
"""Has no factor in common with the count, so that no suffix comes twice."""


def workload_pods(workload: JsonObject) -> list[JsonObject]:
    """The pods that the workload's controller would create, in the order of their numbers."""
    template = (workload.get("spec") or {}).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise SettingsError(
            f"{_called(workload)} has no spec.template.spec", hint="give it a pod template"
        )
    return [_pod(workload, template, number) for number in range(pod_count(workload))]


def workload_name(workload: JsonObject) -> str:
    """Its name, or the beginning of the name that the API server will give it."""
    metadata = workload["metadata"]
    return str(metadata.get("name") or metadata["generateName"])


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
    is_numbered = workload["kind"] == STATEFUL_SETS.kind
    suffix = str(number) if is_numbered else _suffix(workload, number)
    # What gets a name by its prefix has none yet: its pods are made to be looked at.
    name = workload_name(workload)
    metadata["name"] = f"{name}-{suffix}" if is_numbered else f"{name}-"[:_BASE_LENGTH] + suffix
    metadata["namespace"] = owner.get("namespace") or DEFAULT_NAMESPACE
    metadata["ownerReferences"] = [
        {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "name": name,
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


def _suffix(workload: JsonObject, number: int) -> str:
    """Five letters, different for each number; a workload of another kind has others."""
    metadata = workload["metadata"]
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    start = zlib.crc32(f"{workload['kind']}/{namespace}/{workload_name(workload)}".encode())
    place = (start + number * _STRIDE) % _SUFFIX_COUNT
    letters = []
    for _ in range(_SUFFIX_LENGTH):
        place, at = divmod(place, len(NAME_SUFFIX_CHARS))
        letters.append(NAME_SUFFIX_CHARS[at])
    return "".join(letters)


def _called(workload: JsonObject) -> str:
    return f"{workload['kind']} {workload_name(workload)!r}"
