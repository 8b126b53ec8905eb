"""The fake over HTTP: kubectl at work, and the answers that no client of ours asks for."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

from hamid.kube.fake import FakeApi, FakeApiServer, FakeFeatures, FakeKube
from hamid.kube.port import CONFIG_MAPS, NODES, PODS, PatchKind
from tests.contracts.kube_contract import config_map, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    image: %s
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: x}]}
"""


class Kubectl:
    """kubectl with a kubeconfig of the fake server."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._env = {"KUBECONFIG": str(kubeconfig), "HOME": str(home), "PATH": "/usr/bin:/bin"}

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            env=self._env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate(stdin.encode())
        assert process.returncode == 0, output.decode()
        return output.decode()


@pytest.fixture
async def kubectl(server: FakeApiServer, tmp_path: Path) -> Kubectl:
    return Kubectl(server.write_kubeconfig(tmp_path / "kubeconfig"), tmp_path)


@pytest.fixture(params=["1.33", "1.37"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[FakeApiServer]:
    # One that most kubectls are near to, and one that new ones stream lists from.
    api = FakeApi(features=FakeFeatures(version=request.param))
    async with FakeApiServer.serve(api) as server:
        yield server


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.strip()]


@needs_kubectl
@pytest.mark.slow
async def test_kubectl_applies_gets_describes_and_deletes(
    server: FakeApiServer, kubectl: Kubectl
) -> None:
    kube = FakeKube(api=server.api)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "n1"}, "status": ready}
    await kube.create(NODES, node | {"status": ready | {"nodeInfo": {"kubeletVersion": "v1.33"}}})

    assert await kubectl("apply", "-f", "-", stdin=POD % "one") == "pod/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=POD % "two") == "pod/web configured\n"
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/d created\n"
    found = await kube.get(PODS, "web", namespace="default")
    await kube.bind(
        namespace="default",
        name="web",
        uid=found["metadata"]["uid"],
        node_name="n1",
        annotations={"who": "me"},
    )

    assert rows(await kubectl("get", "pods,nodes")) == [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["pod/web", "0/1", "Pending", "0", "0s"],
        ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
        ["node/n1", "Ready", "<none>", "0s", "v1.33"],
    ]
    assert rows(await kubectl("get", "pods", "-A", "-o", "wide"))[1][7:9] == ["n1", "<none>"]
    assert "who: me" in await kubectl("describe", "pod", "web")
    assert "web" in await kubectl("describe", "node", "n1")
    assert "two" in await kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}")
    assert await kubectl("label", "pod", "web", "a=b") == "pod/web labeled\n"
    assert await kubectl("get", "pods", "-l", "a=b", "-o", "name") == "pod/web\n"
    assert rows(await kubectl("get", "deploy"))[1][:2] == ["d", "0/2"]
    assert "deleted" in await kubectl("delete", "pod", "web", "--now", "--wait=false")
    assert rows(await kubectl("get", "pods"))[1][2] == "Terminating"
    assert "deleted" in await kubectl("delete", "pod", "web", "--force")
    assert "No resources found" in await kubectl("get", "pods")


@needs_kubectl
@pytest.mark.slow
async def test_kubectl_applies_at_the_server_waits_and_prints_versions(
    server: FakeApiServer, kubectl: Kubectl
) -> None:
    applied = await kubectl("apply", "--server-side", "-f", "-", stdin=POD % "one")
    waited = await kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/web")

    assert applied == "pod/web serverside-applied\n"
    assert waited == "pod/web condition met\n"
    assert "Server Version: v1.3" in await kubectl("version")
    assert "mutatingwebhookconfigurations" in await kubectl("api-resources")


@pytest.fixture
async def http(server: FakeApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


async def test_a_watch_that_is_to_be_a_list_says_where_the_list_ends() -> None:
    api = FakeApi(features=FakeFeatures(version="1.37"))
    kube = FakeKube(api=api)
    for name in ("a", "b"):
        await kube.create(CONFIG_MAPS, config_map(name), namespace="default")
    query = {"watch": "true", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    asked = {**query, "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": "60"}

    async with (
        FakeApiServer.serve(api) as server,
        aiohttp.ClientSession(server.url) as http,
        http.get("/api/v1/namespaces/default/configmaps", params=asked) as answer,
    ):
        events = [orjson.loads(await answer.content.readline()) for _ in range(3)]
        await kube.create(CONFIG_MAPS, config_map("c"), namespace="default")
        events.append(orjson.loads(await answer.content.readline()))

    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK", "ADDED"]
    end = events[2]["object"]["metadata"]
    assert end["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert end["resourceVersion"] == events[1]["object"]["metadata"]["resourceVersion"]


@pytest.mark.parametrize("server", ["1.33"], indirect=True)
async def test_an_older_server_refuses_a_watch_that_is_to_be_a_list(
    http: aiohttp.ClientSession,
) -> None:
    asked = {"watch": "true", "sendInitialEvents": "true"}
    async with http.get("/api/v1/nodes", params=asked) as answer:
        assert answer.status == 422
        assert "WatchList" in await answer.text()


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/api", 200),
        ("GET", "/openapi/v3", 200),
        ("GET", "/openapi/v3/apis/apps/v1", 200),
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/default/status", 200),
        ("GET", "/api/v1/namespaces/default/pods", 200),
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/nothings", 404),
        ("GET", "/apis/nothing.example/v1", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/log", 404),
        ("POST", "/api/v1/namespaces/default/pods/a/status", 405),
        ("PATCH", "/api/v1/nodes/n", 415),
        ("DELETE", "/api/v1/namespaces/default/configmaps", 200),
        ("HEAD", "/api/v1/nodes", 405),
    ],
)
async def test_a_path_is_answered_with_the_code_it_deserves(
    http: aiohttp.ClientSession, method: str, path: str, code: int
) -> None:
    async with http.request(method, path) as response:
        assert response.status == code


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        ("application/json", b"{", 422),
        ("application/json", b"[]", 422),
        ("application/json", b'{"kind": "Secret", "metadata": {"name": "a"}}', 422),
        ("application/yaml", b"metadata: {name: a}", 201),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00", 415),
    ],
)
async def test_a_body_is_read_or_refused(
    http: aiohttp.ClientSession, content_type: str, body: bytes, code: int
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    async with http.post(path, data=body, headers={"Content-Type": content_type}) as response:
        answer = await response.json()

    assert response.status == code
    if code >= 400:
        assert answer["kind"] == "Status"
        assert answer["message"]


async def test_a_table_is_made_for_who_asks_for_one(
    server: FakeApiServer, http: aiohttp.ClientSession
) -> None:
    kube = FakeKube(api=server.api)
    await kube.create(PODS, pod("a"), namespace="default")
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}

    async def table_of(path: str) -> Any:
        async with http.get(path, headers=headers) as response:
            return await response.json()

    many = await table_of("/api/v1/pods")
    one = await table_of("/api/v1/namespaces/default/pods/a")

    assert many["kind"] == one["kind"] == "Table"
    assert many["rows"][0]["cells"] == one["rows"][0]["cells"]


async def test_bookmarks_come_only_to_who_asks_for_them(http: aiohttp.ClientSession) -> None:
    query = {"watch": "1", "timeoutSeconds": "0.05", "resourceVersion": "1"}
    async with http.get("/api/v1/nodes", params=query) as response:
        assert await response.read() == b""


async def test_an_unknown_token_is_refused_while_there_are_known_ones(
    server: FakeApiServer, http: aiohttp.ClientSession
) -> None:
    server.tokens["t"] = "system:node:n1"

    async with http.get("/api/v1/nodes") as refused:
        assert refused.status == 401
    async with http.get("/api/v1/nodes", headers={"Authorization": "Bearer t"}) as response:
        assert response.status == 200

    assert server.requests.count(caller="system:node:n1") == 1


async def test_a_collection_is_deleted_by_selector(
    server: FakeApiServer, http: aiohttp.ClientSession
) -> None:
    kube = FakeKube(api=server.api)
    for name in ("a", "b"):
        await kube.create(CONFIG_MAPS, config_map(name, labels={"name": name}), namespace="default")

    path = "/api/v1/namespaces/default/configmaps"
    async with http.delete(path, params={"labelSelector": "name=a"}) as response:
        assert response.status == 200

    left = (await kube.list(CONFIG_MAPS)).items
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_an_apply_patch_may_be_yaml(
    server: FakeApiServer, http: aiohttp.ClientSession
) -> None:
    path = "/api/v1/namespaces/default/configmaps/a"
    headers = {"Content-Type": PatchKind.APPLY.value}
    async with http.patch(path, data="data: {x: '1'}", headers=headers) as response:
        assert response.status == 200

    found = await FakeKube(api=server.api).get(CONFIG_MAPS, "a", namespace="default")
    assert found["data"] == {"x": "1"}
