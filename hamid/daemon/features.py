"""What this cluster lacks of what hamid would use, found out at start, and what that costs.

Each lack is said once. The API server's is asked for before the election, the kubelet's of this node
after it has registered us.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.ticker import pause
from hamid.daemon.patience import until_answered
from hamid.errors import KubeletError
from hamid.kube.port import (
    ENDPOINT_SLICES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    VALIDATING_POLICIES,
    ServerVersion,
)
from hamid.plugin.settings import GrantMode

if TYPE_CHECKING:
    from hamid.aiokit.latest import Latest
    from hamid.kube.port import KubePort
    from hamid.kubelet.registration import Registration
    from hamid.plugin.admission_view import AdmissionView
    from hamid.plugin.grants import GrantFiles

log = structlog.get_logger(__name__)

OLDEST: Final = ServerVersion(major=1, minor=20)
MATCH_CONDITIONS_SINCE: Final = ServerVersion(major=1, minor=28)
CDI_DEVICES_SINCE: Final = ServerVersion(major=1, minor=29)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeatures:
    """What the API server has."""

    version: ServerVersion
    has_match_conditions: bool
    has_validating_policies: bool
    has_endpoint_slices: bool
    has_disruption_budgets: bool

    def lacks(self) -> tuple[str, ...]:
        """What is missed, each with what it costs, in words."""
        missing = []
        if self.version < OLDEST:
            missing.append(f"Kubernetes {self.version} is older than {OLDEST}: nothing is promised")
        if not self.has_match_conditions:
            missing.append(
                "webhooks have no matchConditions: every new pod passes through the webhook, and "
                "it must fail open, so a pod created while no replica answers is not admitted; about "
                "changes of pods it is not asked, so whoever may annotate a pod can change what the "
                "books count of it, and what it gets until its container first starts"
            )
        if not self.has_validating_policies:
            missing.append(
                "there is no ValidatingAdmissionPolicy: any node's replica could write to other "
                "nodes and bind pods, for RBAC alone cannot tell the nodes apart; and in namespaces "
                "that the webhook is kept from, records of decisions can be forged"
            )
        if not self.version.has_binding_uid_check:
            missing.append(
                "the API server does not compare a Binding's uid: each bind reads the pod first, and "
                "a pod deleted and made anew in between may get its predecessor's slice"
            )
        if not self.has_endpoint_slices:
            missing.append("there is no EndpointSlice v1: the leader publishes Endpoints instead")
        if not self.has_disruption_budgets:
            missing.append(
                "there is no PodDisruptionBudget v1: whom to evict is chosen without a look at budgets; "
                "the API server holds hamid to them, but not kube-scheduler"
            )
        return tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFeatures:
    """What the kubelet of this node has.

    Attributes:
        version: None where the API server does not tell.
    """

    version: ServerVersion | None
    has_pod_resources: bool
    has_pod_resources_get: bool
    has_pods_api: bool

    @property
    def takes_cdi_names(self) -> bool:
        """Whether it hands the names of CDI devices on to the runtime."""
        return self.version is None or self.version >= CDI_DEVICES_SINCE

    def lacks(self, grant_mode: GrantMode) -> tuple[str, ...]:
        """What is missed, each with what it costs, in words."""
        missing = []
        if not self.has_pod_resources:
            missing.append(
                "the kubelet's pod resources do not answer: of several pods that wait for slots, the "
                "oldest is guessed, and a wrong guess is found out when its container starts"
            )
        elif not self.has_pod_resources_get:
            missing.append(
                "pod resources have no Get (on since 1.34): all pods of the node are listed where "
                "the kubelet is asked about one"
            )
        if not self.has_pods_api:
            missing.append(
                "there is no Pods API (on since 1.37): the kubelet tells pods apart by name only, so "
                "one of the same name as its predecessor is known for sure when its container starts"
            )
        if grant_mode is GrantMode.CDI and not self.takes_cdi_names:
            missing.append(
                f"the kubelet {self.version} drops CDI names (on since {CDI_DEVICES_SINCE}): containers "
                "get devices and limits as with plugin.grant_mode env, and one for which the cards of "
                "another were guessed does not start"
            )
        return tuple(missing)


@dataclass(slots=True, kw_only=True)
class KubeletProbe:
    """Looks what the kubelet has, each time it has registered us: it may be a newer one; a service.

    Of CDI names it tells those who write grants.

    Attributes:
        settle_s: what it lacks it is asked for once more after so long, for a kubelet that starts opens
            one socket after the other.
    """

    registration: Latest[Registration]
    view: AdmissionView
    kube: KubePort
    node_name: str
    files: GrantFiles
    settle_s: float = 5.0
    name: str = "kubelet-probe"
    _said: set[str] = field(default_factory=set)
    _looked_count: int = 0

    async def run(self) -> None:
        """Look until cancelled."""
        async for registration in self.registration.changes():
            if registration.is_registered and registration.registered_count > self._looked_count:
                self._looked_count = registration.registered_count
                await self.step()

    async def step(self) -> None:
        """Look once, and say what was not said before."""
        features = await self._look()
        self.files.takes_cdi_names = features.takes_cdi_names
        if features.lacks(self.files.mode):
            await pause(self.settle_s)
            features = await self._look()
        for missing in features.lacks(self.files.mode):
            if missing not in self._said:
                log.info("kubelet lacks a feature", version=str(features.version), cost=missing)
            self._said.add(missing)

    async def _look(self) -> KubeletFeatures:
        has_pod_resources = await self._has_pod_resources()
        return KubeletFeatures(
            version=await until_answered(self._version, what="the kubelet's version"),
            has_pod_resources=has_pod_resources,
            has_pod_resources_get=self.view.pod_resources.can_get,
            has_pods_api=await self._has_pods_api(),
        )

    async def _has_pod_resources(self) -> bool:
        try:
            # No such pod; that it is asked for by name shows whether Get is served.
            await self.view.pod_resources.get("default", "hamid-kubelet-probe")
        except KubeletError as error:
            log.debug("pod resources not probed", error=repr(error))
            return False
        return True

    async def _has_pods_api(self) -> bool:
        try:
            await self.view.pods_api.list_pods()
        except KubeletError as error:
            log.debug("pods api not probed", error=repr(error))
            return False
        return True

    async def _version(self) -> ServerVersion | None:
        node = await self.kube.get(NODES, self.node_name)
        info = (node.get("status") or {}).get("nodeInfo") or {}
        found = _VERSION.match(info.get("kubeletVersion") or "")
        if found is None:
            return None
        major, minor, patch = map(int, found.groups())
        return ServerVersion(major=major, minor=minor, patch=patch)


async def discover(kube: KubePort) -> ClusterFeatures:
    """Ask the API server what it has, and say once what it lacks."""
    version = await kube.version()
    features = ClusterFeatures(
        version=version,
        has_match_conditions=version >= MATCH_CONDITIONS_SINCE,
        has_validating_policies=await kube.serves(VALIDATING_POLICIES),
        has_endpoint_slices=await kube.serves(ENDPOINT_SLICES),
        has_disruption_budgets=await kube.serves(POD_DISRUPTION_BUDGETS),
    )
    for missing in features.lacks():
        log.warning("cluster lacks a feature", version=str(version), cost=missing)
    return features
