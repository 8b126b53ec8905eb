"""Which devices of one node the containers of a pod get.

Devices are tried in the order that the policies give. Most policies speak of single devices; two
speak of sets, `numa` and `topology-aware`: where one of them counts, all sets of the best `MAX_POOL`
devices are ordered; where all must be of one NUMA node, those of each. The cost of a set is the sum
over its devices, policy by policy.

Where the memory that the pod may be charged is bounded (by a quota), what a percentage comes to
depends on the device: devices with less of it are tried first, and the policies decide among
equals.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.quota import charge
from hamid.model.request import ContainerKind, PolicyName
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.fit import copies, share_on, shortfalls
from hamid.sched.placement.likeness import kinds_of_devices, row_ends, unlike
from hamid.sched.placement.mutex import device_shortfalls, is_in_use
from hamid.sched.placement.policy import LOAD_ORDERINGS, device_load_ppm
from hamid.sched.placement.refusal import Refusal
from hamid.sched.placement.room import has_room, room_of
from hamid.sched.placement.topology import link_cost, numa_count
from hamid.sched.placement.typical import card_ask
from hamid.sched.placement.views import Views, amounts, do_in_turn

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from hamid.model.device import DeviceShare, DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import ContainerRequest, PodRequest
    from hamid.sched.placement.fragmentation import Fragmentation
    from hamid.sched.placement.policy import Policies

MAX_TRIES: Final = 384
"""Choices of devices tried for one pod on one node in the order of preference."""
PACKING_TRIES: Final = 128
"""And so many more of a packing, before the pod counts as not fitting."""

MAX_POOL: Final = 16
MAX_SETS: Final = 13_000
"""More than the sets of eight out of sixteen."""


class _Candidate(NamedTuple):
    """A device that would do for a container.

    Attributes:
        is_new: not a device of the pod's plain init containers; see the module `place`.
        costs: by each policy; the smaller the better.
        position: of the device, in the node's order.
    """

    is_new: bool
    costs: tuple[int, ...]
    position: int
    share: DeviceShare


class Search:
    """Depth-first over the containers, the preferred devices first.

    Where preferences have used up the tries in vain, some more go to packing the containers, the
    hardest first: see `packed`. Sets of devices that may stand in for each other are tried once.

    Devices of one container do not influence each other, so that a single container needs no
    second try; only a later container can make an earlier choice a bad one.

    What led to nothing once is not looked into again: neither the same devices for other containers
    that ask for the same, nor others of the same kind with as much left. And where a row of
    containers that ask for the same is longer than there is room for, the first choices say so.
    """

    def __init__(
        self,
        *,
        request: PodRequest,
        node: NodeSnapshot,
        policies: Policies,
        measure: Fragmentation,
        most_memory_mib: int | None = None,
        is_tight: bool = False,
    ) -> None:
        self._request = request
        self._is_tight = is_tight
        self._conditions = policies.conditions
        self._node = node
        self._policies = policies.device
        self._is_node_taken = PolicyName.MUTEX in policies.node and is_in_use(node)
        self._measure = measure
        self._most_memory_mib = most_memory_mib
        self._tries_left = PACKING_TRIES if is_tight else MAX_TRIES
        self._packing_tries = 0
        self._row_ends = row_ends(request)
        are_sets = not {PolicyName.NUMA, PolicyName.TOPOLOGY_AWARE}.isdisjoint(policies.device)
        self._kinds = (
            kinds_of_devices(request, node, are_sets=are_sets) if len(self._row_ends) > 1 else ()
        )
        self._in_vain: set[Hashable] = set()
        self._last_sets: tuple[int, list[_Candidate], list[tuple[_Candidate, ...]]] = (0, [], [])
        self._refused_at = -1
        self.refusal = Refusal(())

    @property
    def tries(self) -> int:
        """How often devices were looked at for a container."""
        return 1 + MAX_TRIES - self._tries_left + self._packing_tries

    def run(self) -> list[tuple[DeviceShare, ...]] | None:
        """The shares of each container, or None; then `refusal` says why."""
        usages, requests = self._node.usages, self._request.requests
        is_full = len(requests) > 1 and not has_room(self._request, room_of(usages))
        if is_full:  # then the first choices say why
            self._tries_left = len(requests)
        found = self._descend((), Views(init=usages, app=usages))
        if found is None and self._tries_left <= 0 and not (self._is_tight or is_full):
            return self.packed()
        return found

    def packed(self, tries: int = PACKING_TRIES) -> list[tuple[DeviceShare, ...]] | None:
        """What is found where preferences lead to nothing: the hardest containers go first.

        Each onto the devices that it leaves the least of. What containers are given must do in the
        order of the request, too.
        """
        requests = self._request.requests
        order = sorted(range(len(requests)), key=self._ease)
        packing = Search(
            request=replace(self._request, requests=tuple(requests[i] for i in order)),
            node=self._node,
            policies=self._conditions,
            measure=self._measure,
            most_memory_mib=self._most_memory_mib,
            is_tight=True,
        )
        packing._tries_left = tries
        packed = packing.run()
        self._packing_tries = tries - packing._tries_left
        if packed is None:
            return None
        found = [packed[order.index(i)] for i in range(len(requests))]
        do_fit = do_in_turn(self._request, self._node.usages, found, self._shortfalls)
        return found if do_fit else None

    def _ease(self, index: int) -> tuple[int, ...]:
        """The less, the harder to place; containers of the init phase stay where they are."""
        container = self._request.requests[index]
        if container.kind is not ContainerKind.APP:
            return 0, index
        shares = [
            share
            for usage in self._node.usages
            if not self._shortfalls(usage, share := share_on(usage.device, container))
        ]
        memory_mib = max((share.memory_mib for share in shares), default=0)
        spare_count = len(shares) - container.device_count
        return 1, -container.core_percent, -memory_mib, spare_count, index

    def _descend(
        self, chosen: tuple[tuple[DeviceShare, ...], ...], views: Views
    ) -> list[tuple[DeviceShare, ...]] | None:
        depth = len(chosen)
        if depth == len(self._request.requests):
            return list(chosen) if self._is_within(chosen) else None
        if self._in_vain and self._state(depth, views) in self._in_vain:
            return None
        container = self._request.requests[depth]
        candidates = self._candidates(depth, views)
        for number, shares in enumerate(self._sets(depth, candidates, views)):
            if self._tries_left <= 0:
                return None
            self._tries_left -= 1
            found = self._descend((*chosen, shares), views.with_shares(container.kind, shares))
            if found is not None:
                return found
            if number == 0 and not self._has_room_for_row(depth, views):
                break
        if (state := self._state(depth, views)) is not None:
            self._in_vain.add(state)
        return None

    def _state(self, depth: int, views: Views) -> Hashable | None:
        """All that counts of the choices so far for whether the other containers fit.

        None where it is not worth it, or where what was chosen counts besides.
        """
        if len(self._row_ends) == 1 or self._most_memory_mib is not None:
            return None
        devices = [
            (kind, amounts(app), amounts(init))
            for kind, app, init in zip(self._kinds, views.app, views.init, strict=True)
        ]
        return depth, tuple(sorted(devices))

    def _has_room_for_row(self, depth: int, views: Views) -> bool:
        """Whether there is any room for this container and all like it behind it, taken together."""
        container, count = self._request.requests[depth], self._row_ends[depth] - depth
        if count == 1 or container.kind is ContainerKind.INIT:
            return True
        most = 1 if PolicyName.MUTEX in self._policies else count
        room = sum(
            min(copies(usage, container, request=self._request), most)
            for usage in views.of(container.kind)
            if not self._shortfalls(usage, share_on(usage.device, container))
        )
        return room >= count * container.device_count

    def _is_within(self, chosen: tuple[tuple[DeviceShare, ...], ...]) -> bool:
        if self._most_memory_mib is None:
            return True
        containers = tuple(
            ContainerAllocation(
                container_name=asking.container_name, kind=asking.kind, shares=shares
            )
            for asking, shares in zip(self._request.requests, chosen, strict=True)
        )
        allocation = PodAllocation(
            pod_uid=self._request.pod_uid, node_name=self._node.node_name, containers=containers
        )
        return charge(allocation).memory_mib <= self._most_memory_mib

    def _sets(
        self, depth: int, candidates: list[_Candidate], views: Views
    ) -> Iterable[tuple[DeviceShare, ...]]:
        """The sets of devices that would do for the container, best first."""
        count = self._request.requests[depth].device_count
        found: Iterable[tuple[_Candidate, ...]]
        if not self._is_bound(count) and not self._looks_at_sets(count):
            found = self._unlike_sets(candidates, count, views)
        elif self._last_sets[:2] == (count, candidates):  # as init containers find them, one by one
            found = self._last_sets[2]
        else:
            found = sorted(self._pooled_sets(candidates, count), key=self._set_cost)
            self._last_sets = count, candidates, found
        for each in found:
            yield tuple(candidate.share for candidate in each)

    def _unlike_sets(
        self, candidates: list[_Candidate], count: int, views: Views
    ) -> Iterator[tuple[_Candidate, ...]]:
        """All sets; of those that may stand in for each other, the first alone."""
        if len(candidates) < count:
            return
        yield tuple(candidates[:count])
        if not self._kinds:  # nobody comes after this container
            return
        states = [
            (self._kinds[at], amounts(views.app[at]), amounts(views.init[at]))
            for at in (candidate.position for candidate in candidates)
        ]
        yield from islice(unlike(candidates, states, count), 1, None)

    def _pooled_sets(
        self, candidates: list[_Candidate], count: int
    ) -> Iterator[tuple[_Candidate, ...]]:
        """Sets of the best devices: of all together, or of those of each NUMA node."""
        pools = [candidates]
        if self._is_bound(count):
            pools = [p for p in self._by_numa_node(candidates) if len(p) >= count]
        for pool in pools:
            sets = combinations(pool[: max(MAX_POOL, count)], count)
            yield from islice(sets, MAX_SETS // len(pools))

    def _is_bound(self, count: int) -> bool:
        """Whether so many devices must be of one NUMA node."""
        return self._request.is_numa_bound and count > 1

    def _looks_at_sets(self, count: int) -> bool:
        if PolicyName.TOPOLOGY_AWARE in self._policies:
            return True
        return PolicyName.NUMA in self._policies and count > 1

    def _set_cost(self, found: Sequence[_Candidate]) -> tuple[int, ...]:
        positions = tuple(sorted(c.position for c in found))
        costs = [sum(self._weight(c) for c in found), sum(c.is_new for c in found)]
        for place, name in enumerate(self._policies):
            if name is PolicyName.NUMA:
                costs.append(numa_count(self._node, positions))
            elif name is PolicyName.TOPOLOGY_AWARE:
                costs.append(link_cost(self._node.links, positions))
            else:
                costs.append(sum(c.costs[place] for c in found))
        return (*costs, *positions)

    def _candidates(self, depth: int, views: Views) -> list[_Candidate]:
        """The shares that would fit, best device first; notes the refusal if they are too few."""
        container = self._request.requests[depth]
        fitting: list[_Candidate] = []
        lacking: list[Shortfall] = []
        for position, usage in enumerate(views.of(container.kind)):
            share = share_on(usage.device, container)
            found = self._shortfalls(usage, share)
            if found:
                lacking += found
                continue
            fitting.append(
                _Candidate(
                    is_new=usage.device.device_uuid not in views.reusable,
                    costs=self._costs(usage, share, container),
                    position=position,
                    share=share,
                )
            )
        if self._is_bound(container.device_count):
            fitting, apart = self._largest_numa_groups(fitting, container.device_count)
            lacking += apart
        if len(fitting) < container.device_count:
            unfit_count = len(self._node.usages) - len(fitting)
            self._refuse(depth, container, unfit_count, lacking)
        fitting.sort(key=lambda candidate: (self._weight(candidate), *candidate[:3]))
        return fitting

    def _weight(self, candidate: _Candidate) -> int:
        """What must be spared before any policy counts."""
        return candidate.share.memory_mib if self._most_memory_mib is not None else 0

    def _shortfalls(self, usage: DeviceUsage, share: DeviceShare) -> tuple[Shortfall, ...]:
        device = usage.device
        found = shortfalls(
            usage,
            share,
            request=self._request,
            is_cordoned=device.device_uuid in self._node.cordoned,
        )
        if not found and self._is_node_taken:
            return (Shortfall(resource=Resource.NODE_IN_USE, device_uuid=device.device_uuid),)
        return found or (device_shortfalls(usage) if PolicyName.MUTEX in self._policies else ())

    def _largest_numa_groups(
        self, fitting: list[_Candidate], count: int
    ) -> tuple[list[_Candidate], list[Shortfall]]:
        """Those with enough others on their NUMA node, or all of the largest such group."""
        groups = self._by_numa_node(fitting)
        kept = [c for group in groups if len(group) >= count for c in group]
        if not kept and groups:
            kept = max(groups, key=len)
        apart = [
            Shortfall(resource=Resource.NUMA, device_uuid=c.share.device_uuid)
            for c in fitting
            if c not in kept
        ]
        return kept, apart

    def _by_numa_node(self, candidates: Iterable[_Candidate]) -> list[list[_Candidate]]:
        """The devices of each NUMA node; one that knows none is alone."""
        groups: dict[object, list[_Candidate]] = {}
        for candidate in candidates:
            device = self._node.usages[candidate.position].device
            key = device.device_uuid if device.numa_node is None else device.numa_node
            groups.setdefault(key, []).append(candidate)
        return list(groups.values())

    def _costs(
        self, usage: DeviceUsage, share: DeviceShare, container: ContainerRequest
    ) -> tuple[int, ...]:
        if self._is_tight:
            return (
                usage.memory_free_mib - share.memory_mib,
                usage.core_free_percent - share.core_percent,
                usage.slots_free,
            )
        return tuple(self._cost(name, usage, share, container) for name in self._policies)

    def _cost(
        self, name: PolicyName, usage: DeviceUsage, share: DeviceShare, container: ContainerRequest
    ) -> int:
        """By one policy, as far as it speaks of single devices."""
        if (by_load := LOAD_ORDERINGS.get(name)) is not None:
            return by_load(device_load_ppm(usage.with_share(share), self._request.load_weights))
        if name is PolicyName.FRAGMENTATION:
            ask = card_ask(self._request, container)
            return self._measure.card_cost(usage, self._measure.number(ask))
        return 0

    def _refuse(
        self, depth: int, container: ContainerRequest, unfit_count: int, lacking: list[Shortfall]
    ) -> None:
        """Keep the refusal of the deepest container, as the preferred choices led to it."""
        if depth <= self._refused_at:
            return
        self._refused_at = depth
        count = Shortfall(
            resource=Resource.DEVICE_COUNT,
            requested=container.device_count,
            used=unfit_count,
            capacity=len(self._node.usages),
        )
        self.refusal = Refusal((count, *lacking))
