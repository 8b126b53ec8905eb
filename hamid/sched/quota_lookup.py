"""The quotas of one namespace, for a replica that admits a pod.

Every replica admits pods, and there is one on each node: not all of them can watch all quotas,
whose status changes with every pod. So they are read when a pod that asks for devices comes, and
kept for a moment, for pods come in crowds. What is kept may be old: before it counts against a
pod, it is read anew.

Quotas that cannot be read keep nobody out. When the pod is placed, the leader counts them anyway.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from hamid.codec.quota import decode_quota
from hamid.errors import KubeError
from hamid.kube.port import RESOURCE_QUOTAS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.kube.port import KubePort
    from hamid.model.names import ResourceNames
    from hamid.model.quota import Quota

log = structlog.get_logger(__name__)

ANY_VERSION: Final = "0"
_NAMESPACES_KEPT: Final = 1_024


class _Read(NamedTuple):
    quotas: tuple[Quota, ...]
    at_s: float


@dataclass(slots=True, kw_only=True)
class QuotaLookup:
    """Reads quotas, and keeps them for a moment.

    Attributes:
        clock: monotonic.
        keep_s: how long what was read is taken for true.
        wait_s: how long to wait for the API server, which waits for us meanwhile.
    """

    kube: KubePort
    names: ResourceNames
    clock: Callable[[], float]
    keep_s: float = 1.0
    wait_s: float = 1.0
    _kept: OrderedDict[str, _Read] = field(default_factory=OrderedDict, init=False)
    _is_failing: bool = field(default=False, init=False)

    async def known(self, namespace: str) -> tuple[Quota, ...]:
        """The quotas of the namespace, as of a moment ago."""
        kept = self._kept.get(namespace)
        if kept is not None and self.clock() - kept.at_s < self.keep_s:
            return kept.quotas
        return await self._read(namespace, not_older_than=ANY_VERSION)

    async def newest(self, namespace: str) -> tuple[Quota, ...]:
        """The quotas of the namespace as they are."""
        return await self._read(namespace, not_older_than=None)

    async def _read(self, namespace: str, *, not_older_than: str | None) -> tuple[Quota, ...]:
        try:
            async with asyncio.timeout(self.wait_s):
                found = await self.kube.list(
                    RESOURCE_QUOTAS, namespace=namespace, not_older_than=not_older_than
                )
        except (KubeError, TimeoutError) as error:
            if not self._is_failing:
                log.warning("quotas not read", namespace=namespace, error=str(error))
            self._is_failing = True
            return ()
        self._is_failing = False
        notes = (decode_quota(item, names=self.names) for item in found.items)
        quotas = tuple(note.quota for note in notes if note.quota is not None)
        self._keep(namespace, quotas)
        return quotas

    def _keep(self, namespace: str, quotas: tuple[Quota, ...]) -> None:
        self._kept[namespace] = _Read(quotas, self.clock())
        self._kept.move_to_end(namespace)
        while len(self._kept) > _NAMESPACES_KEPT:
            self._kept.popitem(last=False)
