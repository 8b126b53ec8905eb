from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import web

from hamid.kube.errors import Forbidden, Invalid, Unavailable
from hamid.kube.fake import FakeApi, FakeKube
from hamid.kube.port import CONFIG_MAPS, MUTATING_WEBHOOKS, NAMESPACES, PODS, PatchKind
from tests.contracts.kube_contract import config_map, pod
from tests.kube.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from hamid.kube.errors import ApiError
    from hamid.kube.port import JsonObject

LABEL = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]


def configuration(**overrides: Any) -> JsonObject:
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {"metadata": {"name": "hooks"}, "webhooks": [webhook | overrides]}


def answer(review: JsonObject, **response: Any) -> JsonObject:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": True} | response,
    }


def patch_of(operations: list[JsonObject]) -> dict[str, str]:
    text = base64.b64encode(orjson.dumps(operations)).decode()
    return {"patchType": "JSONPatch", "patch": text}


class Hook:
    """A webhook in the process that remembers what it was asked."""

    def __init__(self, **response: Any) -> None:
        self.reviews: list[JsonObject] = []
        self._response = response

    async def __call__(self, review: JsonObject) -> JsonObject:
        self.reviews.append(review)
        return answer(review, **self._response)


async def kube_with(hook: Any, **overrides: Any) -> FakeKube:
    kube = FakeKube(caller="system:someone")
    kube.api.admission.in_process["hook.example.com"] = hook
    await kube.create(MUTATING_WEBHOOKS, configuration(**overrides))
    return kube


async def test_a_webhook_changes_what_is_created() -> None:
    hook = Hook(**patch_of(LABEL))
    kube = await kube_with(hook)

    created = await kube.create(PODS, pod("a"), namespace="default")

    assert created["metadata"]["labels"] == {"seen": "yes"}
    request = hook.reviews[0]["request"]
    assert request["operation"] == "CREATE"
    assert request["namespace"] == "default"
    assert request["userInfo"]["username"] == "system:someone"
    assert request["object"]["spec"]["restartPolicy"] == "Always"
    assert request["oldObject"] is None


async def test_a_webhook_may_refuse() -> None:
    status = {"code": 403, "message": "not here"}
    kube = await kube_with(Hook(allowed=False, status=status))

    with pytest.raises(Forbidden, match=r'"hook\.example\.com" denied the request: not here'):
        await kube.create(PODS, pod("a"), namespace="default")


async def test_a_refusal_without_a_code_is_a_bad_request() -> None:
    kube = await kube_with(Hook(allowed=False))

    with pytest.raises(Invalid, match="without explanation"):
        await kube.create(PODS, pod("a"), namespace="default")


@pytest.mark.parametrize(
    "overrides",
    [
        {"objectSelector": {"matchLabels": {"a": "b"}}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
        {"rules": [{"operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"]}]},
        {
            "rules": [
                {
                    "operations": ["*"],
                    "apiGroups": ["*"],
                    "apiVersions": ["*"],
                    "resources": ["*"],
                    "scope": "Cluster",
                }
            ]
        },
    ],
    ids=["labels", "namespace", "operation", "scope"],
)
async def test_a_webhook_is_asked_only_what_it_selects(overrides: dict[str, Any]) -> None:
    hook = Hook()
    kube = await kube_with(hook, **overrides)

    await kube.create(PODS, pod("a"), namespace="default")
    await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")

    assert hook.reviews == []


async def test_conditions_are_judged_by_the_predicate_that_is_given() -> None:
    hook = Hook()
    conditions = [{"name": "gpu", "expression": "has gpu"}]
    kube = await kube_with(hook, matchConditions=conditions)

    def judge(_expression: str, item: JsonObject) -> bool:
        return item["metadata"]["name"] == "b"

    kube.api.admission.match_condition = judge
    for name in ("a", "b"):
        await kube.create(PODS, pod(name), namespace="default")

    assert [review["request"]["name"] for review in hook.reviews] == ["b"]


async def test_an_update_shows_the_old_object() -> None:
    hook = Hook()
    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    kube = await kube_with(hook, rules=[rule | {"resources": ["configmaps"]}])
    await kube.create(CONFIG_MAPS, config_map("a", data={"x": "1"}), namespace="default")

    patch = {"data": {"x": "2"}}
    await kube.patch(CONFIG_MAPS, "a", patch, kind=PatchKind.MERGE, namespace="default")

    request = hook.reviews[0]["request"]
    assert request["oldObject"]["data"] == {"x": "1"}
    assert request["object"]["data"] == {"x": "2"}


