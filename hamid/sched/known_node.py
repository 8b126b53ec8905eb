"""One node as the cache knows it: its books, and where its devices came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from hamid.codec.node_annotation import decode_node_inventory
from hamid.errors import AnnotationError
from hamid.model.names import DEVICE_CORDON
from hamid.sched.books import NodeBook

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.model.device import Device, DeviceUuid
    from hamid.sched.records import NodeNote

log = structlog.get_logger(__name__)

PLUGIN_AWAY: Final = "the kubelet offers no slots: the device plugin is away"
"""Why a node that registered devices has none to give for now."""


class KnownNode:
    """A node that the watch shows, or that pods hold devices of.

    Attributes:
        is_listed: whether the watch shows it.
        problem: why it has no devices though it registered some; empty otherwise.
    """

    __slots__ = ("_changed", "_registered", "_unknown_cordoned", "book", "is_listed", "problem")

    def __init__(
        self,
        node_name: str,
        *,
        freed: Callable[[str], None] | None = None,
        changed: Callable[[str], None] | None = None,
    ) -> None:
        self.book = NodeBook(node_name, freed=freed, changed=changed)
        self._changed = changed
        self.is_listed = False
        self.problem = ""
        self._registered: tuple[str | None, bool] = (None, True)
        self._unknown_cordoned: frozenset[DeviceUuid] = frozenset()

    def take(self, note: NodeNote) -> None:
        """The watch shows it like this."""
        self._list(is_listed=True)
        self.book.cordon(note.cordoned)
        self.book.offer(note.host)
        self.book.link(note.links)
        self._take_inventory(note)
        self._look_at_cordon(note.cordoned)

    def _look_at_cordon(self, uuids: frozenset[DeviceUuid]) -> None:
        """Say once which of them are no cards here: who wrote that believes them to be cordoned."""
        known = {usage.device.device_uuid for usage in self.book.snapshot().usages} if uuids else ()
        unknown = uuids.difference(known) if known else frozenset()
        if unknown - self._unknown_cordoned:
            log.warning(
                "cordon of unknown cards",
                node=self.book.node_name,
                unknown_uuids=sorted(unknown),
                hint=f"give UUIDs of the node's cards, separated by commas, in {DEVICE_CORDON}",
            )
        self._unknown_cordoned = unknown

    def _take_inventory(self, note: NodeNote) -> None:
        registered = (note.inventory_text, note.is_offered)
        if registered != self._registered:
            self._registered, self.problem = registered, ""
            self.book.register(self._devices(note))

    def _devices(self, note: NodeNote) -> tuple[Device, ...]:
        """Those that it has to give; where there are none, the problem says why."""
        if note.inventory_text is None:
            return ()
        try:
            inventory = decode_node_inventory(note.inventory_text, node_name=note.node_name)
        except AnnotationError as error:
            self.problem = error.message
            log.warning(
                "node registration malformed",
                node=note.node_name,
                error=error.message,
                hint=error.hint,
            )
            return ()
        # The kubelet offers no slots of unhealthy devices either; what these lack, they say best.
        if not note.is_offered and any(device.is_healthy for device in inventory.devices):
            self.problem = PLUGIN_AWAY
            return ()
        return inventory.devices

    def lose(self) -> None:
        """The watch shows it no more; what pods hold stays in the books."""
        self._list(is_listed=False)
        self._registered, self.problem = (None, True), ""
        self.book.register(())
        self.book.cordon(frozenset())
        self.book.offer(None)
        self.book.link({})

    def _list(self, *, is_listed: bool) -> None:
        if is_listed != self.is_listed:
            self.is_listed = is_listed
            if self._changed is not None:
                self._changed(self.book.node_name)
