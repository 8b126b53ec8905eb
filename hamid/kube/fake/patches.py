"""Patches, applied: value and patch → new value. Pure.

- Merge (RFC 7386) and JSON Patch (RFC 6902) are complete.
- Strategic merge knows the merge keys of the lists named in `_MERGE_KEYS`, `$patch: delete` and
  `replace`, `$deleteFromPrimitiveList`, `$setElementOrder` (read as nothing: order is that of
  arrival) and `$retainKeys`. A list that is not named is replaced.
- Apply is strategic merge. Who owns a field is not kept, so applying without a field does not
  remove it, and nothing ever conflicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hamid.kube.errors import Invalid
from hamid.kube.port import PatchKind

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject, PatchBody

_MERGE_KEYS: Final = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "conditions": ("type",),
    "addresses": ("type",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "ownerReferences": ("uid",),
    "hostAliases": ("ip",),
    "taints": ("key",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
    "webhooks": ("name",),
}
_MERGED_PRIMITIVES: Final = frozenset({"finalizers"})


def patched(value: JsonObject, patch: PatchBody, kind: PatchKind) -> JsonObject:
    """The value with the patch applied; neither argument is changed."""
    if kind is PatchKind.JSON:
        if not isinstance(patch, list):
            raise Invalid("a JSON patch must be a list of operations")
        result = json_patched(value, patch)
    elif not isinstance(patch, dict):
        raise Invalid("the patch must be an object")
    elif kind is PatchKind.MERGE:
        result = merged(value, patch)
    else:
        result = _strategic(value, patch)
    if not isinstance(result, dict):
        raise Invalid("the patch leaves no object")
    return result


def merged(value: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result


def _strategic(value: Any, patch: JsonObject) -> JsonObject:
    if patch.get("$patch") == "replace":
        return {key: change for key, change in patch.items() if key != "$patch"}
    result = dict(value) if isinstance(value, dict) else {}
    if retained := patch.get("$retainKeys"):
        result = {key: kept for key, kept in result.items() if key in retained}
    for key, change in patch.items():
        if key.startswith("$"):
            _directive(result, key, change)
        elif change is None:
            result.pop(key, None)
        elif isinstance(change, dict):
            if change.get("$patch") == "delete":
                result.pop(key, None)
            else:
                result[key] = _strategic(result.get(key), change)
        elif isinstance(change, list):
            result[key] = _strategic_list(key, result.get(key) or [], change)
        else:
            result[key] = change
    return result


def _directive(result: JsonObject, key: str, change: Any) -> None:
    name, _, of = key.partition("/")
    if name == "$deleteFromPrimitiveList" and of in result:
        result[of] = [item for item in result[of] if item not in change]


def _strategic_list(key: str, old: list[Any], change: list[Any]) -> list[Any]:
    if key in _MERGED_PRIMITIVES:
        return [*old, *(item for item in change if item not in old)]
    merge_key = _merge_key(key, change)
    if merge_key is None:
        return change
    if any(item.get("$patch") == "replace" for item in change):
        return [item for item in change if item.get("$patch") != "replace"]
    by_key = {item.get(merge_key): item for item in old}
    for item in change:
        name = item.get(merge_key)
        if item.get("$patch") == "delete":
            by_key.pop(name, None)
        else:
            by_key[name] = _strategic(by_key.get(name), item)
    return list(by_key.values())


def _merge_key(key: str, change: list[Any]) -> str | None:
    if not all(isinstance(item, dict) for item in change):
        return None
    for candidate in _MERGE_KEYS.get(key, ()):
        if all(candidate in item or item.get("$patch") == "replace" for item in change):
            return candidate
    return None


def json_patched(value: Any, operations: list[JsonObject]) -> Any:
    """RFC 6902, all operations or none."""
    document = _copy(value)
    for operation in operations:
        try:
            document = _operated(document, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Invalid(
                f"the server rejected our request due to an error in our request: {operation.get('op')}"
                f" {operation.get('path')!r} cannot be done: {error!r}"
            ) from error
    return document


def _operated(document: Any, operation: JsonObject) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _added(document, path, _copy(operation["value"]))
        case "remove":
            return _removed(document, path)
        case "replace":
            _at(document, path)
            return _added(_removed(document, path), path, _copy(operation["value"]))
        case "move":
            source = _pointer(operation["from"])
            moved = _at(document, source)
            return _added(_removed(document, source), path, moved)
        case "copy":
            return _added(document, path, _copy(_at(document, _pointer(operation["from"]))))
        case "test":
            if _at(document, path) != operation["value"]:
                raise ValueError("the value is another")
            return document
        case other:
            raise ValueError(f"unknown operation {other!r}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} does not begin with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for part in path:
        document = (
            document[_index(document, part)] if isinstance(document, list) else document[part]
        )
    return document


def _added(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _at(document, path[:-1])
    if isinstance(parent, list):
        place = len(parent) if path[-1] == "-" else _index(parent, path[-1])
        if place > len(parent):
            raise IndexError(f"index {place} is past the end")
        parent.insert(place, value)
    else:
        parent[path[-1]] = value
    return document


def _removed(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    parent = _at(document, path[:-1])
    del parent[_index(parent, path[-1]) if isinstance(parent, list) else path[-1]]
    return document


def _index(items: list[Any], text: str) -> int:
    if not text.isdecimal():
        raise IndexError(f"{text!r} is no index of a list of {len(items)}")
    return int(text)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
