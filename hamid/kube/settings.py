"""How to reach the API server, and how patient to be with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hamid.errors import SettingsError, require_above_zero
from hamid.kube.credentials import (
    IN_POD_DIRECTORY,
    Access,
    access_by_kubeconfig,
    access_in_pod,
    access_to_url,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAddress:
    """Where a pod finds the API server, as the kubelet puts it into the environment.

    Attributes:
        host, port: of the API server's Service.
        directory: of the ServiceAccount's token and the cluster's CA.
    """

    host: str
    port: int
    directory: Path = IN_POD_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """How to reach the API server; exactly one of `kubeconfig`, `in_pod` and `server`.

    Attributes:
        kubeconfig: a file as kubectl reads it.
        context: its context to use instead of the current one.
        in_pod: the address that a pod finds in its environment.
        server: a URL that needs no credentials, such as that of the fake.
        request_timeout_s: deadline of one request, connecting included.
        quiet_timeout_s: a watch silent for so long counts as lost. The server sends a bookmark
            about every minute.
        page_size: objects per page of a list.
        retry_count: how often a call is repeated; writes only where the server did nothing.
        retry_first_wait_s: the wait before the first repetition; it doubles, with jitter.
        retry_wait_max_s: a server that asks to wait longer gets no repetition.
        user_agent: what the server's audit log shows.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    in_pod: PodAddress | None = None
    server: str | None = None
    request_timeout_s: float = 15.0
    quiet_timeout_s: float = 150.0
    page_size: int = 500
    retry_count: int = 3
    retry_first_wait_s: float = 0.2
    retry_wait_max_s: float = 10.0
    user_agent: str = "hamid"

    def __post_init__(self) -> None:
        require_above_zero(self, "request_timeout_s", "quiet_timeout_s", "page_size")

    def access(self, *, clock: Callable[[], float]) -> Access:
        """What these settings say about the server, read now; the clock is monotonic."""
        given = [source for source in (self.kubeconfig, self.in_pod, self.server) if source]
        if len(given) != 1:
            raise SettingsError(
                f"{len(given)} ways to the API server are set, not one of kubeconfig, in_pod, server",
                hint="outside a cluster name a kubeconfig; in a pod leave it out",
            )
        if self.kubeconfig is not None:
            return access_by_kubeconfig(self.kubeconfig, context=self.context, clock=clock)
        if self.in_pod is not None:
            pod = self.in_pod
            return access_in_pod(host=pod.host, port=pod.port, directory=pod.directory, clock=clock)
        return access_to_url(str(self.server))
