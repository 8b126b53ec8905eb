"""Lease object (`coordination.k8s.io/v1`) ↔ lease record.

Fields of the object that the record lacks survive: what others write there is theirs.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hamid.codec.jsontext import ShapeError, as_int, as_object, as_text
from hamid.errors import WireError
from hamid.model.lease import LeaseRecord

if TYPE_CHECKING:
    from hamid.codec.jsontext import JsonObject


def decode_lease(lease: JsonObject) -> LeaseRecord:
    """What the object says of its holder; a spec that is silent says that nobody holds it."""
    spec = _spec(lease)
    try:
        return LeaseRecord(
            holder_identity=_text(spec, "holderIdentity"),
            lease_duration_s=float(_number(spec, "leaseDurationSeconds")),
            renewed_at=_text(spec, "renewTime"),
            transitions=_number(spec, "leaseTransitions"),
        )
    except ShapeError as error:
        raise _unreadable(error) from error


def encode_lease(record: LeaseRecord, *, base: JsonObject) -> JsonObject:
    """The base object with the record written into it; the base is left as it is.

    Where the holder changes, the time of acquisition becomes that of the renewal.
    """
    spec = dict(_spec(base))
    if (spec.get("holderIdentity") or "") != record.holder_identity:
        spec["acquireTime"] = record.renewed_at
    spec |= {
        "holderIdentity": record.holder_identity,
        # Whole seconds, and at least one: the API server refuses 0.
        "leaseDurationSeconds": max(math.ceil(record.lease_duration_s), 1),
        "renewTime": record.renewed_at,
        "leaseTransitions": record.transitions,
    }
    return {**base, "spec": spec}


def format_micro_time(at_s: float) -> str:
    """Seconds since the epoch as Kubernetes' MicroTime: `2026-11-30T07:12:44.250000Z`."""
    moment = datetime.fromtimestamp(at_s, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec(lease: JsonObject) -> JsonObject:
    spec = lease.get("spec")
    try:
        return {} if spec is None else as_object(spec, what="spec")
    except ShapeError as error:
        raise _unreadable(error) from error


def _unreadable(error: ShapeError) -> WireError:
    return WireError(
        f"the Lease cannot be read: {error}",
        hint="somebody else wrote it; delete the Lease, and a leader is elected anew",
    )


def _text(spec: JsonObject, key: str) -> str:
    value = spec.get(key)
    return "" if value in (None, "") else as_text(value, what=f"spec.{key}")


def _number(spec: JsonObject, key: str) -> int:
    value = spec.get(key)
    return 0 if value is None else as_int(value, what=f"spec.{key}")
