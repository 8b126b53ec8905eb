"""What the device plugin counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True)
class PluginMetrics:
    """The device plugin's metrics."""

    unsteered: Counter
    mended: Counter
    drift: Gauge

    @classmethod
    def create(cls, registry: CollectorRegistry) -> PluginMetrics:
        """Declare them in the registry."""
        return cls(
            unsteered=Counter(
                "hamid_plugin_unsteered_allocations",
                "Allocate calls whose slots name other cards than those decided",
                registry=registry,
            ),
            mended=Counter(
                "hamid_plugin_mended_grants",
                "Grants rewritten at container start because they were another container's",
                registry=registry,
            ),
            drift=Gauge(
                "hamid_plugin_drift",
                "Differences between the kubelet's books, the journal and the annotations",
                ["kind"],
                registry=registry,
            ),
        )
