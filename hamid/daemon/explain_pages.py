"""What a person asks the leader about pods: /explain/<namespace>/<pod> and /fit; see docs/explain.md.

Both only read. As with /debug, callers on this machine are answered, others only where the operator
has opened the pages: they name pods of all namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
from aiohttp import web
from multidict import MultiDict

from hamid.daemon.debug import assert_near
from hamid.errors import RequestError
from hamid.model.quantities import QuantityError, parse_quantity
from hamid.sched.answers import WhatIf
from hamid.web.responses import json_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multidict import MultiMapping

    from hamid.kube.port import JsonObject
    from hamid.model.names import ResourceNames
    from hamid.sched.explainer import Explainer

CONTAINER: Final = "main"
"""The name that the only container of a shape has."""

_HOST: Final = ("cpu", "memory")
_OTHERS: Final = ("namespace", "annotation", "without-node", "without-card", "with-node")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainPages:
    """The two routes.

    Args:
        is_open: answer callers from other machines, too.
    """

    explainer: Explainer
    is_open: bool = False

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """All routes."""
        return (
            web.get("/explain/{namespace}/{pod}", self._explain),
            web.get("/fit", self._fit),
        )

    async def _explain(self, request: web.Request) -> web.Response:
        self._admit(request)
        found = request.match_info
        return _json(await self.explainer.explain(found["namespace"], found["pod"]))

    async def _fit(self, request: web.Request) -> web.Response:
        self._admit(request)
        return _json(await fit_of_query(self.explainer, request.query.items()))

    def _admit(self, request: web.Request) -> None:
        assert_near(request, what="/explain and /fit answer", is_open=self.is_open)


async def fit_of_query(explainer: Explainer, pairs: Iterable[tuple[str, str]]) -> JsonObject:
    """How many more pods fit, of the shape and under what the query describes.

    Raises:
        RequestError, Refusal: see `Explainer.fit`.
    """
    query = MultiDict(pairs)
    pod = pod_of_query(query, explainer.settings.resources)
    what_if = WhatIf(
        without_nodes=tuple(query.getall("without-node", [])),
        without_cards=tuple(query.getall("without-card", [])),
        with_nodes=tuple(query.getall("with-node", [])),
    )
    return await explainer.fit(pod, what_if)


def pod_of_query(query: MultiMapping[str], names: ResourceNames) -> JsonObject:
    """A pod of one container as the query describes it.

    Raises:
        RequestError: the query has a word that means nothing here.
    """
    resource_by_word = {
        "gpu": names.count,
        "gpumem": names.memory,
        "gpumem-percentage": names.memory_percentage,
        "gpucores": names.cores,
    } | {word: word for word in _HOST}
    known = (*resource_by_word, *_OTHERS)
    for word in query:
        if word not in known:
            raise RequestError(f"{word!r} means nothing here", hint=f"use {', '.join(known)}")
    amounts = {resource_by_word[word]: query[word] for word in resource_by_word if word in query}
    for word in _HOST:
        _assert_amount(word, query.get(word, "0"))
    annotations = {}
    for text in query.getall("annotation", []):
        key, is_given, value = text.partition("=")
        if not is_given:
            raise RequestError(f"annotation {text!r} has no value", hint="write KEY=VALUE")
        annotations[key] = value
    meta = {"name": "shape", "namespace": query.get("namespace", ""), "uid": ""}
    return {
        "metadata": {**meta, "annotations": annotations},
        "spec": {"containers": [{"name": CONTAINER, "resources": {"limits": amounts}}]},
    }


def _assert_amount(word: str, text: str) -> None:
    """Of pods that are really created the API server sees to that."""
    try:
        if parse_quantity(text).value >= 0:
            return
        problem = f"{text!r} is below 0"
    except QuantityError as error:
        problem = str(error)
    raise RequestError(f"{word}: {problem}", hint="write an amount such as 500m, 4 or 16Gi")


def _json(value: JsonObject) -> web.Response:
    return json_body(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
