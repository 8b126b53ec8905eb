"""Events on this node, for what an operator should see with `kubectl describe node`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hamid.kube.events import EventWriter, Subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.kube.port import KubePort


@dataclass(slots=True, kw_only=True)
class NodeEvents:
    """Writes events about the node; one that cannot be written is logged and dropped."""

    kube: KubePort
    node_name: str
    clock: Callable[[], float]
    namespace: str = "default"

    async def warn(self, reason: str, message: str) -> None:
        """Write one warning."""
        writer = EventWriter(kube=self.kube, clock=self.clock, host=self.node_name)
        # kubectl describe node looks for the node's name in place of its UID, as the kubelet writes.
        node = Subject(
            kind="Node",
            name=self.node_name,
            uid=self.node_name,
            namespace=self.namespace,
            is_namespaced=False,
        )
        await writer.warn(node, reason=reason, message=message)
