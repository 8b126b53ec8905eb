"""The scheduler's extender protocol: what kube-scheduler sends, and what it reads.

Source of the shapes: `kubernetes/kube-scheduler:extender/v1/types.go`. The types have no JSON
tags, so keys are Go's field names; as Go does, we read keys in any case. An error is an answer
like any other: HTTP 200 with `Error` set.

Of the pod only its identity is read: whatever else the body says of it, our own watch knows
better.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from hamid.codec.jsontext import (
    ShapeError,
    as_int,
    as_list,
    as_object,
    as_text,
    dumps,
    loads_object,
)
from hamid.errors import ExtenderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hamid.codec.jsontext import JsonObject

_Args = TypeVar("_Args")

_HINT: Final = "only kube-scheduler should call this; see its extender configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterArgs:
    """Which pod is to be placed on which nodes; prioritize sends the same.

    Attributes:
        node_names: None unless the extender is configured with `nodeCacheCapable: true`: then
            whole Node objects were sent instead.
    """

    pod_uid: str
    namespace: str
    pod_name: str
    node_names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterResult:
    """The nodes that fit, and why the others do not.

    Attributes:
        failed: node → reason; kube-scheduler looks for pods to evict there.
        failed_unresolvable: node → reason; it does not.
        error: when not empty, the answer is this error and nothing else.
    """

    node_names: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    failed_unresolvable: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingArgs:
    """Which pod is to be bound to which node."""

    pod_uid: str
    namespace: str
    pod_name: str
    node_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVictims:
    """Whom kube-scheduler would evict from a node, and how many of them against a budget."""

    pod_uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptArgs:
    """For which pod room is to be made, and the nodes on which kube-scheduler's rules allow it.

    Attributes:
        victims: None unless the extender is configured with `nodeCacheCapable: true`.
    """

    pod_uid: str
    namespace: str
    pod_name: str
    victims: Mapping[str, NodeVictims] | None


def decode_filter_args(body: bytes) -> FilterArgs:
    """The arguments of filter or prioritize."""

    def read() -> FilterArgs:
        args = _folded(loads_object(body))
        names = args.get("nodenames")
        return FilterArgs(
            **_identity(args),
            node_names=None if names is None else _node_names(names),
        )

    return _read("filter", read)


def decode_binding_args(body: bytes) -> BindingArgs:
    """The arguments of bind."""

    def read() -> BindingArgs:
        args = _folded(loads_object(body))
        return BindingArgs(
            pod_uid=as_text(args.get("poduid"), what="PodUID"),
            namespace=as_text(args.get("podnamespace"), what="PodNamespace"),
            pod_name=as_text(args.get("podname"), what="PodName"),
            node_name=as_text(args.get("node"), what="Node"),
        )

    return _read("bind", read)


def decode_preempt_args(body: bytes) -> PreemptArgs:
    """The arguments of preempt."""

    def read() -> PreemptArgs:
        args = _folded(loads_object(body))
        nodes = args.get("nodenametometavictims")
        return PreemptArgs(
            **_identity(args),
            victims=None
            if nodes is None
            else {
                name: _victims(entry)
                for name, entry in as_object(nodes, what="NodeNameToMetaVictims").items()
            },
        )

    return _read("preempt", read)


def encode_preempt_result(victims: Mapping[str, NodeVictims]) -> bytes:
    """The answer to preempt: nodes that are not there are none to evict from."""
    return dumps(
        {
            "NodeNameToMetaVictims": {
                name: {
                    "Pods": [{"UID": uid} for uid in found.pod_uids],
                    "NumPDBViolations": found.violations,
                }
                for name, found in victims.items()
            }
        }
    )


def encode_filter_result(result: FilterResult) -> bytes:
    """The answer to filter."""
    answer = dumps(
        {
            "Nodes": None,
            "NodeNames": list(result.node_names),
            "FailedNodes": dict(result.failed),
            "FailedAndUnresolvableNodes": dict(result.failed_unresolvable),
            "Error": result.error,
        }
    )
    return _worded(answer)


def encode_priorities(scores: Mapping[str, int]) -> bytes:
    """The answer to prioritize: node → score, higher is better."""
    text = dumps(scores)
    # A thousand small objects cost more to make than to write. Names of nodes have no character
    # that JSON escapes; should one have any, it is not rewritten.
    if text.count(b'":') != len(scores) or text.count(b',"') != max(len(scores) - 1, 0):
        return dumps([{"Host": name, "Score": score} for name, score in scores.items()])
    if not scores:
        return b"[]"
    # A zero byte holds the place of what the second replacement would find, too.
    entries = text.replace(b'":', b"\0").replace(b',"', b'},{"Host":"')
    return b"".join((b'[{"Host":', entries[1:].replace(b"\0", b'","Score":'), b"]"))


def encode_binding_result(error: str) -> bytes:
    """The answer to bind; an empty error means bound."""
    return _worded(dumps({"Error": error}))


def _worded(answer: bytes) -> bytes:
    """The answer with its percent signs in words.

    kube-scheduler takes what it tells of us for a format: its event would say `30 %!,(MISSING)`.
    """
    return answer.replace(b" %", b" percent").replace(b"%", b" percent")


def _read(verb: str, read: Callable[[], _Args]) -> _Args:
    try:
        return read()
    except ShapeError as error:
        raise ExtenderError(f"the {verb} call cannot be read: {error}", hint=_HINT) from error


def _identity(args: JsonObject) -> dict[str, str]:
    """Who the pod of the call is."""
    pod = _folded(as_object(args.get("pod"), what="Pod"))
    meta = _folded(as_object(pod.get("metadata"), what="Pod.metadata"))
    return {
        "pod_uid": as_text(meta.get("uid"), what="Pod.metadata.uid"),
        "namespace": as_text(meta.get("namespace"), what="Pod.metadata.namespace"),
        "pod_name": as_text(meta.get("name"), what="Pod.metadata.name"),
    }


def _victims(value: object) -> NodeVictims:
    entry = _folded(as_object(value, what="an entry of NodeNameToMetaVictims"))
    pods = as_list(entry.get("pods") or [], what="Pods of NodeNameToMetaVictims")
    violations = as_int(entry.get("numpdbviolations") or 0, what="NumPDBViolations")
    return NodeVictims(
        pod_uids=tuple(
            as_text(_folded(as_object(pod, what="a pod of Pods")).get("uid"), what="its UID")
            for pod in pods
        ),
        violations=violations,
    )


def _folded(value: JsonObject) -> JsonObject:
    return {key.lower(): entry for key, entry in value.items()}


def _node_names(value: object) -> tuple[str, ...]:
    names = as_list(value, what="NodeNames")
    if set(map(type, names)) <= {str}:
        return tuple(names)
    return tuple(as_text(name, what="a name in NodeNames") for name in names)
