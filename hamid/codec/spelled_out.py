"""What the webhook writes besides, for those who add amounts up without knowing what they mean.

The kubelet and cluster autoscalers take a number as it stands, and what is not there as nothing
(see `codec.pod_amounts`). So that they never count more than is booked, memory is written as a plain
number of MiB, and a percentage that has no effect beside it is taken out; so that they count as
much of it as they can, a share that follows from the defaults is written down.

    gpu: 1                  gpu: 1, gpumem-percentage: 100, gpucores: 100
    gpu: 2, gpumem: 16Gi    gpu: 2, gpumem: 16384
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from hamid.codec.pod import pod_containers
from hamid.codec.pod_request import LIMITS, REQUESTS, ContainerFix
from hamid.model.quantities import MemoryMib, MemoryPercent, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.codec.jsontext import JsonObject
    from hamid.codec.pod import PodContainer
    from hamid.model.names import ResourceNames
    from hamid.model.request import ContainerRequest, PodRequest


def spelled_out(
    pod: JsonObject, request: PodRequest, names: ResourceNames
) -> tuple[ContainerFix, ...]:
    """What to write after `required_limits`, both for the pod as it came."""
    asking = {each.container_name: each for each in request.requests}
    return tuple(
        fix
        for container in pod_containers(pod)
        if container.kind is not None and container.name in asking
        for fix in _fixes(container, _amounts(asking[container.name], names))
    )


def _amounts(request: ContainerRequest, names: ResourceNames) -> dict[str, int | None]:
    """What is to stand there; 0 where nothing need."""
    match request.memory:
        case MemoryMib(mib=mib):
            memory = {names.memory: mib, names.memory_percentage: None}
        case MemoryPercent(percent=percent):
            memory = {names.memory_percentage: percent}
        case _:
            assert_never(request.memory)
    return {**memory, names.cores: request.core_percent}


def _fixes(container: PodContainer, amounts: dict[str, int | None]) -> Iterator[ContainerFix]:
    for name, amount in amounts.items():
        # Where one section is silent, what the other says was copied.
        limit = container.limits.get(name)
        said = container.requests.get(name) if limit is None else limit
        if (0 if said is None else parse_quantity(str(said)).value) == (amount or 0):
            continue
        for section in (LIMITS, REQUESTS):
            yield ContainerFix(
                list_name=container.list_name,
                index=container.index,
                container_name=container.name,
                section=section,
                resource=name,
                value=None if amount is None else str(amount),
            )
