"""The parts of a Pod object that decisions rest on, read strictly.

What the API server has let through is well-formed; what is not is refused with `RequestError`
all the same, since the webhook sees pods before they are validated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from hamid.codec.jsontext import ShapeError, as_list, as_object, as_text
from hamid.errors import RequestError
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hamid.codec.jsontext import JsonObject

T = TypeVar("T")

INIT_LIST: Final = "initContainers"
APP_LIST: Final = "containers"
EPHEMERAL_LIST: Final = "ephemeralContainers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainer:
    """One container as the pod's spec has it.

    Attributes:
        list_name: the list of the spec that it stands in.
        index: its place in that list.
        kind: None for an ephemeral container.
        limits, requests: as written; values are strings or numbers.
    """

    list_name: str
    index: int
    name: str
    kind: ContainerKind | None
    limits: JsonObject
    requests: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMeta:
    """Who a pod is; texts are empty where the object does not say, as before its creation."""

    uid: str
    namespace: str
    name: str
    node_name: str
    annotations: dict[str, str]


def pod_meta(pod: JsonObject) -> PodMeta:
    """Who the pod is, where it runs, and its annotations."""

    def read() -> PodMeta:
        meta = _object(pod, "metadata", what="metadata")
        return PodMeta(
            uid=_text(meta, "uid", what="metadata.uid"),
            namespace=_text(meta, "namespace", what="metadata.namespace"),
            name=_text(meta, "name", what="metadata.name")
            or _text(meta, "generateName", what="metadata.generateName"),
            node_name=_text(_object(pod, "spec", what="spec"), "nodeName", what="spec.nodeName"),
            annotations=_annotations(meta),
        )

    return _shaped(read)


def pod_containers(pod: JsonObject) -> tuple[PodContainer, ...]:
    """The containers of the spec: init first, then app, then ephemeral ones."""
    return _shaped(lambda: tuple(_containers(pod)))


def _containers(pod: JsonObject) -> Iterator[PodContainer]:
    spec = _object(pod, "spec", what="spec")
    for list_name in (INIT_LIST, APP_LIST, EPHEMERAL_LIST):
        entries = spec.get(list_name)
        if entries is None:
            continue
        for index, entry in enumerate(as_list(entries, what=f"spec.{list_name}")):
            what = f"spec.{list_name}[{index}]"
            yield _container(as_object(entry, what=what), list_name=list_name, index=index)


def _container(entry: JsonObject, *, list_name: str, index: int) -> PodContainer:
    what = f"spec.{list_name}[{index}]"
    resources = _object(entry, "resources", what=f"{what}.resources")
    kind: ContainerKind | None = None
    if list_name == APP_LIST:
        kind = ContainerKind.APP
    elif list_name == INIT_LIST:
        restarts = entry.get("restartPolicy") == "Always"
        kind = ContainerKind.SIDECAR if restarts else ContainerKind.INIT
    return PodContainer(
        list_name=list_name,
        index=index,
        name=as_text(entry.get("name"), what=f"{what}.name"),
        kind=kind,
        limits=_object(resources, "limits", what=f"{what}.resources.limits"),
        requests=_object(resources, "requests", what=f"{what}.resources.requests"),
    )


def _annotations(meta: JsonObject) -> dict[str, str]:
    annotations = _object(meta, "annotations", what="metadata.annotations")
    for key, value in annotations.items():
        if not isinstance(value, str):
            raise ShapeError(f"annotation {key} is not a string")
    return annotations


def _object(parent: JsonObject, key: str, *, what: str) -> JsonObject:
    value = parent.get(key)
    return {} if value is None else as_object(value, what=what)


def _text(parent: JsonObject, key: str, *, what: str) -> str:
    value = parent.get(key)
    return "" if value in (None, "") else as_text(value, what=what)


def _shaped(read: Callable[[], T]) -> T:
    try:
        return read()
    except ShapeError as error:
        raise RequestError(
            f"the pod cannot be read: {error}",
            hint="write the pod as the Kubernetes API describes it",
        ) from error
