"""An API double and a view that follows it, without sockets; and an extender that says what it is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hamid.daemon.simulate.extender_client import FilterAnswer
from hamid.daemon.simulate.roster import Roster
from hamid.daemon.simulate.view import ClusterView
from hamid.errors import ExtenderError
from hamid.kube.fake import FakeKube
from hamid.kube.port import NODES, PODS, EventKind, WatchEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.kube.port import JsonObject, Resource

OUR_NAME = "hamid-scheduler"
TURNS = 50


class SeenKube(FakeKube):
    """A client whose binds the view sees at once."""

    world: World | None = None

    async def bind(self, **binding: Any) -> None:
        """Bind the pod."""
        await super().bind(**binding)
        if self.world is not None:
            await self.world.see()


@dataclass(slots=True, kw_only=True)
class World:
    """The API double, and what the view has seen of it."""

    kube: SeenKube = field(default_factory=SeenKube)
    view: ClusterView = field(default_factory=ClusterView)
    roster: Roster = field(init=False)
    extender: FakeExtender = field(init=False)

    def __post_init__(self) -> None:
        self.kube.world = self
        self.roster = Roster(view=self.view)
        self.extender = FakeExtender(world=self)

    async def add_node(self, name: str, **allocatable: str) -> None:
        """A node of 4 cores, unless it is said otherwise."""
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}
        body = {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": amounts}}
        self.show(NODES, await self.kube.create(NODES, body))

    async def add_pod(self, body: JsonObject, *, is_ours: bool = True) -> str:
        """A pod that the view sees at once; returns its UID."""
        spec = {**({"schedulerName": OUR_NAME} if is_ours else {}), **body["spec"]}
        created = await self.kube.create(PODS, {**body, "spec": spec}, namespace="default")
        self.show(PODS, created)
        return str(created["metadata"]["uid"])

    async def see(self) -> None:
        """Let the view see all pods as they are."""
        self.view.list(PODS, await self.kube.list(PODS))

    def show(self, resource: Resource, item: JsonObject, *, is_gone: bool = False) -> None:
        """Let the view see this object."""
        kind = EventKind.DELETED if is_gone else EventKind.MODIFIED
        self.view.apply(resource, WatchEvent(kind=kind, object=item))

    def pod(self, name: str) -> JsonObject:
        """The pod as the view has it."""
        return next(p for p in self.view.pods.values() if p["metadata"]["name"] == name)


@dataclass(slots=True, kw_only=True)
class FakeExtender:
    """Lets pods onto all nodes but those it was told to refuse, and binds as the real one does."""

    world: World
    refusals: dict[str, str] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    async def filter(self, pod: JsonObject, node_names: Sequence[str]) -> FilterAnswer:
        """All nodes that are not refused."""
        self.asked.append((pod["metadata"]["name"], tuple(node_names)))
        if self.errors:
            raise ExtenderError(self.errors.pop(0), hint="none")
        failed = {name: why for name, why in self.refusals.items() if name in node_names}
        return FilterAnswer(
            node_names=tuple(name for name in node_names if name not in failed), failed=failed
        )

    async def prioritize(self, _pod: JsonObject, node_names: Sequence[str]) -> Mapping[str, int]:
        """What was set."""
        return {name: self.scores.get(name, 0) for name in node_names}

    async def bind(self, pod: JsonObject, node_name: str) -> None:
        """Bind, and let the view see it."""
        metadata = pod["metadata"]
        await self.world.kube.bind(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            node_name=node_name,
            annotations={},
        )


async def turns() -> None:
    """Let everything that can go on go on."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def status(item: JsonObject, **fields: Any) -> JsonObject:
    """The pod with this status, newer than it was."""
    metadata = item["metadata"]
    version = str(int(metadata["resourceVersion"]) + 1)
    return {
        **item,
        "metadata": {**metadata, "resourceVersion": version},
        "status": {**item.get("status", {}), **fields},
    }
