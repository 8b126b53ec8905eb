"""What a pod must look like to be sent at all; what it asks for is the webhook's to judge.

The real API server cannot even decode such objects and answers 400; here they are bad input, found
before anything starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hamid.errors import SettingsError
from hamid.model.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection

    from hamid.kube.port import JsonObject

_LISTS = ("initContainers", "containers", "ephemeralContainers")


def require_pod_shape(where: str, pod: JsonObject, *, our_resources: Collection[str]) -> None:
    """Raise `SettingsError`, naming the place, if the pod or pod template is malformed."""
    metadata = _object(where, pod.get("metadata"), "metadata")
    for field in ("labels", "annotations"):
        for key, value in _object(where, metadata.get(field), f"metadata.{field}").items():
            if not isinstance(value, str):
                raise _wrong(where, f"metadata.{field}[{key}]", value, "a text; put it in quotes")
    spec = _object(where, pod.get("spec"), "spec")
    if not spec.get("containers"):
        raise _wrong(where, "spec.containers", spec.get("containers"), "a list of containers")
    for field in ("nodeName", "schedulerName"):
        if not isinstance(spec.get(field, ""), str | None):
            raise _wrong(where, f"spec.{field}", spec[field], "a text; put it in quotes")
    names = [
        _container_name(where, f"spec.{field}[{index}]", entry, our_resources)
        for field in _LISTS
        for index, entry in enumerate(_list(where, spec.get(field), f"spec.{field}"))
    ]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise SettingsError(
            f"{where}: two containers are named {doubled[0]!r}",
            hint="give each container of the pod a name of its own",
        )


def _container_name(where: str, place: str, entry: Any, our_resources: Collection[str]) -> str:
    container = _object(where, entry, place)
    name = container.get("name")
    if not isinstance(name, str) or not name:
        raise _wrong(where, f"{place}.name", name, "a name")
    resources = _object(where, container.get("resources"), f"{place}.resources")
    for field in ("limits", "requests"):
        at = f"{place}.resources.{field}"
        for resource, amount in _object(where, resources.get(field), at).items():
            if resource in our_resources:
                continue
            try:
                parse_quantity(str(amount))
            except QuantityError as error:
                raise _wrong(where, f"{at}[{resource}]", amount, "a quantity") from error
    return name


def _object(where: str, value: Any, place: str) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, place, value, "an object")
    return value


def _list(where: str, value: Any, place: str) -> list[Any]:
    if not isinstance(value, list | None):
        raise _wrong(where, place, value, "a list")
    return value or []


def _wrong(where: str, place: str, found: object, expected: str) -> SettingsError:
    shown = "missing" if found is None else repr(found)
    return SettingsError(
        f"{where}: {place} is {shown}, expected {expected}", hint="mend the manifest"
    )
