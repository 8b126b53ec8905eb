"""Keeps what our Node's status states of our resources beside slots as `amounts` has it.

Written to capacity, from which the kubelet makes allocatable each time it writes the status, and to
allocatable as well, so that nobody waits for that. It leaves alone what it does not know; where it
lost its own books it writes 0 to all. Taken away is a key, not made 0: of 0 the kubelet gives none.

That they are ours says an annotation, written with them. So what somebody else has stated by hand
stays when the setting is off.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from hamid.aiokit.latest import Latest
from hamid.codec.allocation_record import read_allocation
from hamid.codec.pod import has_ended
from hamid.codec.pod_amounts import decode_pod_amounts
from hamid.errors import AnnotationError
from hamid.kube.errors import Forbidden
from hamid.kube.port import NODES, EventKind, PatchKind
from hamid.model.amounts import NO_AMOUNTS
from hamid.model.names import NODE_AMOUNTS
from hamid.model.quantities import QuantityError, parse_quantity
from hamid.plugin.amounts import CountedPod, stated_amounts
from hamid.plugin.publisher import insist

if TYPE_CHECKING:
    from hamid.aiokit.backoff import Backoff
    from hamid.kube.port import JsonObject, KubePort, WatchEvent
    from hamid.model.amounts import CardAmounts
    from hamid.model.names import ResourceNames
    from hamid.model.node import NodeInventory

log = structlog.get_logger(__name__)

Stated = dict[str, int]
"""Resource → amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountsNews:
    """What is to be stated, and what the watch says is; None while it is not known."""

    wanted: Stated | None = None
    found: Stated | None = None


@dataclass(slots=True, kw_only=True)
class AmountsWriter:
    """Writes them each time they have changed, and again when they are lost; a service, and a sink.

    Attributes:
        is_on: state them; else what was stated before is taken away.
        settle_s: waited before what the watch shows is mended, for it may be behind.
    """

    kube: KubePort
    node_name: str
    names: ResourceNames
    is_on: bool
    backoff: Backoff
    settle_s: float = 5.0
    name: str = "amounts-writer"
    news: Latest[AmountsNews] = field(default_factory=lambda: Latest(AmountsNews()))
    _written: Stated | None = None

    async def run(self) -> None:
        """Follow the news until cancelled."""
        async for _ in self.news.changes():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settle_s):
                    await self.news.wait_for(self._is_certain)
            await insist(self.step, self.backoff)

    async def step(self) -> None:
        """Write the amounts if the node has others; raises `KubeError`."""
        wanted, found = self.news.get().wanted, self.news.get().found
        if wanted is None or found is None or wanted == found:
            self._written = found if wanted is not None else None
            return
        sums = dict.fromkeys(found) | {name: str(amount) for name, amount in wanted.items()}
        patch = {
            "metadata": {"annotations": {NODE_AMOUNTS: ",".join(sorted(wanted)) or None}},
            "status": {"capacity": sums, "allocatable": sums},
        }
        try:
            await self.kube.patch(
                NODES, self.node_name, patch, kind=PatchKind.MERGE, subresource="status"
            )
        except Forbidden as error:
            if self.is_on:
                raise
            log.warning(
                "amounts not taken away",
                node=self.node_name,
                error=str(error),
                hint="the node states sums of before, and its kubelet may refuse pods by them; "
                "docs/placement.md says how to take them away",
            )
        else:
            log.info("amounts stated", node=self.node_name, **sums)
        self._written = wanted

    def want(self, amounts: CardAmounts) -> None:
        """These are to be stated, unless none is."""
        wanted = amounts.by_name(self.names) if self.is_on else {}
        self.news.publish(replace(self.news.get(), wanted=wanted))

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """This is our Node, if there is one."""
        self._find(objects[0] if objects else {})

    def apply(self, event: WatchEvent) -> None:
        """Our Node has changed."""
        self._find({} if event.kind is EventKind.DELETED else event.object)

    def _find(self, node: JsonObject) -> None:
        capacity = (node.get("status") or {}).get("capacity") or {}
        is_ours = NODE_AMOUNTS in ((node.get("metadata") or {}).get("annotations") or {})
        names = self.names.all()[1:] if self.is_on or is_ours else ()
        found = {name: _amount(capacity[name]) for name in names if name in capacity}
        self.news.publish(replace(self.news.get(), found=found))

    def _is_certain(self, news: AmountsNews) -> bool:
        """Whether there is something to write, or nothing, whatever the watch has still to say."""
        return news.wanted != self._written or news.wanted == news.found


@dataclass(slots=True, kw_only=True)
class AmountsDeriver:
    """Tells the writer what to state; a service, and the second sink of the watch of our pods.

    The first, `NodePods`, drops pods that ask for no slots. The kubelet counts their amounts all
    the same. Run it only once the inventory was derived from what the driver says.
    """

    inventory: Latest[NodeInventory]
    writer: AmountsWriter
    name: str = "node-amounts"
    _by_uid: dict[str, CountedPod] = field(default_factory=dict)
    _is_known: bool = False

    async def run(self) -> None:
        """Follow the inventory until cancelled."""
        async for _ in self.inventory.changes():
            self._is_known = True
            self._derive()

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """These are all pods."""
        self._by_uid.clear()
        for pod in objects:
            self._take(pod)
        self._derive()

    def apply(self, event: WatchEvent) -> None:
        """A pod has changed."""
        if event.kind is EventKind.DELETED:
            self._by_uid.pop(event.object["metadata"]["uid"], None)
        else:
            self._take(event.object)
        self._derive()

    def _take(self, pod: JsonObject) -> None:
        uid, names = pod["metadata"]["uid"], self.writer.names
        asked = decode_pod_amounts(pod, names=names)
        if asked == NO_AMOUNTS or has_ended(pod):
            self._by_uid.pop(uid, None)
            return
        try:
            allocation = read_allocation(pod, names=names)
        except AnnotationError:  # NodePods tells of it
            allocation = None
        self._by_uid[uid] = CountedPod(asked=asked, allocation=allocation)

    def _derive(self) -> None:
        if self._is_known:
            self.writer.want(stated_amounts(self.inventory.get(), self._by_uid.values()))


def _amount(text: object) -> int:
    """The API server writes 64000 as `64k`; what cannot be read is no amount of ours."""
    try:
        return int(parse_quantity(str(text)).value)
    except QuantityError:
        return -1
