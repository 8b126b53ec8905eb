"""The device plugin as the kubelet calls it.

How a container gets the shares that were decided for it:

1. GetPreferredAllocation steers the kubelet to slots of the decided cards, so that its own books
   (pod resources, metrics of others) name the right cards. A hint only.
2. Allocate guesses the container (`matching`), journals the grant, writes its files, answers.
3. PreStartContainer reads the true owner from the kubelet's checkpoint and makes the grant final.
   Where the guess was wrong, the grant is rewritten for its owner before the container exists.

Invariants:

1. A grant's shares are those of the pod's allocation, never derived from slot ids (but for pods
   without a decision, where the operator allows them a slice).
2. Nothing is answered before it is journalled.
3. An error of Allocate fails the pod for good, so it is raised only where no right answer exists.
4. What a started container mounts is rewritten for that container only. So where a call was taken
   for a running one's, and was not, the caller does not start; the running one stays as it is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from hamid.errors import KubeletError
from hamid.plugin.journal import Grant
from hamid.plugin.matching import best_match, matches, served_matches
from hamid.plugin.slots import preferred_slots, slot_devices

if TYPE_CHECKING:
    from hamid.aiokit.latest import Latest
    from hamid.kubelet.port import AdvertisedDevice, ContainerGrant, PreferredRequest
    from hamid.model.device import DeviceShare
    from hamid.plugin.admission_view import AdmissionView
    from hamid.plugin.grants import GrantFiles
    from hamid.plugin.journal import Journal
    from hamid.plugin.matching import Match
    from hamid.plugin.metrics import PluginMetrics
    from hamid.plugin.owners import Owners
    from hamid.plugin.pods import NodePods
    from hamid.plugin.undecided import UndecidedPolicy

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class DevicePlugin:
    """Answers the kubelet; implements `hamid.kubelet.port.DevicePluginHandler`."""

    devices: Latest[tuple[AdvertisedDevice, ...]]
    pods: NodePods
    view: AdmissionView
    journal: Journal
    files: GrantFiles
    owners: Owners
    undecided: UndecidedPolicy
    metrics: PluginMetrics
    _steered: tuple[frozenset[str], Match] | None = None
    # Keeps two overlapping calls from taking the same container for theirs.
    _allocating: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def preferred_allocation(self, request: PreferredRequest) -> tuple[str, ...]:
        """The slots of the cards that were decided for the container asked about."""
        match = await self._find(request.size, slot_ids=request.must_include)
        if match is None or not match.devices:
            return ()
        chosen = preferred_slots(
            match.devices, available=request.available, must_include=request.must_include
        )
        self._steered = (frozenset(chosen), match)
        return chosen

    async def allocate(self, slot_ids: tuple[str, ...]) -> ContainerGrant:
        """The grant of the container that these slots are for."""
        async with self._allocating:
            match = self._steered_match(slot_ids) or await self._find(
                len(slot_ids), slot_ids=slot_ids
            )
            if match is None:
                raise self._no_match(len(slot_ids))
            served = self.journal.by_container(match.key)
            if served is not None:
                log.info("grant repeated", pod=served.pod_key, container=served.container_name)
                return await self._grant(replace(served, slot_ids=tuple(sorted(slot_ids))))
            shares = await self._shares(match, slot_ids)
            grant = Grant(
                grant_id=self.journal.new_grant_id(),
                pod_uid=match.pod.pod_uid,
                namespace=match.pod.namespace,
                pod_name=match.pod.name,
                container_name=match.container_name,
                slot_ids=tuple(sorted(slot_ids)),
                shares=shares,
                priority=match.allocation.priority if match.allocation else None,
                sharing=match.container.sharing,
            )
            if slot_devices(slot_ids) != frozenset(s.device_uuid for s in grant.shares):
                self.metrics.unsteered.inc()
                log.info("slots differ from decided cards", pod=grant.pod_key, slot_ids=slot_ids)
            return await self._grant(grant)

    def _no_match(self, count: int) -> KubeletError:
        """Why nothing can be granted: nobody waits, or who waits cannot be known now.

        The kubelet admits no other pod while we look, not even those that would make the API
        server reachable again. So it is told soon, though its pod fails for good.
        """
        slots = "1 slot" if count == 1 else f"{count} slots"
        if self.pods.refresh_failure is not None:
            return KubeletError(
                f"which pod waits for {slots} of the resource is not known, for the API "
                f"server did not tell: {self.pods.refresh_failure}",
                hint="the pod's controller makes a new one, a pod without must be created anew; "
                "look whether hamid's daemon on this node reaches the API server",
            )
        return KubeletError(
            f"no pod of this node waits for {slots} of the resource",
            hint="the pod may have been deleted meanwhile; if not, it was not placed by "
            "hamid's scheduler: leave spec.nodeName empty and set its schedulerName",
        )

    async def pre_start(self, slot_ids: tuple[str, ...]) -> None:
        """Make the grants for these slots final, for the owners that the kubelet has on record."""
        for owner in await self.owners.of(slot_ids):
            shares = owner.shares
            current = self.journal.by_id(owner.grant_id)
            right = Grant(
                grant_id=owner.grant_id,
                pod_uid=owner.pod_uid,
                namespace=owner.namespace,
                pod_name=owner.pod_name,
                container_name=owner.container_name,
                slot_ids=tuple(sorted(slot_ids)),
                shares=shares,
                priority=owner.priority,
                sharing=owner.sharing,
                is_final=True,
            )
            if current is not None and current.finalized() != right:
                self._mend(current, right, has_cards_in_answer=owner.has_cards_in_answer)
            if current != right:
                await self.journal.write(right)
            await self.files.write(right)
        await self.journal.prepare()

    def _mend(self, guessed: Grant, right: Grant, *, has_cards_in_answer: bool) -> None:
        """Say that a grant passes to its true owner, or refuse where that would do harm."""
        holder = self.pods.pod(guessed.pod_uid)
        is_held = guessed.is_final and holder is not None and not holder.is_terminal
        if is_held and guessed.key != right.key:
            # It has started with this grant, and mounts its files: they are not rewritten.
            raise KubeletError(
                f"container {right.container_name!r} of pod {right.pod_key} was answered with the "
                f"grant that container {guessed.container_name!r} of pod {guessed.pod_key} uses",
                hint="delete the pod, its controller makes a new one",
            )
        devices = {share.device_uuid for share in right.shares}
        can_mend = self.files.can_mend and not has_cards_in_answer
        if devices != {share.device_uuid for share in guessed.shares} and not can_mend:
            raise KubeletError(
                f"container {right.container_name!r} of pod {right.pod_key} was answered with the "
                f"cards of pod {guessed.pod_key}, and its environment can no longer be changed",
                hint="delete the pod, its controller makes a new one; grant_mode: cdi avoids this",
            )
        if guessed.key == right.key:
            return  # the guess was right: its pod says something else by now
        self.metrics.mended.inc()
        log.warning(
            "grant mended", guessed=guessed.pod_key, owner=right.pod_key, grant_id=right.grant_id
        )

    async def _find(self, count: int, *, slot_ids: tuple[str, ...]) -> Match | None:
        """The container that a call for `count` slots is for; None if none comes into question.

        It is one that is not served yet, or one that was served and that the kubelet has forgotten.
        """
        for is_fresh in (False, True):
            if is_fresh:
                await self.pods.refresh()
            served = self.journal.served()
            found = matches(self.pods.pods(), served=served, count=count)
            admitted = await self.view.under_admission(found) if found else ()
            if admitted:
                return best_match(admitted, slot_ids=slot_ids)
        again = [m for m in served_matches(self.pods.pods(), count=count) if m.key in served]
        forgotten = await self.view.under_admission(again) if again else ()
        # If the kubelet knows none of them, believe the call.
        return best_match(forgotten, slot_ids=slot_ids) or best_match(found, slot_ids=slot_ids)

    def _steered_match(self, slot_ids: tuple[str, ...]) -> Match | None:
        """What GetPreferredAllocation found a moment ago, if this call is the one it was for."""
        steered, self._steered = self._steered, None
        if steered is None or steered[0] != frozenset(slot_ids):
            return None
        match = steered[1]
        return None if match.key in self.journal.served() else match

    async def _shares(self, match: Match, slot_ids: tuple[str, ...]) -> tuple[DeviceShare, ...]:
        # Before all else: a slice for one container would make a record of ours of what it says of others.
        if match.pod.is_by_hami:
            raise KubeletError(
                f"pod {match.pod.pod_key} was placed by HAMi, or says so, and not by hamid's scheduler",
                hint="delete the pod, its controller makes a new one; one without is to be created "
                "anew, without annotations of HAMi's scheduler",
            )
        if match.allocation is None:
            return await self.undecided.shares(match, slot_ids)
        if len(match.allocation.shares) != len(slot_ids):
            raise KubeletError(
                f"container {match.container_name!r} of pod {match.pod.pod_key} asks for "
                f"{len(slot_ids)} devices, but {len(match.allocation.shares)} were decided for it",
                hint="the pod was changed after it was placed; delete it and create it anew",
            )
        ours = slot_devices(device.slot_id for device in self.devices.get())
        gone = [uuid for uuid in match.devices if uuid not in ours]
        if gone:
            raise KubeletError(
                f"card {gone[0]}, which was decided for container {match.container_name!r} of pod "
                f"{match.pod.pod_key}, is not one that this node shares",
                hint="it was taken out, excluded, or put into MIG mode after the pod was placed; "
                "delete the pod, its controller makes a new one, which is placed anew",
            )
        return match.allocation.shares

    async def _grant(self, grant: Grant) -> ContainerGrant:
        await self.journal.write(grant)
        answer = await self.files.write(grant)
        log.info(
            "container granted",
            pod=grant.pod_key,
            container=grant.container_name,
            grant_id=grant.grant_id,
            device_uuids=[share.device_uuid for share in grant.shares],
            memory_mib=[share.memory_mib for share in grant.shares],
        )
        return answer
