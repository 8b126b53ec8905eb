"""What is lacking, with numbers: refusals are values, and sentences are made at the edge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hamid.model.device import DeviceUuid


class Resource(StrEnum):
    """What a device or node can lack for a share."""

    HEALTH = "health"
    CORDON = "cordon"
    MODEL = "model"
    UUID = "uuid"
    INDEX = "index"
    MODE = "mode"
    SLOTS = "slots"
    MEMORY_MIB = "memory"
    CORE_PERCENT = "cores"
    EXCLUSIVITY = "exclusivity"
    NUMA = "numa"
    NODE_IN_USE = "node-in-use"
    DEVICE_COUNT = "devices"
    REGISTRATION = "registration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """One lacking resource.

    Attributes:
        requested, used, capacity: in the resource's unit; all 0 where it has none (health, model).
        device_uuid: the device that lacks it, or None for the node as a whole.
    """

    resource: Resource
    requested: int = 0
    used: int = 0
    capacity: int = 0
    device_uuid: DeviceUuid | None = None
