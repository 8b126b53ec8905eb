"""Objects → the tables that kubectl prints: the columns of the real server, for what we look at.

Other kinds get NAME and AGE. Columns that kubectl shows only with `-o wide` have priority 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject

Cells = Callable[["JsonObject", float], list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The columns of a kind; a name that ends with * is shown in wide output only."""

    columns: tuple[str, ...]
    cells: Cells


def table(
    items: list[JsonObject],
    *,
    kind: str,
    version: int,
    now_s: float,
    has_whole_objects: bool = False,
) -> JsonObject:
    """The meta.k8s.io/v1 Table of these objects; `kubectl --sort-by` wants them whole."""
    layout = _LAYOUTS.get(kind, _PLAIN)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(version)},
        "columnDefinitions": [_definition(name) for name in layout.columns],
        "rows": [
            {
                "cells": layout.cells(item, now_s),
                "object": item if has_whole_objects else _partial(item),
            }
            for item in items
        ],
    }


def _partial(item: JsonObject) -> JsonObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": item["metadata"],
    }


def _definition(name: str) -> JsonObject:
    title = name.rstrip("*")
    return {
        "name": title,
        "type": "integer" if title in _NUMBERS else "string",
        "format": "name" if title == "Name" else "",
        "description": "",
        "priority": 1 if name.endswith("*") else 0,
    }


_S, _M, _H, _D = (1, "s"), (60, "m"), (3600, "h"), (86400, "d")
# Below how many seconds which unit is written, and which smaller one beside it.
_AGES: Final[tuple[tuple[float, tuple[int, str], tuple[int, str] | None], ...]] = (
    (120, _S, None),
    (600, _M, _S),
    (3 * 3600, _M, None),
    (8 * 3600, _H, _M),
    (48 * 3600, _H, None),
    (8 * 86400, _D, _H),
    (float("inf"), _D, None),
)


def age(stamp: str | None, now_s: float) -> str:
    """The time since the stamp as kubectl writes it: 5s, 3m20s, 4h10m, 2d3h, 20d."""
    if not stamp:
        return "<unknown>"
    seconds = max(0, int(now_s - datetime.fromisoformat(stamp).timestamp()))
    large, small = next((large, small) for below_s, large, small in _AGES if seconds < below_s)
    text = f"{seconds // large[0]}{large[1]}"
    rest = seconds % large[0] // small[0] if small else 0
    return text + (f"{rest}{small[1]}" if small and rest else "")


def _name(item: JsonObject) -> str:
    return str(item["metadata"]["name"])


def _age(item: JsonObject, now_s: float) -> str:
    return age(item["metadata"].get("creationTimestamp"), now_s)


def _pod(pod: JsonObject, now_s: float) -> list[Any]:
    spec, status = pod["spec"], pod.get("status") or {}
    states = status.get("containerStatuses") or ()
    ready = sum(1 for state in states if state.get("ready"))
    restarts = sum(int(state.get("restartCount") or 0) for state in states)
    return [
        _name(pod),
        f"{ready}/{len(spec['containers'])}",
        _pod_status(pod),
        str(restarts),
        _age(pod, now_s),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        "<none>",
    ]


