"""One Binding that carries the allocation: the decision and the node, in one transaction.

How a bind ends, and what becomes of the reservation:

    bound             kept until the watch shows the pod
    refused           forgotten; kube-scheduler tries the pod again
    conflict, error   the pod is read: bound as we decided counts as bound, else it is forgotten
    withheld          the term ended before it was sent, and all reservations with it
    no answer         the pod is read: bound as we decided counts as bound; else the bind may still
                      come to pass, so the room is kept and no other place is chosen for the pod
                      until the watch tells. The same bind may be sent again, for it says the same
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Counter

from hamid.codec.allocation_record import encode_allocation
from hamid.codec.pod_annotation import encode_hami_annotations, hami_labels
from hamid.errors import HamidError
from hamid.kube.errors import ApiError, Conflict, Unavailable, Withheld
from hamid.model import names as wire
from hamid.sched.placement.explain import node_sentence
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement
from hamid.sched.placement.typical import Arrivals
from hamid.sched.placement.within import place_within
from hamid.web.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from hamid.codec.extender import BindingArgs
    from hamid.kube.port import KubePort
    from hamid.model.allocation import PodAllocation
    from hamid.model.request import PodRequest
    from hamid.sched.cache import ClusterCache
    from hamid.sched.leadership import Leadership
    from hamid.sched.lookup import PodLookup
    from hamid.sched.nominations import Nominations
    from hamid.sched.records import PodRecord
    from hamid.sched.settings import SchedSettings

log = structlog.get_logger(__name__)


class BindRefused(HamidError):
    """The pod cannot be bound to this node; kube-scheduler tries again."""


def not_leading(leadership: Leadership) -> Refusal:
    """The refusal of a replica that may not act: says who leads, and ends the connection."""
    holder = leadership.holder
    return Refusal(
        f"this replica does not lead; {holder or 'nobody'} does",
        hint="ask that one: the scheduler's service leads to it",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        closes_connection=True,
    )


def require_term(leadership: Leadership, cache: ClusterCache) -> None:
    """Raise the refusal of a replica that may not act, or does not know the cluster yet.

    Ask after every wait: meanwhile a term may have ended and the next one begun, with empty books.
    """
    if not leadership.may_act():
        raise not_leading(leadership)
    if not cache.is_synced:
        raise Refusal(
            "this replica has just begun to lead and still lists the cluster",
            hint="ask again in a few seconds; pods are tried again by themselves",
            status=HTTPStatus.SERVICE_UNAVAILABLE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BindMetrics:
    """How binds ended."""

    total: Counter

    @classmethod
    def declared_in(cls, registry: CollectorRegistry) -> BindMetrics:
        """The metrics, in this registry."""
        return cls(
            total=Counter(
                "hamid_sched_binds", "Binds by how they ended.", ("outcome",), registry=registry
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Binder:
    """Binds pods to the node that kube-scheduler chose.

    Attributes:
        kube: guarded by the leadership: what was decided may have to wait before it is sent.
        nominations: room that is kept for others.
        wall_clock: seconds since the epoch, for HAMi's annotations.
        arrivals: what usually comes, by which is decided what is left.
    """

    kube: KubePort
    cache: ClusterCache
    lookup: PodLookup
    leadership: Leadership
    nominations: Nominations
    settings: SchedSettings
    wall_clock: Callable[[], float]
    metrics: BindMetrics
    arrivals: Arrivals = field(default_factory=Arrivals)

    async def bind(self, args: BindingArgs) -> None:
        """Bind the pod with what is reserved for it there, or with what it gets there now.

        Raises:
            Refusal: this replica does not lead, or has just begun to.
            BindRefused: the pod does not fit on the node, or may be bound elsewhere.
            ApiError: the API server said no, or nothing.
        """
        outcome = "failed"
        try:
            await self._bind(args)
            outcome = "bound"
        except BindRefused:
            outcome = "refused"
            raise
        except ApiError as error:
            outcome = error.reason
            raise
        finally:
            self.metrics.total.labels(outcome).inc()

    async def _bind(self, args: BindingArgs) -> None:
        record = await self.lookup.find(args)
        if record.problem:
            raise BindRefused(record.problem, hint="delete the pod and create it as the text says")
        if record.node_name == args.node_name and record.allocation is not None:
            return  # asked again after an answer that was lost
        if record.node_name:
            raise BindRefused(
                f"pod {record.pod_key} is bound to {record.node_name} already",
                hint="nothing has to be done",
            )
        require_term(self.leadership, self.cache)
        if record.request is None:
            await self._send(args, {}, {})
            return
        # No await from here until the reservation says that the bind was sent.
        allocation = self._decide(record, record.request, args.node_name)
        self.cache.assume_sent(allocation, record.payer)
        await self._send_allocation(args, record.request, allocation)
        log.info(
            "pod bound",
            pod=record.pod_key,
            pod_uid=record.pod_uid,
            node=args.node_name,
            device_uuids=sorted(allocation.device_uuids),
        )

    def _decide(self, record: PodRecord, request: PodRequest, node_name: str) -> PodAllocation:
        """What was reserved on this node, if it still holds good, or else what there is now."""
        kept = self.cache.reservation(request.pod_uid)
        if kept is not None and kept.allocation.node_name == node_name:
            if kept.is_in_doubt or self._is_sound(kept.allocation):
                return kept.allocation
        elif kept is not None and kept.is_in_doubt:
            raise BindRefused(
                f"pod {request.pod_key} may be bound to {kept.allocation.node_name} already",
                hint="wait until the API server answers; the pod is tried again by itself",
            )
        self.cache.forget(request.pod_uid)
        node = self.cache.snapshot(node_name)
        if node is None:
            raise BindRefused(
                f"node {node_name} is not known", hint="it was deleted; the pod is tried again"
            )
        seen = self.nominations.laid_over(
            {node_name: node}, pod_uid=request.pod_uid, priority=record.priority
        )
        outcome = place_within(
            request,
            seen[node_name],
            bounds=self.cache.bounds(record.payer),
            policies=self.settings.policies,
            measure=Fragmentation(self.arrivals.typical),
        )
        if not isinstance(outcome, NodePlacement):
            raise BindRefused(
                f"pod {request.pod_key} does not fit on {node_name} any more: "
                f"{node_sentence(request, outcome)}",
                hint="the room was given away meanwhile; the pod is tried again",
            )
        return outcome.allocation(request.pod_uid)

    def _is_sound(self, allocation: PodAllocation) -> bool:
        """Whether all of its devices are still there and in use, and hold what is promised of them.

        They may not: a bind of the leader before may have arrived after this pod was placed.
        """
        node = self.cache.snapshot(allocation.node_name)
        if node is None:
            return False
        usages = {usage.device.device_uuid: usage for usage in node.usages}
        return all(
            (usage := usages.get(uuid)) is not None
            and usage.device.is_healthy
            and uuid not in node.cordoned
            and not usage.is_over_promised
            # Whoever has a device to itself has it to itself, however little is promised of it.
            and (not usage.exclusive_count or usage.slots_used <= hold.slots)
            for uuid, hold in allocation.holds().items()
        )

    async def _send_allocation(
        self, args: BindingArgs, request: PodRequest, allocation: PodAllocation
    ) -> None:
        annotations = {
            **encode_hami_annotations(
                allocation,
                container_names=request.container_names,
                decided_at_s=int(self.wall_clock()),
            ),
            wire.POD_ALLOCATION: encode_allocation(allocation),
        }
        try:
            await self._send(args, annotations, hami_labels(allocation))
        except (Conflict, Unavailable) as error:
            if not await self._is_bound_as_decided(args, allocation):
                if not isinstance(error, Unavailable) or error.is_answered:
                    self.cache.forget(args.pod_uid)
                raise
        except ApiError:
            self.cache.forget(args.pod_uid)
            raise
        self.cache.confirm(args.pod_uid)

    async def _send(
        self, args: BindingArgs, annotations: dict[str, str], labels: dict[str, str]
    ) -> None:
        try:
            await self.kube.bind(
                namespace=args.namespace,
                name=args.pod_name,
                uid=args.pod_uid,
                node_name=args.node_name,
                annotations=annotations,
                labels=labels,
            )
        except Withheld as error:
            raise not_leading(self.leadership) from error

    async def _is_bound_as_decided(self, args: BindingArgs, allocation: PodAllocation) -> bool:
        """Whether this bind, or an earlier one of ours whose answer was lost, came to pass.

        Raises:
            Unavailable: it cannot be told.
        """
        try:
            record = await self.lookup.read(args)
        except Unavailable:
            raise
        except ApiError:
            return False
        return record.allocation == allocation
