"""Label and field selectors: text → predicate.

Fields are selectable where the real server has them so, and refused elsewhere: a selector that
only works on the fake would be worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hamid.kube.errors import Invalid

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject, Resource

Predicate: TypeAlias = Callable[["JsonObject"], bool]

_COMMON_FIELDS: Final = frozenset({"metadata.name", "metadata.namespace"})
_FIELDS: Final[dict[str, frozenset[str]]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase"}),
    "secrets": frozenset({"type"}),
    "events": frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
}

_SET_TERM: Final = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_TERM_SPLIT: Final = re.compile(r",(?![^(]*\))")


def selector(
    resource: Resource, *, labels: str | None, fields: str | None, namespace: str | None = None
) -> Predicate:
    """The predicate of a list or watch."""
    predicates: list[Predicate] = []
    if namespace is not None and resource.is_namespaced:
        predicates.append(lambda item: item["metadata"].get("namespace") == namespace)
    predicates += label_terms(labels or "")
    predicates += _field_terms(fields or "", resource)
    return lambda item: all(predicate(item) for predicate in predicates)


def label_terms(text: str) -> list[Predicate]:
    """One predicate per comma-separated requirement: `a=b`, `a!=b`, `a`, `!a`, `a in (b,c)`."""
    terms = [term.strip() for term in _TERM_SPLIT.split(text)]
    return [_label_term(term) for term in terms if term]


def matches_labels(selector_object: JsonObject | None, labels: JsonObject) -> bool:
    """Whether a LabelSelector object (matchLabels, matchExpressions) selects these labels."""
    if not selector_object:
        return True
    wanted = selector_object.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(
        _expression(entry, labels) for entry in selector_object.get("matchExpressions") or ()
    )


def _expression(entry: JsonObject, labels: JsonObject) -> bool:
    has_key, value, values = entry["key"] in labels, labels.get(entry["key"]), entry.get("values")
    return {
        "In": has_key and value in (values or ()),
        "NotIn": value not in (values or ()),
        "Exists": has_key,
        "DoesNotExist": not has_key,
    }[entry["operator"]]


def _label_term(term: str) -> Predicate:
    if match := _SET_TERM.match(term):
        key, operator, text = match.groups()
        values = frozenset(value.strip() for value in text.split(","))
        if operator == "in":
            return lambda item: _labels(item).get(key) in values
        return lambda item: _labels(item).get(key) not in values
    if term.startswith("!"):
        return lambda item: term[1:].strip() not in _labels(item)
    if "=" not in term:
        return lambda item: term in _labels(item)
    key, is_equal, value = _comparison(term)
    return lambda item: (_labels(item).get(key) == value) is is_equal


def _field_terms(text: str, resource: Resource) -> list[Predicate]:
    known = _COMMON_FIELDS | _FIELDS.get(resource.label, frozenset())
    predicates: list[Predicate] = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        path, is_equal, value = _comparison(term)
        if path not in known:
            raise Invalid(f"field label not supported: {path}")
        predicates.append(_field_term(tuple(path.split(".")), value, is_equal=is_equal))
    return predicates


def _field_term(path: tuple[str, ...], value: str, *, is_equal: bool) -> Predicate:
    return lambda item: (_field(item, path) == value) is is_equal


def _comparison(term: str) -> tuple[str, bool, str]:
    """`a=b`, `a==b` or `a!=b` as key, whether equal, value."""
    left, found, right = term.partition("=")
    if not found:
        raise Invalid(f"invalid selector: {term!r}; can't understand it")
    if left.endswith("!"):
        return left[:-1].strip(), False, right.strip()
    return left.strip(), True, right.removeprefix("=").strip()


def _labels(item: JsonObject) -> JsonObject:
    return item["metadata"].get("labels") or {}


def _field(item: JsonObject, path: tuple[str, ...]) -> str:
    value: Any = item
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
