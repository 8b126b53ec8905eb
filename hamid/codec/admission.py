"""AdmissionReview ↔ values: what the API server asks of a webhook, and the verdict.

Both `admission.k8s.io/v1` and `v1beta1` are read, and answered in kind. Changes are JSON Patch
operations on the object as it came: fields that we do not know survive.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never

from hamid.codec.jsontext import (
    ShapeError,
    as_list,
    as_object,
    as_text,
    dumps,
    loads_object,
    quoted,
)
from hamid.errors import AdmissionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.codec.jsontext import JsonObject
    from hamid.codec.pod_request import ContainerFix

API_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
KIND: Final = "AdmissionReview"
FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """What is to be admitted, and who wants it.

    Attributes:
        uid: of the review, not of the object.
        api_version: of the review; the answer has the same.
        operation: `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
        name: empty where the server is yet to make one up.
        object, old_object: None where the operation has none.
        resource: as for logs: `pods`, `leases.coordination.k8s.io`.
        subresource: empty for the object itself.
    """

    uid: str
    api_version: str
    operation: str
    namespace: str
    name: str
    username: str
    groups: tuple[str, ...]
    object: JsonObject | None
    old_object: JsonObject | None
    resource: str
    subresource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchOp:
    """One operation of a JSON Patch (RFC 6902); `remove` has no value."""

    op: Literal["add", "replace", "remove", "test"]
    path: str
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """It may be, once patched; the warnings are shown to who asked."""

    patch: tuple[PatchOp, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """It may not be; the message is shown to who asked."""

    message: str
    code: int = FORBIDDEN


Verdict: TypeAlias = Allow | Deny


def decode_review(body: bytes) -> AdmissionRequest:
    """The request within the review.

    Raises:
        AdmissionError: it is no review, or of a version that we do not know.
    """
    try:
        return _decode_review(loads_object(body))
    except ShapeError as error:
        raise AdmissionError(
            f"the AdmissionReview cannot be read: {error}",
            hint="only the API server should call this; see the webhook's configuration",
        ) from error


def encode_review(request: AdmissionRequest, verdict: Verdict) -> bytes:
    """The review that answers the request."""
    response: JsonObject = {"uid": request.uid}
    match verdict:
        case Allow(patch=patch, warnings=warnings):
            response["allowed"] = True
            if patch:
                response["patchType"] = "JSONPatch"
                response["patch"] = base64.b64encode(encode_patch(patch)).decode()
            if warnings:
                response["warnings"] = list(warnings)
        case Deny(message=message, code=code):
            response["allowed"] = False
            response["status"] = {"code": code, "message": message}
        case _:
            assert_never(verdict)
    return dumps({"apiVersion": request.api_version, "kind": KIND, "response": response})


def encode_patch(patch: Iterable[PatchOp]) -> bytes:
    """The JSON Patch document of the operations."""
    return dumps([patch_object(op) for op in patch])


def patch_object(op: PatchOp) -> JsonObject:
    """One operation as JSON has it."""
    entry: JsonObject = {"op": op.op, "path": op.path}
    if op.op != "remove":
        entry["value"] = op.value
    return entry


def json_pointer(*parts: str | int) -> str:
    """The JSON Pointer (RFC 6901) of the parts: `("a/b", 0)` is `/a~1b/0`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def limits_patch(pod: JsonObject, fixes: Iterable[ContainerFix]) -> tuple[PatchOp, ...]:
    """The operations that write the fixes, with the objects around them where those are missing."""
    ops: list[PatchOp] = []
    made: set[str] = set()
    parts: list[str | int]
    for fix in fixes:
        if fix.value is None:
            parts = ["spec", fix.list_name, fix.index, "resources", fix.section, fix.resource]
            ops.append(PatchOp(op="remove", path=json_pointer(*parts)))
            continue
        node: Any = pod["spec"][fix.list_name][fix.index]
        parts = ["spec", fix.list_name, fix.index]
        for key in ("resources", fix.section):
            parts.append(key)
            node = (node or {}).get(key)
            path = json_pointer(*parts)
            if node is None and path not in made:
                made.add(path)
                ops.append(PatchOp(op="add", path=path, value={}))
        ops.append(PatchOp(op="add", path=json_pointer(*parts, fix.resource), value=fix.value))
    return tuple(ops)


def _decode_review(review: JsonObject) -> AdmissionRequest:
    api_version = as_text(review.get("apiVersion"), what="apiVersion")
    kind = as_text(review.get("kind"), what="kind")
    if kind != KIND or api_version not in API_VERSIONS:
        raise ShapeError(
            f"it is {quoted(kind)} of {quoted(api_version)}; "
            f"known is {KIND} of {' and '.join(API_VERSIONS)}"
        )
    request = as_object(review.get("request"), what="request")
    user = as_object(request.get("userInfo", {}), what="request.userInfo")
    groups = as_list(user.get("groups", []), what="request.userInfo.groups")
    return AdmissionRequest(
        uid=as_text(request.get("uid"), what="request.uid"),
        api_version=api_version,
        operation=as_text(request.get("operation"), what="request.operation"),
        namespace=_optional_text(request, "namespace"),
        name=_optional_text(request, "name"),
        username=_optional_text(user, "username"),
        groups=tuple(as_text(group, what="a group of the user") for group in groups),
        object=_optional_object(request, "object"),
        old_object=_optional_object(request, "oldObject"),
        resource=_resource(as_object(request.get("resource"), what="request.resource")),
        subresource=_optional_text(request, "subResource"),
    )


def _resource(resource: JsonObject) -> str:
    group = _optional_text(resource, "group")
    plural = as_text(resource.get("resource"), what="request.resource.resource")
    return f"{plural}.{group}" if group else plural


def _optional_text(parent: JsonObject, key: str) -> str:
    value = parent.get(key)
    return "" if value in (None, "") else as_text(value, what=key)


def _optional_object(parent: JsonObject, key: str) -> JsonObject | None:
    value = parent.get(key)
    return None if value is None else as_object(value, what=key)
