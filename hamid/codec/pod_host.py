"""What a pod asks of its node's processors and main memory, as kube-scheduler counts it.

Requests count, and limits where requests are silent. What the containers ask for adds up as
devices do (see `model.allocation`); what the spec says for the pod as a whole goes before that,
and the overhead of its runtime class is added. Processors round up to thousandths of a core,
memory to MiB. What cannot be read counts as nothing: the API server has let it through, and
kube-scheduler is the judge of these amounts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hamid.codec.pod import as_pod, inner_object
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
    total = _asked(whole) if any(whole.values()) else _of_containers(spec)
    return total + host_amount(overhead)


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
    """Requests and limits of the pod as a whole, and the overhead of its runtime class."""
    given = inner_object(spec, "resources", what="spec.resources")
    whole = {
        name: inner_object(given, name, what=f"spec.resources.{name}")
        for name in ("requests", "limits")
    }
    return whole, inner_object(spec, "overhead", what="spec.overhead")


def _of_containers(spec: JsonObject) -> HostAmount:
    sidecars = peak = NO_HOST
    for container in spec.get("initContainers") or ():
        asked = _asked(container.get("resources") or {})
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, sidecars + asked)
    apps = sidecars
    for container in spec.get("containers") or ():
        apps += _asked(container.get("resources") or {})
    return _most(peak, apps)


def _asked(resources: JsonObject) -> HostAmount:
    return host_amount({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _most(one: HostAmount, other: HostAmount) -> HostAmount:
    return HostAmount(
        cpu_milli=max(one.cpu_milli, other.cpu_milli),
        memory_mib=max(one.memory_mib, other.memory_mib),
    )


@lru_cache(maxsize=4_096)
def _ceiling(text: str, factor: int, divisor: int) -> int:
    try:
        value = parse_quantity(text).value
    except QuantityError:
        return 0
    return max(-int(-value * factor // divisor), 0)
