"""What this cluster lacks of what hamid would use, found out once, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from hamid.kube.port import ENDPOINT_SLICES, VALIDATING_POLICIES, ServerVersion

if TYPE_CHECKING:
    from hamid.kube.port import KubePort

log = structlog.get_logger(__name__)

OLDEST = ServerVersion(major=1, minor=20)
MATCH_CONDITIONS_SINCE = ServerVersion(major=1, minor=28)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeatures:
    """What the API server has."""

    version: ServerVersion
    has_match_conditions: bool
    has_validating_policies: bool
    has_endpoint_slices: bool

    def lacks(self) -> tuple[str, ...]:
        """What is missed, each with what it costs, in words."""
        missing = []
        if self.version < OLDEST:
            missing.append(f"Kubernetes {self.version} is older than {OLDEST}: nothing is promised")
        if not self.has_match_conditions:
            missing.append(
                "webhooks have no matchConditions: every new pod passes through the webhook, and "
                "it must fail open, so a pod created while no replica answers is not admitted"
            )
        if not self.has_validating_policies:
            missing.append(
                "there is no ValidatingAdmissionPolicy: any node's replica could write to other "
                "nodes and bind pods; RBAC alone cannot tell the nodes apart"
            )
        if not self.version.has_binding_uid_check:
            missing.append(
                "the API server does not compare a Binding's uid: each bind reads the pod first, and "
                "a pod deleted and made anew in between may get its predecessor's slice"
            )
        if not self.has_endpoint_slices:
            missing.append("there is no EndpointSlice v1: the leader publishes Endpoints instead")
        return tuple(missing)


async def discover(kube: KubePort) -> ClusterFeatures:
    """Ask the API server what it has, and say once what it lacks."""
    version = await kube.version()
    features = ClusterFeatures(
        version=version,
        has_match_conditions=version >= MATCH_CONDITIONS_SINCE,
        has_validating_policies=await kube.serves(VALIDATING_POLICIES),
        has_endpoint_slices=await kube.serves(ENDPOINT_SLICES),
    )
    for missing in features.lacks():
        log.warning("cluster lacks a feature", version=str(version), cost=missing)
    return features
