"""What a pod asks of our resources, as the kubelet and kube-scheduler count it.

They take each amount as it is written: `16Gi` of a resource that counts MiB is 17179869184 to
them. The containers' amounts add up as devices do (see `model.allocation`), but plain init
containers count for as long as the pod lives. What cannot be read counts as nothing: the API
server has let it through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hamid.codec.pod import pod_containers
from hamid.model.allocation import peak
from hamid.model.amounts import NO_AMOUNTS, PERCENT_PPM, CardAmounts
from hamid.model.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from hamid.codec.jsontext import JsonObject
    from hamid.model.names import ResourceNames


def decode_pod_amounts(pod: JsonObject, *, names: ResourceNames) -> CardAmounts:
    """What the pod asks for.

    Raises:
        RequestError: the pod cannot be read.
    """
    return peak(
        (
            (each.kind, _amounts({**each.limits, **each.requests}, names))
            for each in pod_containers(pod)
            if each.kind is not None
        ),
        nothing=NO_AMOUNTS,
    )


def _amounts(given: JsonObject, names: ResourceNames) -> CardAmounts:
    return CardAmounts(
        memory_mib=_whole(given.get(names.memory)),
        memory_ppm=_whole(given.get(names.memory_percentage)) * PERCENT_PPM,
        core_percent=_whole(given.get(names.cores)),
        priority=_whole(given.get(names.priority)),
    )


def _whole(text: object) -> int:
    try:
        return max(-int(-parse_quantity(str(text)).value // 1), 0)
    except QuantityError:
        return 0
