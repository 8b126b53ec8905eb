"""Which pods a person has been promised an answer about, in order, and which were refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hamid.daemon.simulate.view import ClusterView
    from hamid.kube.errors import ApiError
    from hamid.kube.port import JsonObject

_DENIED: Final = "denied the request: "
_REQUEST: Final = re.compile(r"\w+ /\S+: (?:\d{3}: )?")


@dataclass(slots=True, kw_only=True)
class Roster:
    """Pods by `namespace/name`, in the order in which they were asked for.

    Attributes:
        refusals: why pods were not admitted; None for those that were.
    """

    view: ClusterView
    refusals: dict[str, str | None] = field(default_factory=dict)

    def admit(self, pod: JsonObject) -> None:
        """The API server took the pod."""
        self.refusals[pod_key(pod)] = None
        self.view.tell()

    def refuse(self, pod: JsonObject, error: ApiError) -> None:
        """The API server did not take the pod."""
        self.refusals[pod_key(pod)] = refusal_sentence(error)
        self.view.tell()

    def forget(self, key: str) -> None:
        """Nobody wants the pod any more."""
        if self.refusals.pop(key, None) is not None:
            self.view.tell()

    def is_refused(self, key: str) -> bool:
        """Whether it was refused when last tried."""
        return self.refusals.get(key) is not None


def pod_key(pod: JsonObject) -> str:
    """`namespace/name`."""
    metadata = pod["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata.get('name') or metadata['generateName']}"


def refusal_sentence(error: ApiError) -> str:
    """What was said, without who passed it on."""
    said = " ".join(error.message.split())
    return said.rpartition(_DENIED)[2] if _DENIED in said else _REQUEST.sub("", said, count=1)
