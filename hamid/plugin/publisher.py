"""Keeps the node's registration annotations equal to the inventory, whoever else writes there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.latest import Latest
from hamid.aiokit.ticker import pause
from hamid.codec.node_annotation import encode_link_scores, encode_node_inventory
from hamid.errors import KubeError, NvmlError
from hamid.kube.errors import TooManyRequests, Unavailable
from hamid.kube.port import NODES, EventKind, PatchKind
from hamid.model.names import NODE_REGISTER, NODE_SCORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hamid.aiokit.backoff import Backoff
    from hamid.kube.port import JsonObject, KubePort, WatchEvent
    from hamid.model.node import NodeInventory
    from hamid.nvml.port import NvmlPort

log = structlog.get_logger(__name__)

_KEYS: Final = (NODE_REGISTER, NODE_SCORE)


@dataclass(slots=True, kw_only=True)
class InventoryPublisher:
    """Writes the inventory to the node each time it has changed; a service.

    Run it only once the inventory was derived from what the driver says (`wait_for_inventory`): an
    empty one tells the scheduler that the cards are gone.
    """

    kube: KubePort
    nvml: NvmlPort
    inventory: Latest[NodeInventory]
    backoff: Backoff
    name: str = "node-registrar"
    _registered: NodeInventory | None = None
    _annotations: Mapping[str, str] = field(default_factory=dict)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def run(self) -> None:
        """Follow the inventory until cancelled; what fails is tried again."""
        async for _ in self.inventory.changes():
            await insist(self.step, self.backoff)

    async def step(self) -> None:
        """Write the annotations if the inventory is not what was written; raises `KubeError`."""
        async with self._writing:
            await self._write()

    async def restore(self) -> None:
        """Write them again if the node has others; tried until it works."""
        await insist(self._look, self.backoff)
        await insist(self.step, self.backoff)

    def is_there(self, found: Mapping[str, str]) -> bool:
        """Whether the annotations found are those that were written, if any were."""
        return all(found.get(key) == text for key, text in self._annotations.items())

    async def _write(self) -> None:
        inventory = self.inventory.get()
        if inventory == self._registered:
            return
        annotations = {NODE_REGISTER: encode_node_inventory(inventory)}
        try:
            annotations[NODE_SCORE] = encode_link_scores(await self.nvml.link_scores())
        except NvmlError as error:
            log.info("link scores unknown", error=repr(error))
        patch = {"metadata": {"annotations": annotations}}
        await self.kube.patch(NODES, inventory.node_name, patch, kind=PatchKind.MERGE)
        self._registered, self._annotations = inventory, annotations
        log.info("node registered", node=inventory.node_name, devices=len(inventory.devices))

    async def _look(self) -> None:
        """Read the node, and forget what was written if it is not there any more."""
        async with self._writing:
            node = await self.kube.get(NODES, self.inventory.get().node_name)
            if self.is_there(node["metadata"].get("annotations") or {}):
                return
            log.warning(
                "registration changed by somebody else",
                node=node["metadata"]["name"],
                hint="if HAMi's device plugin still runs on the node, remove it",
            )
            self._registered = None


async def insist(act: Callable[[], Awaitable[None]], backoff: Backoff) -> None:
    """Do it until the API server has let it be done."""
    while True:
        try:
            await act()
        except KubeError as error:
            log_line = log.debug if backoff.failures else log.warning
            log_line("registration delayed", error=str(error))
            await pause(max(backoff.next_delay_s(), _asked_to_wait_s(error)))
        else:
            backoff.reset()
            return


@dataclass(slots=True, kw_only=True)
class RegistrationGuard:
    """Sees the watch of our own Node, and has the annotations restored; a service, and a sink.

    What the watch says may be older than what was written since, so that the node is read before
    anything is: a registration that nobody touches costs no call.

    Attributes:
        settle_s: waited before each restoring, so that two who both insist on their own text do
            not keep the API server busy.
    """

    publisher: InventoryPublisher
    settle_s: float = 5.0
    name: str = "registration-guard"
    found: Latest[Mapping[str, str]] = field(default_factory=lambda: Latest({}))

    async def run(self) -> None:
        """Follow what the watch says until cancelled."""
        async for found in self.found.changes():
            if not self.publisher.is_there(found):
                await pause(self.settle_s)
                await self.publisher.restore()

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """This is our Node, if there is one."""
        self.found.publish(_ours(objects[0]) if objects else {})

    def apply(self, event: WatchEvent) -> None:
        """Our Node was made, changed or removed; heartbeats and the rest wake nobody."""
        self.found.publish({} if event.kind is EventKind.DELETED else _ours(event.object))


def _ours(node: JsonObject) -> Mapping[str, str]:
    annotations = node["metadata"].get("annotations") or {}
    return {key: annotations[key] for key in _KEYS if key in annotations}


def _asked_to_wait_s(error: KubeError) -> float:
    return error.retry_after_s if isinstance(error, TooManyRequests | Unavailable) else 0.0
