"""What kubelets without a machine would say all the time: leases, and now and then a status.

As a kubelet does: the lease each 10 seconds, the status each 5 minutes when nothing changed.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hamid.aiokit.ticker import every
from tests.cluster.rawapi import Call, CallFailed, patch_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.cluster.rawapi import Object, RawApi

TICK_S: Final = 0.1
STATUS_INTERVAL_S: Final = 300.0
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@contextmanager
def heartbeats(api: RawApi, names: Sequence[str], *, interval_s: float) -> Iterator[None]:
    """Keep these nodes' leases for as long as the block lasts."""
    beating = api.start(_beat(api, names, interval_s))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(api: RawApi, names: Sequence[str], interval_s: float) -> None:
    lease_of: dict[str, Object] = {}
    turns = itertools.cycle(names)
    status_turns = itertools.cycle(names)
    due = status_due = 0.0
    async for _ in every(TICK_S):
        due += len(names) * TICK_S / interval_s
        status_due += len(names) * TICK_S / STATUS_INTERVAL_S
        for name in itertools.islice(turns, int(due)):
            lease_of[name] = await _renewed(api, name, lease_of.get(name))
        for name in itertools.islice(status_turns, int(status_due)):
            await api.ask(patch_call(f"/api/v1/nodes/{name}/status", _status()))
        due, status_due = due % 1, status_due % 1


async def _renewed(api: RawApi, name: str, lease: Object | None) -> Object:
    now = _now("microseconds")
    if lease is not None:
        lease["spec"]["renewTime"] = now
        return await api.ask(Call(method="PUT", path=f"{LEASES}/{name}", body=lease))
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
    made: Object = {"metadata": {"name": name}, "spec": spec}
    try:
        return await api.ask(Call(method="POST", path=LEASES, body=made))
    except CallFailed:  # it is there already
        return await api.ask(Call(method="GET", path=f"{LEASES}/{name}"))


def _status() -> dict[str, Any]:
    now = _now("seconds")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "is ready"}
    return {"status": {"conditions": [{**ready, "lastHeartbeatTime": now}]}}


def _now(precision: str) -> str:
    now = datetime.now(tz=UTC)  # noqa: TID251 - the API server has the real time
    return now.isoformat(timespec=precision).replace("+00:00", "Z")
