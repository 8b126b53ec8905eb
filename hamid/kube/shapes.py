"""Of what kind the fields of objects are, as far as anybody in this house reads them.

The real API server decodes what it is sent into its types, and answers 400 where that cannot be
done; so nobody behind it ever meets a text in place of a list. A shape is a type for a leaf, a
dict for an object with known fields, a list of one shape for a list, `MapOf` for an object with
any keys. Other fields may be anything, and a null field is one that is not given. Amounts are not
looked at: what is a good quantity, `rules` and the webhook say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hamid.kube.errors import Invalid
from hamid.kube.port import NODES, PODS, RESOURCE_QUOTAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.kube.port import JsonObject, Resource


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any keys and such values."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A value of the wrong kind: where it is, and what should be there."""

    place: str
    found: object
    expected: str


class BadRequest(Invalid):
    """The body is not what its kind says."""

    code = 400
    reason = "BadRequest"


_SHOWN_CHARS: Final = 120
_WORDS: Final = {
    str: "a text; put it in quotes",
    int: "a whole number",
    bool: "true or false",
}

_AMOUNTS: Final = MapOf(object)
_RESOURCES: Final = {"limits": _AMOUNTS, "requests": _AMOUNTS}
_TEXTS: Final = MapOf(str)

_METADATA: Final = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "finalizers": [str],
    "ownerReferences": [{"uid": str, "name": str, "kind": str, "controller": bool}],
}
_EXPRESSIONS: Final = [{"key": str, "operator": str, "values": [str]}]
_NODE_TERMS: Final = [{"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}]
_POD_TERM: Final = {"namespaces": [str], "namespaceSelector": {}, "labelSelector": {}}
_POD_AFFINITY: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": _POD_TERM}],
}
_CONTAINERS: Final = [
    {
        "name": str,
        "image": str,
        "restartPolicy": str,
        "resources": _RESOURCES,
        "securityContext": {"privileged": bool},
        "env": [{"name": str, "value": str, "valueFrom": {}}],
    }
]
_POD_SPEC: Final = {
    "initContainers": _CONTAINERS,
    "containers": _CONTAINERS,
    "ephemeralContainers": _CONTAINERS,
    "resources": _RESOURCES,
    "overhead": _AMOUNTS,
    "nodeName": str,
    "schedulerName": str,
    "runtimeClassName": str,
    "priorityClassName": str,
    "priority": int,
    "preemptionPolicy": str,
    "restartPolicy": str,
    "hostPID": bool,
    "activeDeadlineSeconds": int,
    "terminationGracePeriodSeconds": int,
    "schedulingGates": [{"name": str}],
    "nodeSelector": _TEXTS,
    "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": _NODE_TERMS}
        },
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    },
}
_CONDITIONS: Final = [{"type": str, "status": str, "reason": str, "message": str}]
_STATUSES: Final = [
    {"name": str, "state": {"waiting": {}, "running": {}, "terminated": {}}, "ready": bool}
]
_POD: Final = {"metadata": _METADATA, "spec": _POD_SPEC}
_SHAPES: Final[dict[str, Any]] = {
    PODS.kind: {
        **_POD,
        "status": {
            "phase": str,
            "conditions": _CONDITIONS,
            "initContainerStatuses": _STATUSES,
            "containerStatuses": _STATUSES,
            "nominatedNodeName": str,
        },
    },
    NODES.kind: {
        "spec": {"unschedulable": bool, "taints": [{"key": str, "value": str, "effect": str}]},
        "status": {"allocatable": _AMOUNTS, "capacity": _AMOUNTS, "conditions": _CONDITIONS},
    },
    RESOURCE_QUOTAS.kind: {
        "spec": {
            "hard": _AMOUNTS,
            "scopes": [str],
            "scopeSelector": {
                "matchExpressions": [{"scopeName": str, "operator": str, "values": [str]}]
            },
        }
    },
}
_WORKLOAD: Final = {
    "spec": {
        "replicas": int,
        "parallelism": int,
        "completions": int,
        "suspend": bool,
        "selector": {},
        "template": _POD,
    }
}
_WORKLOAD_GROUPS: Final = frozenset({"apps", "batch"})


def first_misfit(resource: Resource, item: JsonObject) -> Misfit | None:
    """The first value of the wrong kind in the object; None where all can be read."""
    is_workload = resource.group in _WORKLOAD_GROUPS
    shape = _WORKLOAD if is_workload else _SHAPES.get(resource.kind, {})
    return next(_misfits({"metadata": _METADATA, **shape}, item, ""), None)


def require_shape(resource: Resource, item: JsonObject) -> None:
    """Refuse what the real server could not decode."""
    misfit = first_misfit(resource, item)
    if misfit is not None:
        raise BadRequest(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a'
            f" {resource.kind}: {misfit.place} is {quoted(misfit.found)}, not {misfit.expected}"
        )


def quoted(found: object) -> str:
    """What was found, for a message: as much of it as is needed to find it again."""
    text = repr(found)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _misfits(shape: Any, value: Any, place: str) -> Iterator[Misfit]:
    if value is None:
        return
    match shape:
        case type():
            is_truth_for_number = shape is int and isinstance(value, bool)
            if not isinstance(value, shape) or is_truth_for_number:
                yield Misfit(place=place, found=value, expected=_expected(shape))
        case [entry_shape]:
            yield from _of_list(entry_shape, value, place)
        case _:
            yield from _of_object(shape, value, place)


def _inner_misfits(shape: Any, value: Any, place: str) -> Iterator[Misfit]:
    """The misfits of an entry, which cannot be left out by null, unless it may be anything."""
    if value is None and shape is not object:
        yield Misfit(place=place, found=None, expected=_expected(shape))
    yield from _misfits(shape, value, place)


def _expected(shape: Any) -> str:
    match shape:
        case type():
            return _WORDS[shape]
        case list():
            return "a list"
    return "an object"


def _of_list(entry_shape: Any, value: Any, place: str) -> Iterator[Misfit]:
    if not isinstance(value, list):
        yield Misfit(place=place, found=value, expected=_expected([]))
        return
    for index, entry in enumerate(value):
        yield from _inner_misfits(entry_shape, entry, f"{place}[{index}]")


def _of_object(shape: dict[str, Any] | MapOf, value: Any, place: str) -> Iterator[Misfit]:
    if not isinstance(value, dict):
        yield Misfit(place=place, found=value, expected=_expected({}))
    elif isinstance(shape, MapOf):
        for key, entry in value.items():
            yield from _inner_misfits(shape.value, entry, f"{place}[{key}]")
    else:
        for name in filter(shape.__contains__, value):
            inner = f"{place}.{name}" if place else name
            yield from _misfits(shape[name], value[name], inner)
