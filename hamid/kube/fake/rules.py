"""What the server makes of an object before it stores it: defaults, checks, what may change.

Only what our own parts or kubectl can notice. Functions change the object they are given, which
is the server's own copy, or raise `Invalid`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from hamid.codec.pod import has_ended
from hamid.kube.errors import Conflict, Invalid
from hamid.kube.port import NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SERVICES
from hamid.model.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from hamid.kube.fake.catalog import ServedResource
    from hamid.kube.fake.features import FakeFeatures
    from hamid.kube.fake.values import Target
    from hamid.kube.port import JsonObject, Resource

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_RBAC_NAME: Final = re.compile(r"[^/%]+")
# Resources with a slash in their names other than these are extended ones.
_NATIVE_PREFIXES: Final = ("kubernetes.io/", "requests.kubernetes.io/")
_SCOPES: Final = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_MUTABLE_POD_FIELDS: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
# Kinds whose metadata.generation counts the changes of the spec.
_COUNTED_GROUPS: Final = frozenset({"apps", "batch", "admissionregistration.k8s.io", "policy"})


def check_name(resource: Resource, name: Any) -> None:
    """Refuse a name that is none."""
    kind = f"{resource.kind}.{resource.group}".removesuffix(".")
    pattern = _RBAC_NAME if resource.group == "rbac.authorization.k8s.io" else _NAME
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise Invalid(
            f'{kind} "{name}" is invalid: metadata.name: Invalid value:'
            f' "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric'
            " characters, '-' or '.', and must start and end with an alphanumeric character"
        )
    if len(name) > _LONGEST_NAME:
        raise Invalid(
            f'{kind} "{name}" is invalid: metadata.name: Too long: may not'
            f" be more than {_LONGEST_NAME} bytes"
        )


def defaulted(resource: Resource, item: JsonObject, features: FakeFeatures) -> None:
    """Fill in what is left out, and drop the fields that the version does not know."""
    if resource == PODS:
        _default_pod(item, features)
    elif resource == SERVICES:
        item.setdefault("spec", {}).setdefault("type", "ClusterIP")
    elif resource == NAMESPACES:
        item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = item["metadata"][
            "name"
        ]
    elif "webhooks" in item:
        for webhook in item["webhooks"] or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("timeoutSeconds", 10)
            if not features.has_match_conditions:
                webhook.pop("matchConditions", None)


def begin(served: ServedResource, item: JsonObject) -> None:
    """Give a new object the status it begins with."""
    resource = served.resource
    if resource == PODS:
        item["status"] = {"phase": "Pending", "qosClass": _qos_class(item["spec"])}
    elif resource == NAMESPACES:
        item["status"] = {"phase": "Active"}
    elif served.has_status and resource != NODES:
        item.pop("status", None)
    if resource.group in _COUNTED_GROUPS:
        item["metadata"]["generation"] = 1


def check(resource: Resource, item: JsonObject) -> None:
    """Refuse what the real server refuses, as far as our tests send it."""
    spec = item.get("spec") or {}
    if resource == PODS:
        _check_pod(item, spec)
    elif resource == NODES:
        _check_node(item, spec)
    elif resource == RESOURCE_QUOTAS:
        _check_quota(item, spec)
    annotations = item["metadata"].get("annotations") or {}
    for name, value in annotations.items():
        if not isinstance(value, str):
            raise _invalid(item, f"metadata.annotations[{name}]: must be a string")
    if sum(len(name) + len(value) for name, value in annotations.items()) > 256 * 1024:
        raise _invalid(item, "metadata.annotations: Too long: may not be more than 262144 bytes")


def _check_pod(item: JsonObject, spec: JsonObject) -> None:
    if not spec.get("containers"):
        raise _invalid(item, "spec.containers: Required value")
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            _check_container(item, f"spec.{field}[{index}]", container)


def _check_node(item: JsonObject, spec: JsonObject) -> None:
    for index, taint in enumerate(spec.get("taints") or ()):
        for field in ("key", "effect"):
            if not taint.get(field):
                raise _invalid(item, f"spec.taints[{index}].{field}: Required value")


def _check_quota(item: JsonObject, spec: JsonObject) -> None:
    for key, value in (spec.get("hard") or {}).items():
        try:
            amount = parse_quantity(str(value)).value
        except QuantityError:
            raise _invalid(item, f"spec.hard[{key}]: quantities must match the grammar") from None
        if amount < 0:
            raise _invalid(item, f"spec.hard[{key}]: must be greater than or equal to 0")
        if "/" in key and amount.denominator != 1:
            raise _invalid(item, f"spec.hard[{key}]: must be an integer")
    unknown = [scope for scope in spec.get("scopes") or () if scope not in _SCOPES]
    if unknown:
        raise _invalid(item, f"spec.scopes: Invalid value: {unknown}: unsupported scope")


def succeed(
    served: ServedResource, old: JsonObject, new: JsonObject, subresource: str | None
) -> None:
    """Make `new` a successor of `old`: keep what may not change, refuse what is changed anyway."""
    for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        _keep(old["metadata"], new["metadata"], field)
    if subresource == "status":
        for field in set(old) | set(new):
            if field not in {"metadata", "status"}:
                _keep(old, new, field)
        return
    if served.has_status:
        _keep(old, new, "status")
    if served.resource == PODS:
        _check_pod_change(old, new)
    _keep(old["metadata"], new["metadata"], "generation")
    if "generation" in old["metadata"] and old.get("spec") != new.get("spec"):
        new["metadata"]["generation"] = old["metadata"]["generation"] + 1


def grace_period_s(resource: Resource, item: JsonObject, asked_s: int | None) -> int:
    """How long the object stays after a deletion; only pods on a node do."""
    if resource != PODS or not item["spec"].get("nodeName"):
        return 0
    if has_ended(item):
        return 0
    if asked_s is not None:
        return max(0, asked_s)
    return int(item["spec"].get("terminationGracePeriodSeconds", 30))


def _default_pod(pod: JsonObject, features: FakeFeatures) -> None:
    spec = pod.setdefault("spec", {})
    defaults = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "serviceAccountName": "default",
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    for field, value in defaults.items():
        if spec.get(field) is None:
            spec[field] = value
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        resources = container.setdefault("resources", {})
        for amounts in resources.values():  # limits, requests
            if isinstance(amounts, dict):
                amounts.update({name: "0" for name, amount in amounts.items() if amount is None})
        for name, amount in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)
    if not features.has_sidecars:
        for container in spec.get("initContainers") or ():
            container.pop("restartPolicy", None)
    if not features.has_scheduling_gates:
        spec.pop("schedulingGates", None)


def _check_container(pod: JsonObject, where: str, container: JsonObject) -> None:
    for field in ("name", "image"):
        if not container.get(field):
            raise _invalid(pod, f"{where}.{field}: Required value")
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in sorted({*limits, *requests}):
        if "/" not in name or name.startswith(_NATIVE_PREFIXES):
            continue
        amount = str(limits.get(name, requests.get(name)))
        if not _is_whole(amount):
            raise _invalid(
                pod,
                f'{where}.resources.limits[{name}]: Invalid value: "{amount}": must be an integer',
            )
        if name not in limits:
            raise _invalid(
                pod,
                f"{where}.resources.limits: Required value:"
                " Limit must be set for non overcommitable resources",
            )
        if str(requests.get(name)) != amount:
            raise _invalid(
                pod,
                f'{where}.resources.requests: Invalid value: "{requests.get(name)}":'
                f" must be equal to {name} limit of {amount}",
            )


def _is_whole(amount: str) -> bool:
    """Whether it is a whole number, however it is written: 16.0Gi is one."""
    try:
        value = parse_quantity(amount).value
    except QuantityError:
        return False
    return value >= 0 and value.denominator == 1


def _check_pod_change(old: JsonObject, new: JsonObject) -> None:
    if _fixed_part(old["spec"]) != _fixed_part(new["spec"]):
        raise _invalid(
            new,
            "spec: Forbidden: pod updates may not change fields other than"
            " `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations`",
        )


def _fixed_part(spec: JsonObject) -> JsonObject:
    """The pod's spec without what may change."""
    fixed = {field: value for field, value in spec.items() if field not in _MUTABLE_POD_FIELDS}
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in spec.get(field) or ()
        ]
    return fixed


def _qos_class(spec: JsonObject) -> str:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    native = ("cpu", "memory")
    has_any, is_guaranteed = False, True
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        has_any = has_any or any(name in limits or name in requests for name in native)
        is_guaranteed = is_guaranteed and all(
            name in limits and limits[name] == requests.get(name) for name in native
        )
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _keep(old: JsonObject, new: JsonObject, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _invalid(item: JsonObject, said: str) -> Invalid:
    return Invalid(f'{item.get("kind")} "{item["metadata"].get("name")}" is invalid: {said}')


def precondition_failed(target: Target, name: str, wanted: str, metadata: JsonObject) -> Conflict:
    """The refusal of a request whose uid or resourceVersion is not the object's."""
    return Conflict(
        f'Operation cannot be fulfilled on {target.resource.label} "{target.name}": Precondition'
        f" failed: {name} in precondition: {wanted}, {name} in object meta: {metadata.get(name)}"
    )
