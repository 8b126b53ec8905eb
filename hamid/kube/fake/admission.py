"""Calls to the mutating webhooks that are registered in the fake, as the real server makes them.

Not imitated: reinvocation, and CEL: `matchConditions` are asked of `match_condition`, a Python
predicate; without one, every webhook is called whatever its conditions say. Validating webhooks and
policies are stored and not asked.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from hamid.kube.errors import Unavailable, error_for_status
from hamid.kube.fake.patches import json_patched
from hamid.kube.fake.selectors import matches_labels
from hamid.kube.port import MUTATING_WEBHOOKS, NAMESPACES

if TYPE_CHECKING:
    from hamid.kube.fake.store import Store
    from hamid.kube.port import JsonObject, Resource

Review = Callable[["JsonObject"], Awaitable["JsonObject"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A create or update on its way to the store."""

    verb: str
    resource: Resource
    namespace: str | None
    name: str
    before: JsonObject | None
    is_dry_run: bool
    caller: str
    subresource: str = ""


@dataclass(slots=True, kw_only=True)
class Admission:
    """Asks the webhooks.

    Attributes:
        in_process: by webhook name, a coroutine function that takes the AdmissionReview and
            returns the answer: instead of an HTTPS call, for tests without sockets.
        service_url: the base URL of a service's namespace, name and port, for `clientConfig.service`.
        match_condition: whether a CEL expression holds for an object.
    """

    store: Store
    in_process: dict[str, Review] = field(default_factory=dict)
    service_url: Callable[[str, str, int], str] | None = None
    match_condition: Callable[[str, JsonObject], bool] | None = None

    async def admit(self, operation: Operation, item: JsonObject) -> JsonObject:
        """The object as the webhooks leave it; raises what the first refusal says."""
        configurations = self.store.select(MUTATING_WEBHOOKS, lambda _: True)
        for configuration in configurations:
            for webhook in configuration.get("webhooks") or ():
                if self._is_meant(webhook, operation, item):
                    item = await self._ask(webhook, operation, item)
        return item

    def _is_meant(self, webhook: JsonObject, operation: Operation, item: JsonObject) -> bool:
        if operation.resource.group == MUTATING_WEBHOOKS.group:
            return False  # as the real server: a webhook cannot lock itself in
        if not any(_is_in_rule(rule, operation) for rule in webhook.get("rules") or ()):
            return False
        if not matches_labels(webhook.get("objectSelector"), item["metadata"].get("labels") or {}):
            return False
        if operation.namespace is not None:
            namespace = self.store.get(NAMESPACES, None, operation.namespace) or {"metadata": {}}
            labels = namespace["metadata"].get("labels") or {}
            if not matches_labels(webhook.get("namespaceSelector"), labels):
                return False
        conditions = webhook.get("matchConditions") or ()
        judge = self.match_condition
        return judge is None or all(judge(entry["expression"], item) for entry in conditions)

    async def _ask(self, webhook: JsonObject, operation: Operation, item: JsonObject) -> JsonObject:
        review = _review(operation, item)
        try:
            answer = await self._answer(webhook, review)
            response = _response(answer, review)
        except (
            aiohttp.ClientError,
            OSError,
            TimeoutError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:
            if webhook.get("failurePolicy") == "Ignore":
                return item
            raise _Failed(
                f'Internal error occurred: failed calling webhook "{webhook["name"]}": {error!r}'
            ) from error
        if not response.get("allowed"):
            raise _refusal(webhook["name"], response.get("status") or {})
        if patch := response.get("patch"):
            patched: JsonObject = json_patched(item, orjson.loads(base64.b64decode(patch)))
            return patched
        return item

    async def _answer(self, webhook: JsonObject, review: JsonObject) -> JsonObject:
        timeout_s = float(webhook.get("timeoutSeconds") or 10)
        async with asyncio.timeout(timeout_s):
            if local := self.in_process.get(webhook["name"]):
                return await local(review)
            return await self._post(webhook["clientConfig"], review, timeout_s)

    async def _post(
        self, client_config: JsonObject, review: JsonObject, timeout_s: float
    ) -> JsonObject:
        tls: ssl.SSLContext | bool = True
        if bundle := client_config.get("caBundle"):
            tls = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
            # The real API server asks for no key identifiers.
            tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "kube-apiserver-admission",
        }
        async with aiohttp.ClientSession() as session:
            url = self._url(client_config)
            query = {"timeout": f"{timeout_s:g}s"}
            body = orjson.dumps(review)
            async with session.post(
                url, params=query, data=body, headers=headers, ssl=tls
            ) as response:
                response.raise_for_status()
                answer: JsonObject = orjson.loads(await response.read())
                return answer

    def _url(self, client_config: JsonObject) -> str:
        if url := client_config.get("url"):
            return str(url)
        service = client_config["service"]
        if self.service_url is None:
            raise ValueError("the fake was not told where services are (`service_url`)")
        base = self.service_url(service["namespace"], service["name"], service.get("port", 443))
        return base + str(service.get("path") or "/")


class _Failed(Unavailable):
    """A webhook could not be asked, and fails closed."""

    code = 500
    reason = "InternalError"


def _is_in_rule(rule: JsonObject, operation: Operation) -> bool:
    resource = operation.resource
    name = resource.plural + (f"/{operation.subresource}" if operation.subresource else "")
    scope = rule.get("scope") or "*"
    wanted = "Namespaced" if resource.is_namespaced else "Cluster"
    return (
        _has(rule.get("operations"), operation.verb.upper())
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), resource.version)
        and (_has(rule.get("resources"), name) or "*/*" in (rule.get("resources") or ()))
        and scope in {"*", wanted}
    )


def _has(values: Any, value: str) -> bool:
    return bool(values) and ("*" in values or value in values)


def _review(operation: Operation, item: JsonObject) -> JsonObject:
    resource = operation.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    address = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": address,
        "requestKind": kind,
        "requestResource": address,
        "name": operation.name,
        "operation": operation.verb.upper(),
        "userInfo": {"username": operation.caller, "groups": ["system:authenticated"]},
        "object": item,
        "oldObject": operation.before,
        "dryRun": operation.is_dry_run,
        "options": {"kind": f"{operation.verb.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if operation.namespace is not None:
        request["namespace"] = operation.namespace
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _response(answer: JsonObject, review: JsonObject) -> JsonObject:
    response: JsonObject = answer["response"]
    if response["uid"] != review["request"]["uid"]:
        raise ValueError("the answer has another uid than the request")
    return response


def _refusal(name: str, status: JsonObject) -> Exception:
    code = max(int(status.get("code") or 0), HTTPStatus.BAD_REQUEST)
    said = status.get("message") or status.get("reason")
    how = f"the request: {said}" if said else "the request without explanation"
    return error_for_status(code, status, message=f'admission webhook "{name}" denied {how}')
