"""What replicas tell each other on a Lease beside what `codec.lease` reads, and its times.

Standbys are a JSON list of identities, in the order in which they signed up; of the certificate that
the leader serves with there is the fingerprint.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from hamid.codec.jsontext import ShapeError, as_list, as_object, as_text, dumps, loads
from hamid.errors import AnnotationError
from hamid.model.names import LEASE_CANDIDATE, LEASE_CERTIFICATE, LEASE_STANDBYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.codec.jsontext import JsonObject


def decode_standbys(lease: JsonObject) -> tuple[str, ...]:
    """The identities that signed up; none where the annotation is missing."""
    try:
        annotations = _annotations(lease)
        text = annotations.get(LEASE_STANDBYS)
        if text is None:
            return ()
        entries = as_list(loads(as_text(text, what=LEASE_STANDBYS)), what=LEASE_STANDBYS)
        return tuple(as_text(entry, what="a standby") for entry in entries)
    except ShapeError as error:
        raise AnnotationError(
            f"the annotation {LEASE_STANDBYS} of the Lease cannot be read: {error}",
            hint="remove the annotation, and the replicas sign up anew",
        ) from error


def encode_standbys(standbys: Sequence[str], *, base: JsonObject) -> JsonObject:
    """The Lease with these standbys; the base is left as it is."""
    return _annotated(base, LEASE_STANDBYS, dumps(list(standbys)).decode() if standbys else "")


def encode_candidate(*, is_candidate: bool, base: JsonObject) -> JsonObject:
    """The Lease as one who wants to lead writes it, or as its holder; the base is left as it is."""
    meta = as_object(base.get("metadata") or {}, what="metadata")
    labels = dict(as_object(meta.get("labels") or {}, what="metadata.labels"))
    labels.pop(LEASE_CANDIDATE, None)
    if is_candidate:
        labels[LEASE_CANDIDATE] = ""
    return {**base, "metadata": {**meta, "labels": labels}}


def decode_served(lease: JsonObject) -> str:
    """The fingerprint of what the leader serves with; empty where it is not said."""
    found = _annotations(lease).get(LEASE_CERTIFICATE)
    return found if isinstance(found, str) else ""


def encode_served(fingerprint: str, *, base: JsonObject) -> JsonObject:
    """The Lease that says what the leader serves with; the base is left as it is."""
    return _annotated(base, LEASE_CERTIFICATE, fingerprint)


def parse_micro_time(text: str) -> float | None:
    """Seconds since the epoch of Kubernetes' MicroTime, or None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _annotated(base: JsonObject, name: str, text: str) -> JsonObject:
    """The base with this annotation; without it where the text is empty."""
    meta = as_object(base.get("metadata") or {}, what="metadata")
    annotations = {key: value for key, value in _annotations(base).items() if key != name}
    if text:
        annotations[name] = text
    return {**base, "metadata": {**meta, "annotations": annotations}}


def _annotations(lease: JsonObject) -> JsonObject:
    meta = as_object(lease.get("metadata") or {}, what="metadata")
    return as_object(meta.get("annotations") or {}, what="metadata.annotations")
