"""kube-scheduler's own checks, as far as they matter here; pure, and worded as it words them.

Imitated: requests of any resource against what the node has left, the number of pods,
nodeSelector, required node affinity, unschedulable nodes, taints. Not imitated: preferences,
preemption, spreading, affinity between pods, volumes, ports.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from hamid.model.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hamid.kube.port import JsonObject

PODS: Final = "pods"
MILLI: Final = 1000

Amounts = Counter[str]
"""Resource → thousandths of its unit."""


def requested(spec: JsonObject, *, ignored: Collection[str]) -> Amounts:
    """What the pod needs: the larger of its init phase's peak and of its running containers.

    Sidecars run on: init containers 10 and then a sidecar 3 and an init 5 peak at max(10, 8).
    """
    running, peak = Counter({PODS: MILLI}), Counter({PODS: MILLI})
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, ignored)
        if container.get("restartPolicy") == "Always":
            running += amounts
            peak |= running
        else:
            peak |= running + amounts
    for container in spec.get("containers") or ():
        running += _amounts(container, ignored)
    return peak | running


def refusal(spec: JsonObject, node: JsonObject, *, needed: Amounts, taken: Amounts) -> str:
    """Why the pod may not go to the node; empty if it may."""
    node_spec = node.get("spec") or {}
    labels = node["metadata"].get("labels") or {}
    if node_spec.get("unschedulable"):
        return "node(s) were unschedulable"
    selector = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()) or not _has_affinity(
        spec, node["metadata"]["name"], labels
    ):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = next((t for t in node_spec.get("taints") or () if not _is_tolerated(t, spec)), None)
    if taint is not None:
        value = f": {taint['value']}" if taint.get("value") else ""
        return f"node(s) had untolerated taint {{{taint['key']}{value}}}"
    allocatable = _parsed((node.get("status") or {}).get("allocatable") or {}, ())
    short = [name for name in sorted(needed) if taken[name] + needed[name] > allocatable[name]]
    return ", ".join("Too many pods" if name == PODS else f"Insufficient {name}" for name in short)


def unschedulable_sentence(reasons: Mapping[str, str]) -> str:
    """What kube-scheduler says of a pod, from the reason of each node by name."""
    counted = Counter(reason for reason in reasons.values() if reason)
    if not counted:
        return f"0/{len(reasons)} nodes are available."
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counted.items()))
    return f"0/{len(reasons)} nodes are available: {listed}."


def _amounts(container: JsonObject, ignored: Collection[str]) -> Amounts:
    """Requests; limits stand in for requests that are not given."""
    resources = container.get("resources") or {}
    given = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return _parsed(given, ignored)


def _parsed(amounts: Mapping[str, object], ignored: Collection[str]) -> Amounts:
    found: Amounts = Counter()
    for name, text in amounts.items():
        if name in ignored:
            continue
        try:
            found[name] = math.ceil(parse_quantity(str(text)).value * MILLI)
        except QuantityError:
            continue  # the real API server would have refused it
    return +found


def _has_affinity(spec: JsonObject, node_name: str, labels: Mapping[str, str]) -> bool:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(
        all(_holds(e, labels) for e in term.get("matchExpressions") or ())
        and all(_holds(e, {"metadata.name": node_name}) for e in term.get("matchFields") or ())
        for term in required.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _holds(expression: JsonObject, labels: Mapping[str, str]) -> bool:
    found, values = labels.get(expression.get("key", "")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return _compares(found, operator, values)
        case _:
            return False


def _compares(found: str | None, operator: str, values: Collection[str]) -> bool:
    try:
        one, other = int(found or ""), int(next(iter(values), ""))
    except ValueError:
        return False
    return one > other if operator == "Gt" else one < other


def _is_tolerated(taint: JsonObject, spec: JsonObject) -> bool:
    if taint.get("effect") == "PreferNoSchedule":
        return True
    for toleration in spec.get("tolerations") or ():
        if toleration.get("key") not in (None, "", taint["key"]):
            continue
        if toleration.get("effect") not in (None, "", taint.get("effect")):
            continue
        is_any = toleration.get("operator") == "Exists"
        if is_any or (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False
