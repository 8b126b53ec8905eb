"""Events on this node, for what an operator should see with `kubectl describe node`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from hamid.errors import KubeError
from hamid.kube.port import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.kube.port import KubePort

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class NodeEvents:
    """Writes events about the node; one that cannot be written is logged and dropped."""

    kube: KubePort
    node_name: str
    clock: Callable[[], float]
    namespace: str = "default"

    async def warn(self, reason: str, message: str) -> None:
        """Write one warning."""
        at = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{self.node_name}.", "namespace": self.namespace},
            "involvedObject": {"kind": "Node", "name": self.node_name, "uid": self.node_name},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "source": {"component": "hamid", "host": self.node_name},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        try:
            await self.kube.create(EVENTS, body, namespace=self.namespace)
        except KubeError as error:
            log.warning("event not written", reason=reason, error=str(error))
