"""Applies a plan: creates its objects one after another, and lets each pod come to rest.

So the same plan on the same nodes gives the same placement, whatever the machine does meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from hamid.daemon.simulate.cluster import settle
from hamid.errors import SettingsError
from hamid.kube.errors import AlreadyExists, ApiError
from hamid.kube.port import PODS, RESOURCE_QUOTAS

if TYPE_CHECKING:
    from hamid.daemon.simulate.cluster import SimulatedCluster
    from hamid.daemon.simulate.plan import Item, Plan

log = structlog.get_logger(__name__)


async def apply_plan(cluster: SimulatedCluster, plan: Plan) -> None:
    """Create everything. A pod that is refused is noted on the roster."""
    for item in plan.first:
        try:
            created = await cluster.kube.create(
                item.resource, item.object, namespace=item.namespace
            )
        except AlreadyExists:
            log.debug("object is there already", kind=item.resource.kind)
            continue
        except ApiError as error:
            raise _refused(item, error) from error
        if item.resource == RESOURCE_QUOTAS:
            key = f"{item.namespace}/{created['metadata']['name']}"
            await cluster.view.wait_until(partial(cluster.view.quotas.__contains__, key))
    for item in plan.pods:
        if item.resource == PODS:
            await _create_pod(cluster, item)
        else:
            await _create_workload(cluster, item)


async def _create_pod(cluster: SimulatedCluster, item: Item) -> None:
    try:
        created = await cluster.kube.create(PODS, item.object, namespace=item.namespace)
    except ApiError as error:
        cluster.roster.refuse(item.object, error)
        return
    cluster.roster.admit(created)
    await settle(cluster.view, cluster.scheduler, created)


async def _create_workload(cluster: SimulatedCluster, item: Item) -> None:
    try:
        created = await cluster.kube.create(item.resource, item.object, namespace=item.namespace)
    except ApiError as error:
        raise _refused(item, error) from error
    await cluster.controller.reconcile(item.resource, created)


def _refused(item: Item, error: ApiError) -> SettingsError:
    metadata = item.object["metadata"]
    name = metadata.get("name") or metadata["generateName"]
    return SettingsError(
        f"the API server does not take {item.resource.kind} {name!r}: {error.message}",
        hint="mend the manifest",
    )