async def test_a_patch_is_applied_to_what_the_object_has_become_meanwhile() -> None:
    kube: FakeKube

    async def slow_hook(review: JsonObject) -> JsonObject:
        if review["request"]["object"]["data"].get("y") is None:
            kube.api.admission.in_process["hook.example.com"] = Hook()
            patch = {"data": {"y": "1"}}
            await kube.patch(CONFIG_MAPS, "a", patch, kind=PatchKind.MERGE, namespace="default")
        return answer(review)

    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    kube = await kube_with(slow_hook, rules=[rule | {"resources": ["configmaps"]}])
    await kube.create(CONFIG_MAPS, config_map("a"), namespace="default")

    patch = {"data": {"x": "1"}}
    changed = await kube.patch(CONFIG_MAPS, "a", patch, kind=PatchKind.MERGE, namespace="default")

    assert changed["data"] == {"x": "1", "y": "1"}


@pytest.mark.parametrize(("policy", "is_created"), [("Ignore", True), ("Fail", False)])
async def test_a_webhook_that_fails_lets_through_or_not_by_its_policy(
    policy: str,
    is_created: bool,  # noqa: FBT001
) -> None:
    kube = FakeKube()
    await kube.create(MUTATING_WEBHOOKS, configuration(failurePolicy=policy))

    error: ApiError | None = None
    try:
        await kube.create(PODS, pod("a"), namespace="default")
    except Unavailable as caught:
        error = caught

    assert (error is None) is is_created
    if error is not None:
        assert 'failed calling webhook "hook.example.com"' in error.message


@pytest.mark.looptime
async def test_a_webhook_has_the_time_that_it_is_given() -> None:
    async def slow(review: JsonObject) -> JsonObject:
        await asyncio.sleep(6)
        return answer(review)

    kube = await kube_with(slow, timeoutSeconds=5)

    with pytest.raises(Unavailable, match="failed calling webhook"):
        await kube.create(PODS, pod("a"), namespace="default")


@asynccontextmanager
async def https_hook(
    authority: Authority, directory: Path, path: str
) -> AsyncIterator[tuple[int, list[web.Request]]]:
    seen: list[web.Request] = []

    async def mutate(request: web.Request) -> web.Response:
        seen.append(request)
        return web.json_response(answer(await request.json(), **patch_of(LABEL)))

    app = web.Application()
    app.router.add_post(path, mutate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.server_context(directory))
    await site.start()
    try:
        yield runner.addresses[0][1], seen
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("is_service", [True, False], ids=["by service", "by url"])
async def test_a_webhook_is_called_over_https_and_known_by_its_bundle(
    tmp_path: Path,
    is_service: bool,  # noqa: FBT001
) -> None:
    authority = Authority()
    bundle = base64.b64encode(authority.pem.encode()).decode()
    async with https_hook(authority, tmp_path, "/mutate") as (port, seen):
        api = FakeApi()
        api.admission.service_url = lambda *_: f"https://127.0.0.1:{port}"
        where: JsonObject = {"url": f"https://127.0.0.1:{port}/mutate"}
        if is_service:
            where = {"service": {"namespace": "hamid", "name": "hook", "path": "/mutate"}}
        kube = FakeKube(api=api)
        config = configuration(clientConfig=where | {"caBundle": bundle})
        await kube.create(MUTATING_WEBHOOKS, config)

        created = await kube.create(PODS, pod("a"), namespace="default")

    assert created["metadata"]["labels"] == {"seen": "yes"}
    assert seen[0].query["timeout"] == "10s"
    assert seen[0].headers["User-Agent"] == "kube-apiserver-admission"


async def test_webhooks_are_not_asked_about_webhooks() -> None:
    hook = Hook(allowed=False)
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    kube = await kube_with(hook, rules=[rule])

    with pytest.raises(Invalid):
        await kube.create(NAMESPACES, {"metadata": {"name": "x"}})
    await kube.delete(MUTATING_WEBHOOKS, "hooks")
    await kube.create(NAMESPACES, {"metadata": {"name": "x"}})
