"""What a pod asks of its node's processors and main memory, as kube-scheduler counts it.

Requests count, and limits where requests are silent. What the containers ask for adds up as
devices do (see `model.allocation`); what the spec says of a resource for the pod as a whole goes
before that, and the overhead of its runtime class is added. Processors round up to thousandths of
a core, memory to MiB. What cannot be read counts as nothing: the API server has let it through, and
kube-scheduler is the judge of these amounts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hamid.codec.pod import as_pod, inner_object, pod_containers
from hamid.model.allocation import peak
from hamid.model.node import NO_HOST, HostAmount
from hamid.model.quantities import MIB, QuantityError, parse_quantity

if TYPE_CHECKING:
    from hamid.codec.jsontext import JsonObject

_MILLI: Final = 1_000


def decode_pod_host(pod: JsonObject) -> HostAmount:
    """What the pod asks of its node.

    Raises:
        RequestError: the pod cannot be read.
    """
    spec = pod.get("spec") or {}
    whole, overhead = as_pod(lambda: _of_whole(spec))
    asked = peak(
        (
            (each.kind, host_amount({**each.limits, **each.requests}))
            for each in pod_containers(pod)
            if each.kind is not None
        ),
        nothing=NO_HOST,
    )
    if "cpu" in whole:
        asked = replace(asked, cpu_milli=host_amount(whole).cpu_milli)
    if "memory" in whole:
        asked = replace(asked, memory_mib=host_amount(whole).memory_mib)
    return asked + host_amount(overhead)


def decode_node_host(node: JsonObject) -> HostAmount | None:
    """What pods may ask of the node in all, or None where it does not say."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    if "cpu" not in allocatable or "memory" not in allocatable:
        return None
    return host_amount(allocatable)


def host_amount(amounts: JsonObject) -> HostAmount:
    """The `cpu` and `memory` of a list of amounts."""
    return HostAmount(
        cpu_milli=_ceiling(str(amounts.get("cpu", 0)), _MILLI, 1),
        memory_mib=_ceiling(str(amounts.get("memory", 0)), 1, MIB),
    )


def _of_whole(spec: JsonObject) -> tuple[JsonObject, JsonObject]:
    """What is asked for the pod as a whole, and the overhead of its runtime class."""
    given = inner_object(spec, "resources", what="spec.resources")
    limits, requests = (
        inner_object(given, name, what=f"spec.resources.{name}") for name in ("limits", "requests")
    )
    return {**limits, **requests}, inner_object(spec, "overhead", what="spec.overhead")


@lru_cache(maxsize=4_096)
def _ceiling(text: str, factor: int, divisor: int) -> int:
    try:
        value = parse_quantity(text).value
    except QuantityError:
        return 0
    return max(-int(-value * factor // divisor), 0)
