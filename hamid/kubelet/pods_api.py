"""Client of the kubelet's Pods API: whole pods, with UID and annotations, from the node itself.

Alpha in 1.36 and off; on by default in 1.37. Used where it is, done without elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from hamid.kubelet import pods_v1alpha1
from hamid.kubelet.constants import PODS_API_SOCKET
from hamid.kubelet.errors import CallFailed, NotServed
from hamid.kubelet.grpc_unix import UnixClient
from hamid.kubelet.port import KubeletPod

if TYPE_CHECKING:
    from pathlib import Path

    from grpclib.client import Channel

log = structlog.get_logger(__name__)


class PodsApiClient:
    """`PodsApiPort` over the kubelet's socket."""

    def __init__(self, *, socket_path: Path = PODS_API_SOCKET, timeout_s: float = 2.0) -> None:
        self._client = UnixClient(socket_path, peer="the kubelet's Pods API", timeout_s=timeout_s)
        self._is_refused = False

    @property
    def is_served(self) -> bool:
        """Whether this kubelet has the API: the socket is there, and no call was refused."""
        return not self._is_refused and self._client.path.exists()

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
            self._is_refused = True
            log.debug("pods api not served", socket=str(self._client.path))
            raise
        return tuple(decode_pod(payload) for payload in response.pods)

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()


def decode_pod(payload: bytes) -> KubeletPod:
    """Return the pod of a payload (Kubernetes' own protobuf of v1.Pod); raises `CallFailed`."""
    try:
        metadata = pods_v1alpha1.Pod.FromString(payload).metadata
    except Exception as error:  # the library raises whatever the bytes lead it to
        raise CallFailed(
            f"the kubelet's Pods API sent a pod that is no protobuf: {error}",
            hint="report it with the kubelet's version; the API can be switched off in the settings",
        ) from error
    if metadata is None:
        metadata = pods_v1alpha1.ObjectMeta()
    return KubeletPod(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        annotations=dict(metadata.annotations),
    )


async def _list_pods(channel: Channel) -> pods_v1alpha1.ListPodsResponse:
    return await pods_v1alpha1.PodsStub(channel).list_pods(pods_v1alpha1.ListPodsRequest())
