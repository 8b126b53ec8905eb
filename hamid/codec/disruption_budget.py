"""PodDisruptionBudget objects: which pods one counts, and how many of them may be evicted now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.codec.jsontext import JsonObject

_SET_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget.

    Attributes:
        key: `namespace/name`.
        allowed: how many of its pods may be evicted now.
        selector: of pods; None counts none, an empty one all of the namespace.
    """

    key: str
    namespace: str
    allowed: int
    selector: JsonObject | None = field(default=None, hash=False)

    def counts(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it counts a pod with these labels."""
        if namespace != self.namespace or self.selector is None:
            return False
        wanted: Mapping[str, str] = self.selector.get("matchLabels") or {}
        if any(labels.get(key) != value for key, value in wanted.items()):
            return False
        return all(_holds(term, labels) for term in self.selector.get("matchExpressions") or ())


def decode_budget(found: JsonObject) -> Budget:
    """The budget as the API server gives it."""
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    return Budget(
        key=f"{meta['namespace']}/{meta['name']}",
        namespace=meta["namespace"],
        allowed=int(status.get("disruptionsAllowed") or 0),
        selector=spec.get("selector"),
    )


def _holds(term: JsonObject, labels: Mapping[str, str]) -> bool:
    key, operator, values = term["key"], term["operator"], term.get("values") or ()
    if operator not in _SET_OPERATORS:
        return True  # one that we do not know may well count the pod: rather too many than too few
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
