"""What disruption budgets say of an eviction, as the real server asks them.

One that counts a pod is only asked while the pod runs: who waits, has ended or is being deleted is
no disruption. Whether the pod is ready is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.kube.errors import TooManyRequests, error_for_status
from hamid.kube.fake.selectors import matches_labels
from hamid.kube.port import POD_DISRUPTION_BUDGETS

if TYPE_CHECKING:
    from hamid.kube.fake.store import Store
    from hamid.kube.port import JsonObject

_RUNS: Final = frozenset({"Running", "Unknown"})
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."


def charge_budget(store: Store, pod: JsonObject, *, is_dry_run: bool) -> None:
    """Take the pod's eviction off what its budget allows; a dry run only looks.

    Raises:
        ApiError: the budget allows none, or several count the pod.
    """
    is_leaving = "deletionTimestamp" in pod["metadata"]
    if is_leaving or (pod.get("status") or {}).get("phase") not in _RUNS:
        return
    found = store.select(POD_DISRUPTION_BUDGETS, lambda budget: _counts(budget, pod))
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget"
        raise error_for_status(500, {}, message=message)
    for budget in found:
        status = budget.get("status") or {}
        allowed = status.get("disruptionsAllowed") or 0
        if allowed <= 0:
            raise TooManyRequests(_REFUSED)
        if not is_dry_run:
            less = {**status, "disruptionsAllowed": allowed - 1}
            store.put(POD_DISRUPTION_BUDGETS, {**budget, "status": less})


def _counts(budget: JsonObject, pod: JsonObject) -> bool:
    of, meta = budget["metadata"], pod["metadata"]
    selector = (budget.get("spec") or {}).get("selector")
    return (
        of.get("namespace") == meta.get("namespace")
        and bool(selector)
        and matches_labels(selector, meta.get("labels") or {})
    )
