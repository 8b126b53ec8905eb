"""Which pods are admitted, and what is changed in them: decided from the review alone.

Invariants:

1. One verdict for the whole pod, with every reason at once; a reason about a container names it.
2. A pod that does not ask for devices is left as it is, but for forged annotations.
3. Changes are operations on single fields: whatever else the pod holds survives, known or not.
4. Applied to its own result, the verdict changes nothing: API servers call webhooks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hamid.codec.admission import Allow, Deny, PatchOp, json_pointer, limits_patch
from hamid.codec.pod import pod_containers, pod_meta
from hamid.codec.pod_request import asked_resources, decode_pod_request, required_limits
from hamid.codec.quota import decode_payer
from hamid.codec.spelled_out import spelled_out
from hamid.errors import RequestError, shortened
from hamid.model.names import (
    ASKED_BY_AUTHOR,
    OWN_PREFIXES,
    POD_ROOM_FREED,
    WEBHOOK_LABEL,
    WEBHOOK_LABEL_4PD,
    WRITTEN_BY_US,
    ResourceNames,
)
from hamid.model.quota import exceeding
from hamid.model.request import RequestDefaults
from hamid.sched.admission_settings import AdmissionSettings, ForgeryPolicy, Policy
from hamid.sched.placement.over_quota import never_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hamid.codec.admission import AdmissionRequest, Verdict
    from hamid.codec.jsontext import JsonObject
    from hamid.model.quota import Quota
    from hamid.model.request import PodRequest

PODS: Final = "pods"
IGNORE: Final = "ignore"

UNPROCESSABLE: Final = 422

_KNOWN: Final = frozenset((*ASKED_BY_AUTHOR, *WRITTEN_BY_US, POD_ROOM_FREED))
_ALIKE: Final = 0.85
"""How alike two keys must be for one to be a misspelling of the other; 1 is equal."""
_LONGEST_REFUSAL: Final = 4_000
"""Characters: it is logged, and something can be wrong with each of thousands of containers."""
_KEYS_LOOKED_AT: Final = 100
"""More than pods have. To look at one takes a tenth of a millisecond, and a pod can hold thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of this cluster."""

    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    resources: ResourceNames = field(default_factory=ResourceNames)
    defaults: RequestDefaults = field(default_factory=RequestDefaults)
    spells_out: bool = False
    """Write amounts in full, for kubelets and autoscalers that add them up."""

    def asks_for_quotas(self, review: AdmissionRequest) -> bool:
        """Whether the verdict may depend on the quotas of the namespace."""
        if review.resource != PODS or (review.operation, review.subresource) != ("CREATE", ""):
            return False
        if review.object is None or self.settings.over_quota is Policy.ALLOW:
            return False
        try:
            return asked_resources(review.object, self.resources)
        except RequestError:
            return False

    def verdict(self, review: AdmissionRequest, quotas: Sequence[Quota] = ()) -> Verdict:
        """What becomes of the pod; anything but a pod is none of our business.

        Args:
            review: of the pod.
            quotas: of its namespace, for a pod for which `asks_for_quotas` holds.
        """
        if review.resource != PODS or review.object is None:
            return Allow()
        try:
            match review.operation, review.subresource:
                case "CREATE", "":
                    return self._of_new(review.object, review.namespace, quotas)
                case "UPDATE", "":
                    return self._of_change(review)
                case _:
                    return Allow()
        except RequestError as error:
            said = shortened(error.message, longest=_LONGEST_REFUSAL)
            return Deny(message=f"{said} ({error.hint})", code=UNPROCESSABLE)

    def _of_new(self, pod: JsonObject, namespace: str, quotas: Sequence[Quota]) -> Verdict:
        findings = _Findings()
        strip = self._strip(pod, findings)
        if _is_opted_out(pod):
            return findings.verdict(strip)
        request = decode_pod_request(pod, names=self.resources, defaults=self.defaults)
        if request is None:
            return findings.verdict(strip)
        self._question(pod, request, findings)
        scheduler = _spec(pod).get("schedulerName") or ""
        if self._is_foreign(scheduler):
            findings.add(
                self.settings.foreign_scheduler,
                f"the pod asks for shared devices but names the scheduler {scheduler!r}, which "
                f"does not book them; name {self.settings.scheduler_name!r} or none",
            )
            return findings.verdict(strip)
        payer = decode_payer(pod, namespace=namespace)
        if over := exceeding(request, [quota for quota in quotas if quota.binds(payer)]):
            findings.add(self.settings.over_quota, never_sentence(payer.namespace, over))
        return findings.verdict((*strip, *self._changes(pod, request, scheduler)))

    def _of_change(self, review: AdmissionRequest) -> Verdict:
        if review.object is None or review.username in self.settings.own_usernames:
            return Allow()
        old = pod_meta(review.old_object or {}).annotations
        new = pod_meta(review.object).annotations
        changed = [key for key in WRITTEN_BY_US if old.get(key) != new.get(key)]
        if not changed:
            return Allow()
        return Deny(
            message=f"only the scheduler may change {', '.join(changed)} of a pod "
            f"(leave {'them' if len(changed) > 1 else 'it'} as before; to give the pod other "
            "devices, delete it and create it anew)"
        )

    def _strip(self, pod: JsonObject, findings: _Findings) -> tuple[PatchOp, ...]:
        annotations = pod_meta(pod).annotations
        forged = [key for key in WRITTEN_BY_US if key in annotations]
        if not forged:
            return ()
        said = f"only the scheduler may write the annotations {', '.join(forged)}"
        if self.settings.forged_annotations is ForgeryPolicy.REFUSE:
            findings.add(Policy.REFUSE, f"{said}; leave them out")
            return ()
        findings.add(Policy.WARN, f"{said}; they were left out")
        return tuple(
            PatchOp(op="remove", path=json_pointer("metadata", "annotations", key))
            for key in forged
        )

    def _is_foreign(self, scheduler: str) -> bool:
        settings = self.settings
        return bool(scheduler) and scheduler not in (
            settings.scheduler_name,
            *settings.replaced_schedulers,
        )

    def _question(self, pod: JsonObject, request: PodRequest, findings: _Findings) -> None:
        """Find what the pod does that the operator may not want."""
        settings, spec = self.settings, _spec(pod)
        users = {asking.container_name for asking in request.requests}
        for name in _privileged(pod):
            if name in users:
                findings.add(
                    settings.privileged_user,
                    f"container {name!r} asks for shared devices and is privileged, so that no "
                    "limit holds in it; take securityContext.privileged away",
                )
            else:
                findings.add(
                    settings.privileged_neighbour,
                    f"container {name!r} is privileged and sees all devices of the node, while "
                    f"{_listed(users)} shares some; run it in a pod of its own, or unprivileged",
                )
        for said in _unknown_annotations(pod_meta(pod).annotations):
            findings.add(settings.unknown_annotations, said)
        if spec.get("hostPID"):
            findings.add(
                settings.host_pid,
                f"{_listed(users)} shares devices in a pod with hostPID, which sees the processes "
                "of other tenants; take spec.hostPID away",
            )
        if node := spec.get("nodeName"):
            findings.add(
                settings.preset_node,
                f"the pod asks for shared devices but has spec.nodeName {str(node)!r} already, so "
                "that nobody chooses its devices; use a nodeSelector "
                f"kubernetes.io/hostname: {node} instead",
            )

    def _changes(self, pod: JsonObject, request: PodRequest, scheduler: str) -> tuple[PatchOp, ...]:
        settings, spec = self.settings, _spec(pod)
        ops: list[PatchOp] = []
        if scheduler != settings.scheduler_name:
            ops.append(_set(spec, "schedulerName", settings.scheduler_name))
        if settings.runtime_class_name and not spec.get("runtimeClassName"):
            ops.append(_set(spec, "runtimeClassName", settings.runtime_class_name))
        fixes = required_limits(pod, self.resources, self.defaults)
        if self.spells_out:
            fixes += spelled_out(pod, request, self.resources)
        ops += limits_patch(pod, fixes)
        return tuple(ops)


@dataclass(slots=True)
class _Findings:
    """What was found about one pod, so that it gets one answer with all of it."""

    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, policy: Policy, said: str) -> None:
        match policy:
            case Policy.REFUSE:
                self.refusals.append(said)
            case Policy.WARN:
                self.warnings.append(said)
            case Policy.ALLOW:
                pass

    def verdict(self, patch: tuple[PatchOp, ...]) -> Verdict:
        if self.refusals:
            return Deny(message=shortened(". ".join(self.refusals), longest=_LONGEST_REFUSAL))
        return Allow(patch=patch, warnings=tuple(self.warnings))


def _privileged(pod: JsonObject) -> Iterator[str]:
    """The privileged containers by name, init containers first."""
    spec = _spec(pod)
    for container in pod_containers(pod):
        context: Any = spec[container.list_name][container.index].get("securityContext")
        if isinstance(context, dict) and context.get("privileged") is True:
            yield container.name


def _unknown_annotations(annotations: Iterable[str]) -> Iterator[str]:
    """Of each key that looks like one of ours and is none, what to tell its author."""
    for key in islice(annotations, _KEYS_LOOKED_AT):
        if key in _KNOWN:
            continue
        likely = get_close_matches(key, ASKED_BY_AUTHOR, n=1, cutoff=_ALIKE)
        if likely or key.startswith(OWN_PREFIXES):
            meant = f"write {likely[0]!r} if that is meant" if likely else "leave it out"
            yield f"annotation {key!r} is unknown and has no effect; {meant}"


def _is_opted_out(pod: JsonObject) -> bool:
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return isinstance(labels, dict) and IGNORE in (
        labels.get(WEBHOOK_LABEL),
        labels.get(WEBHOOK_LABEL_4PD),
    )


def _spec(pod: JsonObject) -> JsonObject:
    """The pod's spec, which `pod_containers` has found to be an object, or to be missing."""
    spec: JsonObject = pod.get("spec") or {}
    return spec


def _set(spec: JsonObject, key: str, value: str) -> PatchOp:
    return PatchOp(
        op="replace" if key in spec else "add", path=json_pointer("spec", key), value=value
    )


def _listed(containers: set[str]) -> str:
    names = ", ".join(repr(name) for name in sorted(containers))
    return f"container {names}" if len(containers) == 1 else f"one of the containers {names}"
