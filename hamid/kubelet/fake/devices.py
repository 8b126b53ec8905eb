"""The kubelet's device manager: what it asks of plugins for one container, and in which order."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hamid.kubelet import v1beta1
from hamid.kubelet.fake.books import AllocationRefused
from hamid.kubelet.fake.plugins import answer_of
from hamid.kubelet.messages import encode_allocate_request, encode_preferred_request
from hamid.kubelet.port import PreferredRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from hamid.kubelet.fake.books import DeviceBooks
    from hamid.kubelet.fake.plugins import Plugins
    from hamid.kubelet.fake.pods import FakeContainer, FakePod


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCall:
    """A call made to a plugin, and whose it truly was; what the plugin itself is never told."""

    call: str
    pod_uid: str
    container_name: str
    slot_ids: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class DeviceManager:
    """Allocates and pre-starts over the books and the plugins.

    Attributes:
        around_call: what surrounds each call to a plugin, by its name; benchmarks time it.
    """

    books: DeviceBooks
    plugins: Plugins
    active_uids: Callable[[], Iterable[str]]
    on_recorded: Callable[[], None]
    pre_start_timeout_s: float
    calls: list[PluginCall] = field(default_factory=list)
    around_call: Callable[[str], AbstractContextManager[object]] = nullcontext

    async def allocate(
        self, pod: FakePod, container: FakeContainer, reusable: dict[str, set[str]]
    ) -> None:
        """Allocate for one container; raises `AllocationRefused`.

        `reusable` are the ids of the pod's plain init containers so far, by resource.
        """
        resource_name = container.resource_name
        if not container.count or resource_name not in self.books.devices:
            return  # a resource the kubelet never heard of is somebody else's
        self.books.release_inactive(self.active_uids())
        key = (pod.uid, container.name, resource_name)
        pool = reusable.setdefault(resource_name, set())
        selection = self.books.begin(key, required=container.count, reusable=pool)
        if selection is None:
            return
        preferred: tuple[str, ...] = ()
        if selection.needed:
            asked = PreferredRequest(
                available=(*selection.candidates, *selection.taken),
                must_include=tuple(selection.taken),
                size=container.count,
            )
            preferred = await self._ask_preferred(key, asked)
        slot_ids = self.books.finish(selection, preferred)
        try:
            response = await self._call_allocate(key, slot_ids)
        except AllocationRefused:
            self.books.recompute()
            raise
        self.books.record(key, slot_ids, bytes(response))
        self.on_recorded()
        if container.is_init and not container.is_sidecar:
            pool.update(slot_ids)
        else:
            pool.difference_update(slot_ids)

    async def _ask_preferred(
        self, key: tuple[str, str, str], asked: PreferredRequest
    ) -> tuple[str, ...]:
        plugin = self.plugins.active.get(key[2])
        if plugin is None or not plugin.options.get_preferred_allocation_available:
            return ()
        request = encode_preferred_request(asked)
        try:
            with self._noted("GetPreferredAllocation", key, asked.available):
                response = await answer_of(plugin.stub.get_preferred_allocation(request))
        except AllocationRefused as error:
            raise AllocationRefused(
                f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            ) from error
        if not response.container_responses:
            return ()
        return tuple(response.container_responses[0].device_i_ds)

    async def _call_allocate(
        self, key: tuple[str, str, str], slot_ids: tuple[str, ...]
    ) -> v1beta1.ContainerAllocateResponse:
        plugin = self.plugins.active.get(key[2])
        if plugin is None:
            raise AllocationRefused(f"unknown Device Plugin {key[2]}")
        request = encode_allocate_request(slot_ids)
        with self._noted("Allocate", key, slot_ids):
            response = await answer_of(plugin.stub.allocate(request))
        if not response.container_responses:
            raise AllocationRefused("no containers return in allocation response")
        return response.container_responses[0]

    async def pre_start(self, pod: FakePod, container: FakeContainer) -> None:
        """Call PreStartContainer with what is on record; raises `AllocationRefused`."""
        resource_name = container.resource_name
        if not container.count or resource_name not in self.books.devices:
            return
        plugin = self.plugins.active.get(resource_name)
        if plugin is None:
            raise AllocationRefused(f"endpoint of {resource_name} has been stopped")
        if not plugin.options.pre_start_required:
            return
        key = (pod.uid, container.name, resource_name)
        entry = self.books.recorded.get(key)
        if entry is None:
            raise AllocationRefused(
                f"no devices found allocated in local cache for pod {pod.uid},"
                f" container {container.name}, resource {resource_name}"
            )
        slot_ids = tuple(self.books.shuffled(entry.slot_ids))
        request = v1beta1.PreStartContainerRequest(devices_ids=list(slot_ids))
        timeout_s = self.pre_start_timeout_s
        try:
            with self._noted("PreStartContainer", key, slot_ids):
                await answer_of(plugin.stub.pre_start_container(request, timeout=timeout_s))
        except AllocationRefused as error:
            raise AllocationRefused(
                f"device plugin PreStartContainer rpc failed with err: {error}"
            ) from error

    def _noted(
        self, call: str, key: tuple[str, str, str], slot_ids: tuple[str, ...]
    ) -> AbstractContextManager[object]:
        """Keep note of the call; returns what surrounds it."""
        self.calls.append(
            PluginCall(call=call, pod_uid=key[0], container_name=key[1], slot_ids=slot_ids)
        )
        return self.around_call(call)
