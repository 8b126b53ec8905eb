"""The admission webhook: reviews in, verdicts out; every replica serves it.

The rules are in `admission_rules`. A review that cannot be read is the caller's fault and gets
400; a pod that may not be is an orderly answer with `allowed: false`. What happens when no
replica answers is the webhook configuration's `failurePolicy`, not ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from prometheus_client import Counter

from hamid.codec.admission import Allow, Deny, decode_review, encode_review
from hamid.sched.admission_rules import Rules
from hamid.web.responses import json_body

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from hamid.codec.admission import AdmissionRequest, Verdict
    from hamid.sched.quota_lookup import QuotaLookup

log = structlog.get_logger(__name__)

PATHS = ("/webhook", "/mutate")
"""The first is HAMi's as well, so that configurations written for it work."""


class AdmissionMetrics:
    """How many reviews came to which verdict."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            "hamid_sched_admission_reviews_total",
            "Reviews of pods answered by the webhook.",
            ("verdict",),
            registry=registry,
        )
        for verdict in ("untouched", "patched", "refused"):
            self._reviews.labels(verdict)

    def count(self, verdict: Verdict) -> None:
        """Count one answered review."""
        match verdict:
            case Deny():
                self._reviews.labels("refused").inc()
            case Allow(patch=patch):
                self._reviews.labels("patched" if patch else "untouched").inc()


@dataclass(slots=True, kw_only=True)
class Admission:
    """Answers the API server's reviews; without `quotas` none is looked at."""

    metrics: AdmissionMetrics
    rules: Rules = field(default_factory=Rules)
    quotas: QuotaLookup | None = None

    def routes(self) -> tuple[web.RouteDef, ...]:
        """What to serve, over TLS."""
        return tuple(web.post(path, self.review) for path in PATHS)

    async def review(self, request: web.Request) -> web.Response:
        """One review, answered in its own version."""
        review = decode_review(await request.read())
        verdict = await self._verdict(review)
        self.metrics.count(verdict)
        _log(review, verdict)
        return json_body(encode_review(review, verdict))

    async def _verdict(self, review: AdmissionRequest) -> Verdict:
        if self.quotas is None or not self.rules.asks_for_quotas(review):
            return self.rules.verdict(review)
        without = self.rules.verdict(review)
        if isinstance(without, Deny):
            return without
        known = self.rules.verdict(review, await self.quotas.known(review.namespace))
        if known == without:
            return known
        return self.rules.verdict(review, await self.quotas.newest(review.namespace))


def _log(review: AdmissionRequest, verdict: Verdict) -> None:
    pod = f"{review.namespace}/{review.name or '(unnamed)'}"
    match verdict:
        case Deny(message=message):
            log.info("pod refused", pod=pod, operation=review.operation, reason=message)
        case Allow(patch=patch) if patch:
            log.info("pod admitted", pod=pod, changed=[op.path for op in patch])
        case Allow():
            log.debug("pod left alone", pod=pod, operation=review.operation)
