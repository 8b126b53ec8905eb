"""Reads how a pod wants to share the time of its devices.

The annotations of ours come first, then the environment variable that HAMi's users set. A pod
cannot lift its core limit by it: `disable` lets it have what is idle, as `lend` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.codec.jsontext import is_number, quoted
from hamid.errors import AnnotationError
from hamid.model import names
from hamid.model.sharing import Sharing, SharingMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.codec.jsontext import JsonObject

WEIGHT_MAX: Final = 1000

_MODE_BY_POLICY: Final = {"force": SharingMode.HARD, "disable": SharingMode.LEND}
"""HAMi's words; `default`, like any other, leaves it to the node's setting, as in HAMi."""


def read_sharing(pod: JsonObject, container: JsonObject) -> Sharing:
    """What the pod says of this container of its spec.

    Raises:
        AnnotationError: an annotation has no such value.
    """
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    if problems := sharing_problems(annotations):
        raise AnnotationError(
            "; ".join(problems), hint="leave it out to have the node's setting, and weight 1"
        )
    mode, weight = annotations.get(names.CORE_MODE), annotations.get(names.CORE_WEIGHT)
    return Sharing(
        mode=SharingMode(mode) if mode is not None else _mode_of_environment(container),
        weight=int(weight) if weight is not None else None,
    )


def sharing_problems(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with the annotations, a sentence each, for who made the pod."""
    problems = []
    mode, weight = annotations.get(names.CORE_MODE), annotations.get(names.CORE_WEIGHT)
    if mode is not None and mode not in list(SharingMode):
        problems.append(
            f"annotation {names.CORE_MODE}: {quoted(mode)} is no way to share; "
            f"allowed are {', '.join(SharingMode)}"
        )
    if weight is not None and not _is_weight(weight):
        problems.append(
            f"annotation {names.CORE_WEIGHT}: {quoted(weight)} is not a whole number "
            f"from 1 to {WEIGHT_MAX}"
        )
    return tuple(problems)


def _is_weight(text: object) -> bool:
    return isinstance(text, str) and is_number(text, WEIGHT_MAX) and int(text) > 0


def _mode_of_environment(container: JsonObject) -> SharingMode | None:
    for entry in container.get("env") or ():
        if isinstance(entry, dict) and entry.get("name") == names.ENV_CORE_POLICY:
            return _MODE_BY_POLICY.get(str(entry.get("value") or "").lower())
    return None
