"""Client of the kubelet's Pods API: the pods of the node with their UIDs, from the node itself.

Alpha in 1.36 and off; on by default in 1.37. Used where it is, done without elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from hamid.kubelet import pods_v1alpha1
from hamid.kubelet.constants import PODS_API_SOCKET
from hamid.kubelet.errors import CallFailed, NotServed
from hamid.kubelet.grpc_unix import UnixClient, socket_identity
from hamid.kubelet.port import KubeletPod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grpclib.client import Channel

    from hamid.kubelet.grpc_unix import SocketIdentity

log = structlog.get_logger(__name__)

# Fields of Pod and of its ObjectMeta: name, namespace, uid.
_METADATA: Final = 1
_TEXTS: Final = (1, 3, 5)
_VARINT_BYTES: Final = 10


class PodsApiClient:
    """`PodsApiPort` over the kubelet's socket."""

    def __init__(self, *, socket_path: Path = PODS_API_SOCKET, timeout_s: float = 2.0) -> None:
        self._client = UnixClient(socket_path, peer="the kubelet's Pods API", timeout_s=timeout_s)
        self._refusing: SocketIdentity | None = None

    @property
    def is_served(self) -> bool:
        """Whether this kubelet has the API: its socket is there, and refused no call."""
        return socket_identity(self._client.path) not in {None, self._refusing}

    async def list_pods(self) -> tuple[KubeletPod, ...]:
        """Return the pods of the node; raises `NotServed` where `is_served` is false."""
        if not self.is_served:
            raise NotServed(
                f"the kubelet serves no Pods API on {self._client.path}",
                hint="it is on by default from 1.37; before that, do without",
            )
        try:
            response = await self._client.call("list the kubelet's pods", _list_pods)
        except NotServed:
            self._refusing = socket_identity(self._client.path)
            log.debug("pods api not served", socket=str(self._client.path))
            raise
        return tuple(decode_pod(payload) for payload in response.pods)

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()


def decode_pod(payload: bytes) -> KubeletPod:
    """Return the pod of a payload (Kubernetes' own protobuf of v1.Pod); raises `CallFailed`.

    Read by hand, because the kubelet sends whole pods, all of the node's, while it waits for us:
    the generated reader takes ten times as long. Numbers are those of `pods_v1alpha1/pod.proto`.
    """
    try:
        # A message that comes in parts is the sum of them.
        metadata = b"".join(part for number, part in _fields(payload) if number == _METADATA)
        texts = {n: text.decode() for n, text in _fields(metadata) if n in _TEXTS}
    except ValueError as error:
        raise CallFailed(
            f"the kubelet's Pods API sent a pod that is no protobuf: {error}",
            hint="report it with the kubelet's version; the API can be switched off in the settings",
        ) from error
    name, namespace, uid = (texts.get(number, "") for number in _TEXTS)
    return KubeletPod(namespace=namespace, name=name, uid=uid)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and content of each field that has a length; `ValueError` if it is no message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:
                size, at = _varint(message, at)
                if at + size <= len(message):
                    yield key >> 3, message[at : at + size]
                at += size
            case wire_type:
                raise ValueError(f"a field is of wire type {wire_type}")
    if at != len(message):
        raise ValueError("its last field is cut")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at this place, and where the next thing begins."""
    value = shift = 0
    for position in range(at, min(at + _VARINT_BYTES, len(message))):
        value |= (message[position] & 0x7F) << shift
        if message[position] < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return value, position + 1
        shift += 7
    raise ValueError("a number has no end")


async def _list_pods(channel: Channel) -> pods_v1alpha1.ListPodsResponse:
    return await pods_v1alpha1.PodsStub(channel).list_pods(pods_v1alpha1.ListPodsRequest())
