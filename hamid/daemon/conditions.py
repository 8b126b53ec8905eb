"""What must be true for the daemon to be ready, since when it is or is not, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition; `since_s` is by the wall clock, for people."""

    is_true: bool
    reason: str
    since_s: float


@dataclass(slots=True, kw_only=True)
class Conditions:
    """Named conditions; ready means that all are true.

    A condition is a question asked at each look, so that none can be forgotten to be withdrawn.
    """

    clock: Callable[[], float]
    _probes: dict[str, Callable[[], tuple[bool, str]]] = field(default_factory=dict)
    _last: dict[str, Condition] = field(default_factory=dict)

    def declare(self, name: str, probe: Callable[[], tuple[bool, str]]) -> None:
        """Require that the probe says true; its text says why it is as it is."""
        self._probes[name] = probe

    def look(self) -> Mapping[str, Condition]:
        """All conditions as they are now."""
        for name, probe in self._probes.items():
            is_true, reason = probe()
            before = self._last.get(name)
            since_s = before.since_s if before and before.is_true == is_true else self.clock()
            self._last[name] = Condition(is_true=is_true, reason=reason, since_s=since_s)
        return dict(self._last)