def _pod_status(pod: JsonObject) -> str:
    status = pod.get("status") or {}
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    said = str(status.get("reason") or status.get("phase") or "Unknown")
    for index, state in enumerate(status.get("initContainerStatuses") or ()):
        ended = (state.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode") == 0:
            continue
        if ended or (state.get("state") or {}).get("waiting"):
            total = len(pod["spec"].get("initContainers") or ())
            return _waiting_reason(state, f"Init:{index}/{total}")
    for state in status.get("containerStatuses") or ():
        said = _waiting_reason(state, said)
    gates = pod["spec"].get("schedulingGates")
    return "SchedulingGated" if gates and said == "Pending" else said


def _waiting_reason(state: JsonObject, otherwise: str) -> str:
    for name in ("waiting", "terminated"):
        if reason := ((state.get("state") or {}).get(name) or {}).get("reason"):
            return str(reason)
    return otherwise


def _node(node: JsonObject, now_s: float) -> list[Any]:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    ready = {c["type"]: c["status"] for c in status.get("conditions") or ()}.get("Ready")
    said = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    if (node.get("spec") or {}).get("unschedulable"):
        said += ",SchedulingDisabled"
    labels = node["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))
    addresses = {a["type"]: a["address"] for a in status.get("addresses") or ()}
    return [
        _name(node),
        said,
        ",".join(roles) or "<none>",
        _age(node, now_s),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or "<none>",
        addresses.get("ExternalIP") or "<none>",
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _event(event: JsonObject, now_s: float) -> list[Any]:
    about = event.get("involvedObject") or {}
    stamp = (
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return [
        age(stamp, now_s),
        event.get("type") or "",
        event.get("reason") or "",
        f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}",
        event.get("message") or "",
        _name(event),
    ]


def _deployment(item: JsonObject, now_s: float) -> list[Any]:
    status, wanted = item.get("status") or {}, item["spec"].get("replicas", 1)
    return [
        _name(item),
        f"{status.get('readyReplicas', 0)}/{wanted}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(item, now_s),
    ]


def _job(item: JsonObject, now_s: float) -> list[Any]:
    status, wanted = item.get("status") or {}, item["spec"].get("completions") or 1
    is_complete = any(
        c["type"] == "Complete" and c["status"] == "True" for c in status.get("conditions") or ()
    )
    said = "Complete" if is_complete else "Running"
    return [_name(item), said, f"{status.get('succeeded', 0)}/{wanted}", _age(item, now_s)]


def _lease(item: JsonObject, now_s: float) -> list[Any]:
    holder = (item.get("spec") or {}).get("holderIdentity") or ""
    return [_name(item), holder, _age(item, now_s)]


def _namespace(item: JsonObject, now_s: float) -> list[Any]:
    phase = (item.get("status") or {}).get("phase") or "Active"
    said = "Terminating" if "deletionTimestamp" in item["metadata"] else phase
    return [_name(item), said, _age(item, now_s)]


def _webhooks(item: JsonObject, now_s: float) -> list[Any]:
    return [_name(item), len(item.get("webhooks") or ()), _age(item, now_s)]


def _data(item: JsonObject, now_s: float) -> list[Any]:
    return [_name(item), len(item.get("data") or ()), _age(item, now_s)]


_NUMBERS: Final = frozenset({"Up-to-date", "Available", "Webhooks", "Data"})
_PLAIN: Final = _Layout(
    columns=("Name", "Age"), cells=lambda item, now_s: [_name(item), _age(item, now_s)]
)
_LAYOUTS: Final = {
    "Pod": _Layout(
        columns=(
            *("Name", "Ready", "Status", "Restarts", "Age"),
            *("IP*", "Node*", "Nominated Node*", "Readiness Gates*"),
        ),
        cells=_pod,
    ),
    "Node": _Layout(
        columns=(
            *("Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*"),
            *("OS-Image*", "Kernel-Version*", "Container-Runtime*"),
        ),
        cells=_node,
    ),
    "Event": _Layout(
        columns=("Last Seen", "Type", "Reason", "Object", "Message", "Name*"), cells=_event
    ),
    "Deployment": _Layout(
        columns=("Name", "Ready", "Up-to-date", "Available", "Age"), cells=_deployment
    ),
    "Job": _Layout(columns=("Name", "Status", "Completions", "Age"), cells=_job),
    "Lease": _Layout(columns=("Name", "Holder", "Age"), cells=_lease),
    "Namespace": _Layout(columns=("Name", "Status", "Age"), cells=_namespace),
    "MutatingWebhookConfiguration": _Layout(columns=("Name", "Webhooks", "Age"), cells=_webhooks),
    "ConfigMap": _Layout(columns=("Name", "Data", "Age"), cells=_data),
}
