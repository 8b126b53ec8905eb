"""Calls our extender as kube-scheduler does: over HTTP, with node names only."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from hamid.errors import ExtenderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.kube.port import JsonObject

_HINT = "see the daemon's log"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAnswer:
    """What the extender said: nodes that fit, and why each other does not."""

    node_names: tuple[str, ...]
    failed: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class ExtenderClient:
    """The extender's three verbs."""

    session: aiohttp.ClientSession
    url: str

    async def filter(self, pod: JsonObject, node_names: Sequence[str]) -> FilterAnswer:
        """Which of the nodes fit."""
        answer = await self._call("filter", {"Pod": pod, "Nodes": None, "NodeNames": node_names})
        if answer.get("Error"):
            raise ExtenderError(answer["Error"], hint=_HINT)
        failed = {**(answer.get("FailedNodes") or {})}
        failed |= answer.get("FailedAndUnresolvableNodes") or {}
        return FilterAnswer(node_names=tuple(answer.get("NodeNames") or ()), failed=failed)

    async def prioritize(self, pod: JsonObject, node_names: Sequence[str]) -> dict[str, int]:
        """The score of each node."""
        answer = await self._call(
            "prioritize", {"Pod": pod, "Nodes": None, "NodeNames": node_names}
        )
        return {entry["Host"]: entry["Score"] for entry in answer}

    async def bind(self, pod: JsonObject, node_name: str) -> None:
        """Bind the pod to the node."""
        metadata = pod["metadata"]
        answer = await self._call(
            "bind",
            {
                "PodName": metadata["name"],
                "PodNamespace": metadata["namespace"],
                "PodUID": metadata["uid"],
                "Node": node_name,
            },
        )
        if answer.get("Error"):
            raise ExtenderError(answer["Error"], hint=_HINT)

    async def _call(self, verb: str, body: object) -> Any:
        try:
            async with self.session.post(
                f"{self.url}/{verb}",
                data=orjson.dumps(body),
                headers={"Content-Type": "application/json"},
            ) as response:
                content = await response.read()
                if response.status != HTTPStatus.OK:
                    raise ExtenderError(
                        f"the extender answered {verb} with {response.status}: "
                        f"{content[:256].decode(errors='replace')}",
                        hint=_HINT,
                    )
                return orjson.loads(content)
        except aiohttp.ClientError as error:
            raise ExtenderError(f"the extender is not reached: {error!r}", hint=_HINT) from error
