"""The recount: the books as pods and reservations alone make them, summed up anew."""

from dataclasses import replace

from hamid.model.device import DeviceUsage
from hamid.model.node import NO_HOST
from hamid.model.quota import NO_CHARGE, charge


def assert_books_are_right(cache):
    """Whatever the books were brought to step by step is what they would be from scratch."""
    reservations = {kept.pod_uid: kept for kept in cache.reservations()}
    records = {record.pod_uid: record for record in cache.pod_records()}
    entries = [_Entry(records.get(u), reservations.get(u)) for u in {**records, **reservations}]

    assert cache.snapshots() == tuple(
        _node(node, entries, cache._strangers.values()) for node in cache.snapshots()
    )
    for quota, used in cache.quotas.all():
        assert used == _used(quota, entries)


class _Entry:
    """One pod: what it holds and asks, by its record if it has a node, else by its reservation."""

    def __init__(self, record, kept):
        self.payer = kept.payer if record is None else record.payer
        self.allocation = record.allocation if record else None
        self.is_initialized = self.allocation is not None and record.is_initialized
        self.node_name = record.node_name if record else ""
        self.host = record.host if record else NO_HOST
        if kept is not None:
            self.allocation = self.allocation or kept.allocation
            self.node_name = self.node_name or kept.allocation.node_name

    @property
    def holds(self):
        return self.allocation.holds(is_initialized=self.is_initialized)


def _node(node, entries, strangers):
    usages = {usage.device.device_uuid: DeviceUsage(device=usage.device) for usage in node.usages}
    asked = sum((host for (name, host), _ in strangers if name == node.node_name), NO_HOST)
    for entry in entries:
        if entry.node_name == node.node_name:
            asked += entry.host
        if entry.allocation is not None and entry.allocation.node_name == node.node_name:
            for uuid, hold in entry.holds.items():
                if uuid in usages:
                    usages[uuid] = usages[uuid].with_hold(hold)
    capacity = node.host_capacity
    return replace(
        node,
        usages=tuple(usages.values()),
        host_free=None if capacity is None else capacity - asked,
    )


def _used(quota, entries):
    return sum(
        (
            charge(entry.allocation, is_initialized=entry.is_initialized)
            for entry in entries
            if entry.allocation is not None and entry.payer and quota.binds(entry.payer)
        ),
        NO_CHARGE,
    )
