"""ResourceQuota → `model.quota.Quota`, and of a Pod what quotas ask.

Keys are `limits.<resource>` for the number of cards, their memory and their cores, by the names
that the operator gave these. Memory counts MiB, or bytes with a binary suffix, as in pods. Whole
amounts are meant: of what is more than that, the part is dropped, for pods ask for whole amounts.

Left to the API server are the keys `requests.<resource>`: it counts them when pods are created,
each container's amount as it stands, whatever the number of cards. Any other key that names one of
our resources counts nowhere, and is told of.

Scopes are read as the API server reads them. A quota with one that speaks of no pod binds none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.codec.jsontext import as_list, as_object
from hamid.codec.pod import as_pod, inner_object, inner_text, pod_containers, pod_meta
from hamid.model.quantities import MIB, QuantityError, parse_quantity
from hamid.model.quota import (
    Limit,
    Operator,
    Payer,
    Quota,
    QuotaResource,
    ScopeName,
    ScopeRule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.codec.jsontext import JsonObject
    from hamid.model.names import ResourceNames

LIMITS_PREFIX: Final = "limits."
REQUESTS_PREFIX: Final = "requests."

_HOST_RESOURCES: Final = ("cpu", "memory")
_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNote:
    """What a ResourceQuota says.

    Attributes:
        quota: None where it says nothing of cards that we count.
        remarks: what its author should know, a sentence each.
    """

    namespace: str
    name: str
    quota: Quota | None
    remarks: tuple[str, ...] = ()


def decode_quota(item: JsonObject, *, names: ResourceNames) -> QuotaNote:
    """What the ResourceQuota says of cards."""
    meta, spec = item["metadata"], item.get("spec") or {}
    remarks: list[str] = []
    limits = tuple(_limits(spec.get("hard") or {}, names, remarks))
    quota = None
    if limits:
        quota = Quota(
            namespace=meta["namespace"],
            name=meta["name"],
            limits=limits,
            scopes=tuple(_scopes(spec)),
        )
    return QuotaNote(
        namespace=meta["namespace"], name=meta["name"], quota=quota, remarks=tuple(remarks)
    )


def _limits(hard: JsonObject, names: ResourceNames, remarks: list[str]) -> Iterator[Limit]:
    counted = {
        names.count: QuotaResource.CARDS,
        names.memory: QuotaResource.MEMORY_MIB,
        names.cores: QuotaResource.CORE_PERCENT,
    }
    for key, value in sorted(hard.items()):
        prefix, name = _split(key)
        if name not in names.all():
            continue
        if prefix == REQUESTS_PREFIX:
            if name != names.count:
                remarks.append(
                    f"{key} is counted by the API server, per container and whatever the number "
                    f"of cards; use {LIMITS_PREFIX}{name}"
                )
        elif prefix != LIMITS_PREFIX or name not in counted:
            known = ", ".join(LIMITS_PREFIX + name for name in counted)
            remarks.append(f"{key} limits nothing; known are {known}")
        elif (amount := _amount(str(value), counted[name])) is None:
            remarks.append(f"{key} is {str(value)!r}, which is no amount, and limits nothing")
        else:
            yield Limit(key=key, resource=counted[name], hard=amount)


def _split(key: str) -> tuple[str, str]:
    for prefix in (LIMITS_PREFIX, REQUESTS_PREFIX):
        if key.startswith(prefix):
            return prefix, key.removeprefix(prefix)
    return "", key


def _amount(text: str, resource: QuotaResource) -> int | None:
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        return None
    is_bytes = quantity.is_binary and resource is QuotaResource.MEMORY_MIB
    return max(int(quantity.value // (MIB if is_bytes else 1)), 0)


def _scopes(spec: JsonObject) -> Iterator[ScopeRule]:
    for name in spec.get("scopes") or ():
        yield ScopeRule(scope=_scope_name(name))
    for rule in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        operator = rule.get("operator", "")
        yield ScopeRule(
            scope=_scope_name(rule.get("scopeName")) if operator in tuple(Operator) else None,
            operator=Operator(operator) if operator in tuple(Operator) else Operator.EXISTS,
            values=tuple(rule.get("values") or ()),
        )


def _scope_name(name: object) -> ScopeName | None:
    return ScopeName(name) if isinstance(name, str) and name in tuple(ScopeName) else None


def decode_payer(pod: JsonObject, *, namespace: str = "") -> Payer:
    """Who is charged for the pod, and what scopes ask of it.

    Args:
        pod: as the API server sends it, or a webhook sees it.
        namespace: of a pod that does not say, for it is yet to be created.

    Raises:
        RequestError: the pod cannot be read.
    """
    return as_pod(lambda: _payer(pod, namespace))


def _payer(pod: JsonObject, namespace: str) -> Payer:
    spec = inner_object(pod, "spec", what="spec")
    return Payer(
        namespace=pod_meta(pod).namespace or namespace,
        is_terminating=spec.get("activeDeadlineSeconds") is not None,
        is_best_effort=_is_best_effort(pod, spec),
        is_cross_namespace=_is_cross_namespace(
            inner_object(spec, "affinity", what="spec.affinity")
        ),
        priority_class=inner_text(spec, "priorityClassName", what="spec.priorityClassName"),
    )


def _is_best_effort(pod: JsonObject, spec: JsonObject) -> bool:
    whole = inner_object(spec, "resources", what="spec.resources")
    sections = [
        inner_object(whole, name, what=f"spec.resources.{name}") for name in ("requests", "limits")
    ]
    for container in pod_containers(pod):
        if container.kind is not None:
            sections += [container.requests, container.limits]
    return not any(_is_some(s.get(name)) for s in sections for name in _HOST_RESOURCES)


def _is_some(value: object) -> bool:
    try:
        return value is not None and parse_quantity(str(value)).value > 0
    except QuantityError:
        return False


def _is_cross_namespace(affinity: JsonObject) -> bool:
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None
        for term in _pod_terms(affinity)
    )


def _pod_terms(affinity: JsonObject) -> Iterator[JsonObject]:
    for kind in _AFFINITIES:
        what = f"spec.affinity.{kind}"
        rules = inner_object(affinity, kind, what=what)
        for term in as_list(rules.get(_REQUIRED) or [], what=f"{what}.{_REQUIRED}"):
            yield as_object(term, what=f"a term of {what}")
        for entry in as_list(rules.get(_PREFERRED) or [], what=f"{what}.{_PREFERRED}"):
            weighed = as_object(entry, what=f"a term of {what}")
            yield inner_object(weighed, "podAffinityTerm", what=f"a term of {what}")
