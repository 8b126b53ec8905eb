"""What this room counts: registrations, and the kubelet's calls with their durations."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_CALL_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class KubeletMetrics:
    """The metrics of the device plugin's server and registration."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registrations = Counter(
            "hamid_kubelet_registrations_total",
            "Registrations with the kubelet, by outcome (registered, failed).",
            ["outcome"],
            registry=registry,
        )
        self.call_seconds = Histogram(
            "hamid_kubelet_call_seconds",
            "Duration of the kubelet's calls, by call and outcome (ok, refused, late, fault).",
            ["call", "outcome"],
            buckets=_CALL_BUCKETS_S,
            registry=registry,
        )


def unregistered() -> KubeletMetrics:
    """Return metrics that nobody collects."""
    return KubeletMetrics(CollectorRegistry())
