"""The policy `mutex`: a condition, not a preference. What it asks for is that nobody else is there at the time.

Whoever comes later may still come: it binds only who asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.shortfall import Resource, Shortfall

if TYPE_CHECKING:
    from hamid.model.device import DeviceUsage
    from hamid.model.node import NodeSnapshot


def device_shortfalls(usage: DeviceUsage) -> tuple[Shortfall, ...]:
    """What a device lacks for it."""
    if not usage.slots_used:
        return ()
    in_use = Shortfall(
        resource=Resource.EXCLUSIVITY,
        requested=WHOLE_DEVICE_PERCENT,
        used=usage.slots_used,
        device_uuid=usage.device.device_uuid,
    )
    return (in_use,)


def is_in_use(node: NodeSnapshot) -> bool:
    """Whether anybody has anything of the node's devices, so that the node will not do."""
    return any(usage.slots_used for usage in node.usages)
