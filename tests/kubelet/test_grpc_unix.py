"""gRPC over unix sockets: closing for good, failing in our words, coming back."""

from __future__ import annotations

import asyncio
import os

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from hamid.kubelet import v1beta1
from hamid.kubelet.errors import CallFailed, NotServed, SocketGone
from hamid.kubelet.grpc_unix import UnixClient, UnixServer, socket_identity


class Kubelet(v1beta1.RegistrationBase):
    """Answers registrations as told: an error, an endless wait, or yes."""

    def __init__(self, error=None, *, is_stuck=False):
        self.error = error
        self.is_stuck = is_stuck
        self.was_called = asyncio.Event()

    async def register(self, message):  # noqa: ARG002 - the signature of the service
        self.was_called.set()
        if self.is_stuck:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return v1beta1.Empty()


def make_client(path, **overrides):
    return UnixClient(path, **{"peer": "the peer", "timeout_s": 5, **overrides})


def register(client):
    request = v1beta1.RegisterRequest()
    return client.call("register", lambda c: v1beta1.RegistrationStub(c).register(request))


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        (Status.UNIMPLEMENTED, NotServed),
        (Status.UNAVAILABLE, SocketGone),
        (Status.INTERNAL, CallFailed),
        (Status.UNKNOWN, CallFailed),
    ],
)
async def test_statuses_become_errors_of_ours(short_path, status, becomes):
    server = await UnixServer.open(short_path / "s", [Kubelet(GRPCError(status, "why"))])
    client = make_client(short_path / "s")

    with pytest.raises(becomes, match="register: the peer") as caught:
        await register(client)

    assert isinstance(caught.value.__cause__, GRPCError)
    client.close()
    await server.close()


async def test_a_long_reason_is_cut(short_path):
    error = GRPCError(Status.INTERNAL, "x" * 10_000)
    server = await UnixServer.open(short_path / "s", [Kubelet(error)])
    client = make_client(short_path / "s")

    with pytest.raises(CallFailed) as caught:
        await register(client)

    assert len(str(caught.value)) < 400
    client.close()
    await server.close()


async def test_closing_a_server_ends_the_calls_that_run(short_path):
    kubelet = Kubelet(is_stuck=True)
    server = await UnixServer.open(short_path / "s", [kubelet])
    client = make_client(short_path / "s")

    async def close_it() -> None:
        await kubelet.was_called.wait()
        await server.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(close_it())
        with pytest.raises(SocketGone, match="not reachable"):
            await register(client)


async def test_a_client_finds_a_server_that_came_back(short_path):
    client = make_client(short_path / "s")
    for _ in range(3):
        server = await UnixServer.open(short_path / "s", [Kubelet()])
        await register(client)
        await server.close()
        with pytest.raises(SocketGone):
            await register(client)
    client.close()


async def test_a_deadline_is_an_error_of_ours(short_path):
    server = await UnixServer.open(short_path / "s", [Kubelet(is_stuck=True)])
    client = make_client(short_path / "s", timeout_s=0.01)

    with pytest.raises(CallFailed, match=r"no answer within 0\.01 s"):
        await register(client)

    client.close()
    await server.close()


async def test_a_new_server_takes_the_place_of_a_stale_file(short_path):
    (short_path / "s").write_text("left over")

    server = await UnixServer.open(short_path / "s", [Kubelet()])

    assert (short_path / "s").is_socket()
    await server.close()
    server.unlink()
    assert not (short_path / "s").exists()


def test_a_socket_that_replaced_another_is_told_from_it(tmp_path):
    path = tmp_path / "s"
    path.touch()
    before = socket_identity(path)
    os.utime(path, ns=(1, 1))  # what any change to the inode does: its change time moves on

    assert before != socket_identity(path)
    assert socket_identity(tmp_path / "none") is None
