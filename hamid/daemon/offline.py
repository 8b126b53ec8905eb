"""What the leader answers, without a leader: on a copy of a cluster, from a file or listed now.

The copy goes into a cache of its own, through the same doors as the news of the watches, so that
its answers are those that a leader would give which has just begun to lead: it knows no decision.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from hamid.codec.cluster_copy import cluster_copy, decode_cluster_copy
from hamid.daemon.settings import load_settings
from hamid.errors import TraceError
from hamid.kube.client import KubeClient
from hamid.kube.port import NODES, PODS, RESOURCE_QUOTAS
from hamid.kube.shapes import first_misfit, quoted
from hamid.sched.cache import ClusterCache
from hamid.sched.explainer import Explainer
from hamid.sched.leadership import FixedLeadership
from hamid.sched.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import TypeVar

    from hamid.codec.cluster_copy import ClusterCopy
    from hamid.daemon.settings import Settings
    from hamid.kube.port import KubePort
    from hamid.sched.settings import SchedSettings

    T = TypeVar("T")

STDIN: Final = Path("-")
_NOBODY: Final = "nobody"


def read_copy(path: Path) -> ClusterCopy:
    """The copy in the file; `-` is standard input.

    Raises:
        TraceError: it cannot be read.
    """
    if path == STDIN:
        return _well_formed("standard input", sys.stdin.buffer.read())
    try:
        text = path.read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise TraceError(f"{path} cannot be read: {why}", hint="check the path") from error
    return _well_formed(path.name, text)


def _well_formed(source: str, text: bytes) -> ClusterCopy:
    """The copy in the text, if all in it is of the kind that the API server would send."""
    copy = decode_cluster_copy(text, source=source)
    _assert_readable(copy, source, hint="take the copy as kubectl writes it")
    return copy


def _assert_readable(copy: ClusterCopy, source: str, *, hint: str) -> None:
    for resource, items in ((NODES, copy.nodes), (PODS, copy.pods), (RESOURCE_QUOTAS, copy.quotas)):
        for item in items:
            if (misfit := first_misfit(resource, item)) is not None:
                raise TraceError(
                    f"{source}: {resource.kind} {item['metadata']['name']}: {misfit.place} is "
                    f"{quoted(misfit.found)}, not {misfit.expected}",
                    hint=hint,
                )


def settings_of(config: Path | None, kubeconfig: Path | None) -> Settings:
    """The daemon's settings, for its policies and names, and for the way to the API server."""
    return load_settings(config, node_name=_NOBODY, kubeconfig=kubeconfig)


async def list_cluster(kube: KubePort) -> ClusterCopy:
    """The cluster as it is now; three lists, and nothing is written.

    Raises:
        KubeError: it cannot be listed.
        TraceError: who answers is no API server.
    """
    source, hint = "the API server", "compare the server with the one that kubectl asks"
    lists = [(await kube.list(resource)).items for resource in (NODES, PODS, RESOURCE_QUOTAS)]
    copy = cluster_copy(chain.from_iterable(lists), source=source, hint=hint)
    _assert_readable(copy, source, hint=hint)
    return copy


def live_copy(settings: Settings) -> ClusterCopy:
    """The cluster that the settings lead to, as it is now."""

    async def read() -> ClusterCopy:
        async with KubeClient.open(settings.kube) as kube:
            return await list_cluster(kube)

    return answered(read())


def explainer_of(copy: ClusterCopy, settings: SchedSettings) -> Explainer:
    """An explainer that knows the copy, and that nothing changes."""
    cache = ClusterCache(settings=settings, clock=lambda: 0.0, registry=CollectorRegistry())
    cache.take_nodes(copy.nodes)
    cache.take_quotas(copy.quotas)
    cache.take_pods(copy.pods)
    return Explainer(
        cache=cache,
        verdicts=Verdicts(capacity=1),
        leadership=FixedLeadership(),
        settings=settings,
    )


def answered(answer: Awaitable[T]) -> T:
    """Wait for one answer, outside of any loop."""

    async def wait() -> T:
        return await answer

    return asyncio.run(wait())
