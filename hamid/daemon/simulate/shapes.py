"""What an object must look like to be sent at all; what a pod asks for is the webhook's to judge.

The real API server cannot even decode such objects and answers 400; here they are bad input, found
before anything starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.errors import SettingsError
from hamid.kube.port import PODS
from hamid.kube.shapes import first_misfit, quoted
from hamid.model.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection

    from hamid.kube.port import JsonObject, Resource

_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def require_pod_shape(where: str, pod: JsonObject, *, our_resources: Collection[str]) -> None:
    """Raise `SettingsError`, naming the place, if the pod or pod template is malformed."""
    require_shape(where, PODS, pod)
    spec = pod.get("spec") or {}
    if not spec.get("containers"):
        raise _wrong(where, "spec.containers", spec.get("containers"), "a list of containers")
    names = [
        _container_name(where, f"spec.{field}[{index}]", container or {}, our_resources)
        for field in _LISTS
        for index, container in enumerate(spec.get(field) or ())
    ]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise SettingsError(
            f"{where}: two containers are named {doubled[0]!r}",
            hint="give each container of the pod a name of its own",
        )


def require_shape(where: str, resource: Resource, item: JsonObject) -> None:
    """Raise `SettingsError`, naming the place, if a field is not of the kind that it must be."""
    misfit = first_misfit(resource, item)
    if misfit is not None:
        raise _wrong(where, misfit.place, misfit.found, misfit.expected)


def _container_name(
    where: str, place: str, container: JsonObject, our_resources: Collection[str]
) -> str:
    name = container.get("name")
    if not isinstance(name, str) or not name:
        raise _wrong(where, f"{place}.name", name, "a name")
    resources = container.get("resources") or {}
    for field in ("limits", "requests"):
        for resource, amount in (resources.get(field) or {}).items():
            if resource in our_resources:
                continue
            try:
                parse_quantity(str(amount))
            except QuantityError as error:
                at = f"{place}.resources.{field}[{resource}]"
                raise _wrong(where, at, amount, "a quantity") from error
    return name


def _wrong(where: str, place: str, found: object, expected: str) -> SettingsError:
    shown = "missing" if found is None else quoted(found)
    return SettingsError(
        f"{where}: {place} is {shown}, expected {expected}", hint="mend the manifest"
    )
