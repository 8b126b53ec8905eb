"""What the fake can be told to lack: that of an old version, or of an administrator's choice."""

from __future__ import annotations

from dataclasses import dataclass

from hamid.kube.port import ServerVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeFeatures:
    """The version to imitate and what to lack beyond it.

    Attributes:
        version: `1.20` to `1.37`, with a patch if that matters.
        lacks: labels of resources (`validatingadmissionpolicies.admissionregistration.k8s.io`),
            and `matchConditions`, `bookmarks`.
    """

    version: str = "1.37"
    lacks: frozenset[str] = frozenset()

    @property
    def server_version(self) -> ServerVersion:
        """The version as a value."""
        major, minor, patch = (*map(int, self.version.split(".")), 0)[:3]
        return ServerVersion(major=major, minor=minor, patch=patch)

    @property
    def has_match_conditions(self) -> bool:
        """Whether webhooks keep their matchConditions (on since 1.28)."""
        return self._since(28) and "matchConditions" not in self.lacks

    @property
    def has_sidecars(self) -> bool:
        """Whether init containers keep their restartPolicy (on since 1.29)."""
        return self._since(29)

    @property
    def has_scheduling_gates(self) -> bool:
        """Whether pods keep their schedulingGates (on since 1.27)."""
        return self._since(27)

    @property
    def has_eviction_v1(self) -> bool:
        """Whether evictions are of policy/v1 (since 1.22) and not of policy/v1beta1."""
        return self._since(22)

    @property
    def has_bookmarks(self) -> bool:
        """Whether watches get bookmarks; a server may always leave them out."""
        return "bookmarks" not in self.lacks

    @property
    def has_streamed_lists(self) -> bool:
        """Whether a watch can be a list, too (`sendInitialEvents`; on for good since 1.34)."""
        return self._since(34)

    def _since(self, minor: int) -> bool:
        return self.server_version >= ServerVersion(major=1, minor=minor)
