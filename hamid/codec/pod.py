"""The parts of a Pod object that decisions rest on, read strictly.

What the API server has let through is well-formed; what is not is refused with `RequestError`
all the same, since the webhook sees pods before they are validated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from hamid.codec.jsontext import ShapeError, as_list, as_object, as_text
from hamid.errors import RequestError
from hamid.model.quantities import QuantityError, parse_quantity
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
        meta = inner_object(pod, "metadata", what="metadata")
        return PodMeta(
            uid=inner_text(meta, "uid", what="metadata.uid"),
            namespace=inner_text(meta, "namespace", what="metadata.namespace"),
            name=inner_text(meta, "name", what="metadata.name")
            or inner_text(meta, "generateName", what="metadata.generateName"),
            node_name=inner_text(
                inner_object(pod, "spec", what="spec"), "nodeName", what="spec.nodeName"
            ),
            annotations=_annotations(meta),
        )

    return as_pod(read)


def has_ended(pod: JsonObject) -> bool:
    """Whether its containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def pod_containers(pod: JsonObject) -> tuple[PodContainer, ...]:
    """The containers of the spec: init first, then app, then ephemeral ones."""
    return as_pod(lambda: tuple(_containers(pod)))


def counted(container: PodContainer, resource_name: str) -> int:
    """How many of the resource the kubelet gives the container: it reads limits, and whole numbers.

    `1.0` and `1e0` are 1 as well: the API server need not rewrite what it takes.
    """
    try:
        return max(int(parse_quantity(str(container.limits.get(resource_name, 0))).value), 0)
    except QuantityError:
        return 0


def _containers(pod: JsonObject) -> Iterator[PodContainer]:
    spec = inner_object(pod, "spec", what="spec")
    for list_name in (INIT_LIST, APP_LIST, EPHEMERAL_LIST):
        entries = spec.get(list_name)
        if entries is None:
            continue
        for index, entry in enumerate(as_list(entries, what=f"spec.{list_name}")):
            what = f"spec.{list_name}[{index}]"
            yield _container(as_object(entry, what=what), list_name=list_name, index=index)


def _container(entry: JsonObject, *, list_name: str, index: int) -> PodContainer:
    what = f"spec.{list_name}[{index}]"
    resources = inner_object(entry, "resources", what=f"{what}.resources")
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
        limits=inner_object(resources, "limits", what=f"{what}.resources.limits"),
        requests=inner_object(resources, "requests", what=f"{what}.resources.requests"),
    )


def _annotations(meta: JsonObject) -> dict[str, str]:
    annotations = inner_object(meta, "annotations", what="metadata.annotations")
    for key, value in annotations.items():
        if not isinstance(value, str):
            raise ShapeError(f"annotation {key} is not a string")
    return annotations


def inner_object(parent: JsonObject, key: str, *, what: str) -> JsonObject:
    """The object under the key; an empty one where there is none."""
    value = parent.get(key)
    return {} if value is None else as_object(value, what=what)


def inner_text(parent: JsonObject, key: str, *, what: str) -> str:
    """The text under the key; empty where there is none."""
    value = parent.get(key)
    return "" if value in (None, "") else as_text(value, what=what)


def as_pod(read: Callable[[], T]) -> T:
    """What is read of a pod; that it cannot be read is its author's error."""
    try:
        return read()
    except ShapeError as error:
        raise RequestError(
            f"the pod cannot be read: {error}",
            hint="write the pod as the Kubernetes API describes it",
        ) from error
