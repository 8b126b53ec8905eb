"""Repetition, credentials, TLS and deadlines, against the fake server."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml

from hamid.kube.client import KubeClient
from hamid.kube.errors import (
    Conflict,
    Forbidden,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Withheld,
)
from hamid.kube.fake import FakeApiServer, Fault, FaultKind
from hamid.kube.port import CONFIG_MAPS, NAMESPACES, PODS
from hamid.kube.settings import KubeSettings
from hamid.kube.transport import beginning
from tests.contracts.kube_contract import pod
from tests.kube.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

    from hamid.kube.errors import (
        ApiError,
    )

SECRET = {"metadata": {"name": "a"}, "data": {"x": "secret"}}


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_read_is_tried_again(server: FakeApiServer, kube: KubeClient, code: int) -> None:
    server.faults.add(Fault(kind=FaultKind.STATUS, code=code, times=3))

    await kube.get(NAMESPACES, "default")

    assert server.requests.count(verb="get") == 4


async def test_a_read_whose_connection_dies_is_tried_again(
    server: FakeApiServer, kube: KubeClient
) -> None:
    await kube.get(NAMESPACES, "default")
    server.faults.add(Fault(kind=FaultKind.LOSE_ANSWER))

    await kube.get(NAMESPACES, "default")


async def test_tries_are_counted(server: FakeApiServer, kube: KubeClient) -> None:
    server.faults.add(Fault(kind=FaultKind.STATUS, code=503, times=None))

    with pytest.raises(Unavailable, match="told to fail"):
        await kube.get(NAMESPACES, "default")

    assert server.requests.count() == 4


async def test_a_write_is_tried_again_when_the_server_did_nothing(
    server: FakeApiServer, kube: KubeClient
) -> None:
    server.faults.add(Fault(kind=FaultKind.STATUS, code=429))

    await kube.create(CONFIG_MAPS, SECRET, namespace="default")

    assert server.requests.count(verb="create") == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind=FaultKind.LOSE_ANSWER),
        Fault(kind=FaultKind.STATUS, code=500),
        Fault(kind=FaultKind.STATUS, code=503),
    ],
    ids=["answer lost", "500", "503"],
)
async def test_a_write_whose_fate_is_unknown_is_not_tried_again(
    server: FakeApiServer, kube: KubeClient, fault: Fault
) -> None:
    server.faults.add(fault)

    with pytest.raises(Unavailable):
        await kube.create(CONFIG_MAPS, SECRET, namespace="default")

    assert server.requests.count(verb="create") == 1


async def test_a_replacement_and_a_deletion_are_not_repeated_when_a_kept_connection_dies(
    server: FakeApiServer, kube: KubeClient
) -> None:
    created = await kube.create(CONFIG_MAPS, SECRET, namespace="default")
    server.faults.add(Fault(kind=FaultKind.LOSE_ANSWER, times=2))

    with pytest.raises(Unavailable):
        await kube.replace(CONFIG_MAPS, created | {"data": {"x": "new"}})
    with pytest.raises(Unavailable):
        await kube.delete(CONFIG_MAPS, "a", namespace="default")

    assert server.requests.count(verb="update") == 1
    assert server.requests.count(verb="delete") == 1


async def test_a_bind_whose_answer_was_lost_is_found_out_by_trying_again(
    server: FakeApiServer, kube: KubeClient
) -> None:
    created = await kube.create(PODS, pod("a"), namespace="default")
    server.faults.add(Fault(kind=FaultKind.LOSE_ANSWER, resource="pods/binding"))
    uid = created["metadata"]["uid"]

    for wanted in (Unavailable, Conflict):
        with pytest.raises(wanted):
            await kube.bind(
                namespace="default", name="a", uid=uid, node_name="n1", annotations={"x": "y"}
            )

    found = await kube.get(PODS, "a", namespace="default")
    assert found["metadata"]["annotations"] == {"x": "y"}


async def test_what_may_no_longer_be_written_does_not_reach_the_server(
    server: FakeApiServer, kube: KubeClient
) -> None:
    guarded = kube.guarded(lambda: False)

    with pytest.raises(Withheld, match="not sent"):
        await guarded.create(CONFIG_MAPS, SECRET, namespace="default")
    await kube.get(NAMESPACES, "default")
    with pytest.raises(Withheld):  # over a connection that stands already
        await guarded.create(CONFIG_MAPS, SECRET, namespace="default")

    assert server.requests.count() == 1


async def test_the_guard_is_asked_again_before_a_write_is_repeated(
    server: FakeApiServer, kube: KubeClient
) -> None:
    server.faults.add(Fault(kind=FaultKind.STATUS, code=429))

    with pytest.raises(Withheld):
        await kube.guarded(lambda: not server.requests.count()).create(
            CONFIG_MAPS, SECRET, namespace="default"
        )

    assert server.requests.count(verb="create") == 1


async def test_the_guard_is_asked_when_nothing_is_left_to_wait_for(
    server: FakeApiServer, kube: KubeClient
) -> None:
    waited: list[str] = []

    class Authenticator:
        async def header(self) -> str:
            waited.append("credentials")
            return ""

    kube.transport.access = replace(kube.transport.access, authenticator=Authenticator())
    guarded = kube.guarded(lambda: bool(waited.append("guard")))

    with pytest.raises(Withheld):
        await guarded.create(CONFIG_MAPS, SECRET, namespace="default")

    assert waited == ["credentials", "guard"]
    assert not server.requests.count()


async def test_an_eviction_that_may_not_be_is_not_tried_again(
    server: FakeApiServer, kube: KubeClient
) -> None:
    await kube.create(PODS, pod("a"), namespace="default")
    server.faults.add(Fault(kind=FaultKind.STATUS, code=429, resource="pods/eviction"))

    with pytest.raises(TooManyRequests):
        await kube.evict(namespace="default", name="a")

    assert server.requests.count(resource="pods/eviction") == 1


async def test_a_long_wait_is_left_to_the_caller(server: FakeApiServer, kube: KubeClient) -> None:
    server.faults.add(Fault(kind=FaultKind.STATUS, code=429, retry_after_s=60))

    with pytest.raises(TooManyRequests) as caught:
        await kube.get(NAMESPACES, "default")

    assert caught.value.retry_after_s == 60
    assert server.requests.count() == 1


async def test_a_renewed_token_is_used_when_the_old_one_is_refused(
    server: FakeApiServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server.tokens["old"] = "me"
    path = server.write_kubeconfig(tmp_path / "k")
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] = {"tokenFile": "token"}
    path.write_text(yaml.safe_dump(document))

    async with KubeClient.open(KubeSettings(kubeconfig=path, retry_count=0)) as kube:
        await kube.get(NAMESPACES, "default")
        token.write_text("new")
        server.tokens = {"new": "me"}
        await kube.get(NAMESPACES, "default")
        server.tokens = {"another": "me"}
        with pytest.raises(Unauthorized):
            await kube.get(NAMESPACES, "default")

    assert server.requests.count(caller="me") == 2


async def test_a_client_certificate_says_who_asks(tmp_path: Path) -> None:
    authority = Authority()
    context = authority.server_context(tmp_path, wants_client=True)
    pair = authority.sign("node-7")
    async with FakeApiServer.serve(tls=context, authority=authority.pem) as server:
        path = server.write_kubeconfig(tmp_path / "k")
        document = yaml.safe_load(path.read_text())
        document["users"][0]["user"] = {
            "client-certificate-data": base64.b64encode(pair.certificate.encode()).decode(),
            "client-key-data": base64.b64encode(pair.key.encode()).decode(),
        }
        path.write_text(yaml.safe_dump(document))
        async with KubeClient.open(KubeSettings(kubeconfig=path, retry_count=0)) as kube:
            await kube.get(NAMESPACES, "default")

        assert server.requests.count(caller="node-7") == 1


async def test_a_server_is_reached_through_the_proxy_of_its_kubeconfig(
    server: FakeApiServer, tmp_path: Path
) -> None:
    path = server.write_kubeconfig(tmp_path / "k")
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"] = {
        "server": "http://not-from-here.invalid",
        "proxy-url": server.url,  # it answers for itself, whatever host is asked for
    }
    path.write_text(yaml.safe_dump(document))

    async with KubeClient.open(KubeSettings(kubeconfig=path, retry_count=0)) as kube:
        await kube.get(NAMESPACES, "default")

    assert server.requests.count(verb="get") == 1


async def test_a_server_that_cannot_be_trusted_is_unavailable(tmp_path: Path) -> None:
    context = Authority().server_context(tmp_path)
    async with FakeApiServer.serve(tls=context, authority=Authority().pem) as server:
        path = server.write_kubeconfig(tmp_path / "k")
        async with KubeClient.open(KubeSettings(kubeconfig=path, retry_count=0)) as kube:
            with pytest.raises(Unavailable, match="certificate verify failed"):
                await kube.get(NAMESPACES, "default")


async def test_a_server_that_is_not_there_is_unavailable_in_words() -> None:
    async with KubeClient.open(KubeSettings(server="http://127.0.0.1:1", retry_count=0)) as kube:
        with pytest.raises(Unavailable, match="get /api/v1/namespaces/default: Cannot connect to"):
            await kube.get(NAMESPACES, "default")


async def test_a_server_that_does_not_answer_is_unavailable(server: FakeApiServer) -> None:
    server.faults.add(Fault(kind=FaultKind.SILENCE, times=None))
    settings = KubeSettings(server=server.url, request_timeout_s=0.05, retry_count=0)
    async with KubeClient.open(settings) as kube:
        with pytest.raises(Unavailable, match="no answer in time"):
            await kube.get(NAMESPACES, "default")


async def test_some_wait_less_long_than_others(server: FakeApiServer, kube: KubeClient) -> None:
    server.faults.add(Fault(kind=FaultKind.SILENCE, verb="create"))

    with pytest.raises(Unavailable, match="no answer in time"):
        await kube.within(0.05).create(CONFIG_MAPS, SECRET, namespace="default")


class Body:
    """A body that comes in pieces, of which a reader gets one at a time."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    async def read(self, limit: int) -> bytes:
        if not self.pieces:
            return b""
        piece = self.pieces.pop(0)
        if rest := piece[limit:]:
            self.pieces.insert(0, rest)
        return piece[:limit]


@pytest.mark.parametrize(
    "pieces", [(), (b"12345678",), (b"1", b"2345", b"678"), (b"12345678", b"9")]
)
async def test_of_an_errors_body_as_much_as_it_may_be_is_read_in_however_many_pieces(
    pieces: tuple[bytes, ...],
) -> None:
    body = Body(*pieces)

    assert await beginning(body, limit=8) == b"".join(pieces)[:8]


@pytest.mark.parametrize("wanted", [Forbidden])
async def test_an_error_never_quotes_what_was_sent(
    server: FakeApiServer, kube: KubeClient, wanted: type[ApiError]
) -> None:
    server.api.gate.authorize = lambda attempt: attempt.verb != "create"

    with pytest.raises(wanted) as caught:
        await kube.create(CONFIG_MAPS, SECRET, namespace="default")

    assert "secret" not in str(caught.value)
    assert "cannot create" in str(caught.value)
