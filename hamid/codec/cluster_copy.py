"""A cluster as it was at one moment: what `kubectl get nodes,pods,resourcequotas -A -o json` prints.

Objects of other kinds are passed over. A file that people wrote by hand may leave out UIDs, then
`namespace/name` takes their place, and the namespace, which then is `default`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.codec.jsontext import ShapeError, as_list, as_object, as_text, loads
from hamid.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.codec.jsontext import JsonObject

COMMAND: Final = "kubectl get nodes,pods,resourcequotas --all-namespaces -o json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCopy:
    """The objects, as the API server sends them."""

    nodes: tuple[JsonObject, ...]
    pods: tuple[JsonObject, ...]
    quotas: tuple[JsonObject, ...] = ()


def decode_cluster_copy(text: str | bytes, *, source: str) -> ClusterCopy:
    """Read the list of objects.

    Raises:
        TraceError: it is none, or has no node.
    """
    hint = f"write it with: {COMMAND}"
    try:
        items = as_list(as_object(loads(text), what="the file").get("items"), what="items")
    except ShapeError as error:
        raise TraceError(f"{source}: {error}", hint=hint) from error
    copy = cluster_copy(items, source=source, hint=hint)
    if not copy.nodes:
        raise TraceError(f"{source} has no node", hint=hint)
    return copy


def cluster_copy(items: Iterable[object], *, source: str, hint: str) -> ClusterCopy:
    """The objects of the list, each with what people may leave out.

    Raises:
        TraceError: one of them is none; with this hint.
    """
    by_kind: dict[str, list[JsonObject]] = {"Node": [], "Pod": [], "ResourceQuota": []}
    try:
        for number, entry in enumerate(items):
            item = as_object(entry, what=f"items[{number}]")
            if str(item.get("kind")) in by_kind:
                by_kind[item["kind"]].append(_named(item, f"items[{number}].metadata"))
    except ShapeError as error:
        raise TraceError(f"{source}: {error}", hint=hint) from error
    return ClusterCopy(
        nodes=tuple(by_kind["Node"]),
        pods=tuple(by_kind["Pod"]),
        quotas=tuple(by_kind["ResourceQuota"]),
    )


def _named(item: JsonObject, what: str) -> JsonObject:
    """The object, with what people leave out of its metadata."""
    meta = as_object(item.get("metadata"), what=what)
    name = as_text(meta.get("name"), what=f"{what}.name")
    given = {"uid": name}
    if item["kind"] != "Node":
        namespace = meta.get("namespace") or "default"
        given = {"namespace": namespace, "uid": f"{namespace}/{name}"}
    return {**item, "metadata": {**given, **{k: v for k, v in meta.items() if v}}}
