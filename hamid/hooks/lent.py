"""One container as the lender sees it: its limits, what it claims to use, what it is told."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, Self

from hamid.errors import HookError
from hamid.hooks.abi import contract
from hamid.hooks.abi.budgets import (
    USAGE_BUDGET,
    USAGE_COUNT_BYTES,
    USAGE_COUNT_OFFSET,
    decode_budget,
    decode_places,
)
from hamid.hooks.abi.live import RATE_MAX_PERMILLE, RATE_STOP, RATE_UNSAID
from hamid.hooks.abi.pages import CoreMode, decode_control_page
from hamid.hooks.abi.usage import USAGE_HEADER_BYTES
from hamid.hooks.correction import Correction
from hamid.hooks.live_page import LivePage
from hamid.hooks.monitor import read_usage
from hamid.hooks.shares import Tenant
from hamid.hooks.uncounted import Uncounted
from hamid.hooks.whose import page_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hamid.hooks.abi.budgets import BudgetUse
    from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit
    from hamid.hooks.whose import PageKey

ACTIVE_NS: Final = 60_000_000
"""Who wanted nothing for so long is idle; who had to wait within it wants all there is."""
AHEAD_NS: Final = 5_000_000_000
"""A debt is forgiven beyond this: a moment further ahead is nonsense."""
SMOOTHED: Final = 0.3
"""How much the latest look counts for what is used."""
HEADROOM: Final = 1.25
HEADROOM_PERMILLE: Final = 50.0
"""What is kept free for who wants less than its promise: it may want more at the next look."""
FORGETTING_NS: Final = 500_000_000
"""How slowly it is believed that somebody wants less than before."""
NEARLY: Final = 0.9
"""Who uses so much of what is kept for it may want more."""
SMALLEST_PERMILLE: Final = 1


@dataclass(slots=True, kw_only=True)
class DeviceUse:
    """What the container claims of one of its devices, and what follows from it."""

    limit: DeviceLimit
    mode: CoreMode
    priority: int
    correction: Correction = field(default_factory=Correction)
    uncounted: Uncounted = field(default_factory=Uncounted)
    tenant: Tenant = field(init=False)
    rate_permille: float | None = None
    """What it was told last, before the correction; None where nothing was."""
    _before: tuple[int, int] | None = None
    _sampled: tuple[int, int] | None = None
    _used_permille: float = 0.0
    _reserved_permille: float = inf

    def __post_init__(self) -> None:
        self.tenant = self._tenant(is_active=False, demand=0.0)

    @property
    def device_uuid(self) -> str:
        """Of the device."""
        return self.limit.device_uuid

    @property
    def cap_permille(self) -> float:
        """The promise; 0 where there is none."""
        percent = self.limit.core_percent
        return 10.0 * percent if percent < 100 or self.mode is not CoreMode.HARD else 0.0  # noqa: PLR2004 - the whole

    def look(self, use: BudgetUse | None, now_ns: int) -> None:
        """Take what the container says now; None: nothing."""
        if use is None:
            self.tenant = self._tenant(is_active=False, demand=0.0)
            self.correction.used_percent = 0.0
            return
        is_in_debt = now_ns < use.due_ns < now_ns + AHEAD_NS
        is_active = is_in_debt or abs(now_ns - use.wanted_ns) < ACTIVE_NS
        if not is_active or abs(now_ns - use.waited_ns) < ACTIVE_NS:
            self._reserved_permille = inf  # who comes back may want all of it, at once
        elif self._before is not None and now_ns > self._before[1]:
            self._reserve(use.charged_ns - self._before[0], now_ns - self._before[1])
        self._before = (use.charged_ns, now_ns)
        self.correction.close_window(use.charged_ns, now_ns)
        self.tenant = self._tenant(is_active=is_active, demand=self._reserved_permille)

    def charged_percent(self) -> float:
        """What was charged since this was last asked, of the time that passed."""
        before, self._sampled = self._sampled, self._before
        if before is None or self._before is None or self._before[1] <= before[1]:
            return 0.0
        charged_ns = max(0, self._before[0] - before[0])
        return min(1e3, 100 * charged_ns / (self._before[1] - before[1]))

    def _reserve(self, charged_ns: int, length_ns: int) -> None:
        """Lend what it does not use of its promise, slowly; believe that it wants more at once."""
        used = min(1e4, max(0.0, 1000 * charged_ns / length_ns)) / self.correction.factor
        self._used_permille += SMOOTHED * (used - self._used_permille)
        wanted = self._used_permille * HEADROOM + HEADROOM_PERMILLE
        before = min(self._reserved_permille, max(self.cap_permille, HEADROOM_PERMILLE))
        if self._used_permille > NEARLY * before:
            self._reserved_permille = inf
        else:
            kept = max(0.0, 1 - length_ns / FORGETTING_NS)
            self._reserved_permille = max(wanted, wanted + kept * (before - wanted))

    def word(self, rate: float) -> int:
        """What the live page is to say, when this rate was decided."""
        if self.mode is CoreMode.HARD and not self.cap_permille:
            return RATE_UNSAID
        self.correction.allow(rate)
        self.rate_permille = rate
        if rate <= 0:
            return RATE_STOP
        corrected = round(rate * self.correction.factor)
        return max(SMALLEST_PERMILLE, min(RATE_MAX_PERMILLE, corrected))

    def _tenant(self, *, is_active: bool, demand: float) -> Tenant:
        return Tenant(
            mode=self.mode,
            promise=self.cap_permille,
            weight=self.limit.weight,
            priority=self.priority,
            is_active=is_active,
            demand=demand,
        )


@dataclass(slots=True, kw_only=True)
class LentContainer:
    """A container's pages, open; made by `open`."""

    limits_dir: Path
    usage_path: Path
    control_seen: tuple[int, int]
    live: LivePage
    uses: tuple[DeviceUse, ...]
    page_key: PageKey | None = None
    _usage_fd: int = -1
    _places: dict[str, int] = field(default_factory=dict)
    _named: bytes = b""
    """How many devices the usage page named when it was read which."""

    @classmethod
    def open(cls, *, limits_dir: Path, usage_dir: Path, is_weighed: bool = False) -> Self | None:
        """Open them; None where there is nothing to tell.

        Args:
            limits_dir: where the control page is, and the live page comes.
            usage_dir: where its usage page is.
            is_weighed: its memory is looked after, too, if it has a limit.

        Raises:
            OSError, HookError: there are no limits, or none that can be read; or the disk does not
                take the live page.
        """
        seen = control_seen(limits_dir)
        limits = decode_control_page((limits_dir / contract.CONTROL_PAGE_NAME).read_bytes())
        if not _has_limits_of_time(limits) and not (is_weighed and limits.devices):
            return None
        opened = cls(
            limits_dir=limits_dir,
            usage_path=usage_dir / contract.USAGE_PAGE_NAME,
            control_seen=seen,
            live=LivePage.open(limits_dir, limits),
            uses=tuple(
                DeviceUse(limit=device, mode=limits.mode, priority=limits.priority)
                for device in limits.devices
            ),
        )
        opened.is_current()
        return opened

    @property
    def can_lend(self) -> bool:
        """Whether others' idle time is any of its business."""
        return any(use.mode is not CoreMode.HARD for use in self.uses)

    def is_current(self) -> bool:
        """Whether its limits are still those; looks for its usage page, too."""
        self._open_usage()
        try:
            return control_seen(self.limits_dir) == self.control_seen
        except OSError:
            return False

    def look(self, now_ns: int) -> None:
        """Read what it claims; who uses a device for the first time is seen at once, too."""
        if any(use.device_uuid not in self._places for use in self.uses):
            self._find_places()
        for use in self.uses:
            place = self._places.get(use.device_uuid)
            found = None if place is None else decode_budget(self._read(place, USAGE_BUDGET.size))
            use.look(found, now_ns)

    def say(self, index: int, rate: float, *, is_contended: bool) -> None:
        """Tell its library the rate of the device with this index."""
        self.live.say(index, self.uses[index].word(rate), is_contended=is_contended)

    def charged_bytes(self) -> dict[str, int]:
        """What its living processes are charged, by device; nothing where its page cannot be read."""
        try:
            report = read_usage(self.usage_path.parent)
        except HookError:
            return {}  # the monitor says so
        uuids = [use.device_uuid for use in self.uses]
        return {uuid: report.used_bytes(uuid) for uuid in uuids} if report is not None else {}

    def weigh(self, held: Mapping[str, int], before: Mapping[str, int]) -> None:
        """Compare what the driver says with what is charged, and tell the library."""
        after = self.charged_bytes()
        for index, use in enumerate(self.uses):
            uuid = use.device_uuid
            charged = (before.get(uuid, 0), after.get(uuid, 0))
            use.uncounted.note(held.get(uuid, 0), charged)
            self.live.say_uncounted(index, use.uncounted.believed_bytes)

    def beat(self, now_ns: int) -> None:
        """Tell its library that somebody decides."""
        self.live.beat(now_ns)

    def close(self) -> None:
        """Let go of the files."""
        self.live.close()
        self._close_usage()

    def _read(self, place: int, length: int) -> bytes:
        try:
            return os.pread(self._usage_fd, length, place)
        except OSError:
            return b""

    def _open_usage(self) -> None:
        """Have the page open that is there now: the container may have put another there."""
        try:
            place = os.open(self.usage_path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            self._close_usage()
            return
        try:
            found = os.fstat(place)
            if not stat.S_ISREG(found.st_mode):
                self._close_usage()
                return
            if page_key(found) != self.page_key:
                self._close_usage()
                self._usage_fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
                self.page_key = page_key(found)
            self._named = b""
            self._find_places()
        except OSError:
            self._close_usage()
        finally:
            os.close(place)

    def _find_places(self) -> None:
        if self._usage_fd < 0:
            return
        named = self._read(USAGE_COUNT_OFFSET, USAGE_COUNT_BYTES)
        if named != self._named:
            self._named = named
            self._places = decode_places(self._read(0, USAGE_HEADER_BYTES))

    def _close_usage(self) -> None:
        if self._usage_fd >= 0:
            os.close(self._usage_fd)
        self._usage_fd, self.page_key, self._places, self._named = -1, None, {}, b""


def _has_limits_of_time(limits: ContainerLimits) -> bool:
    capped = any(0 < device.core_percent < 100 for device in limits.devices)  # noqa: PLR2004 - the whole
    return capped or limits.mode is not CoreMode.HARD


def control_seen(limits_dir: Path) -> tuple[int, int]:
    """What tells the control page that is there now from any other."""
    # Asked for each container four times a second: to make a path costs more than to look at it.
    found = os.stat(f"{limits_dir}/{contract.CONTROL_PAGE_NAME}")  # noqa: PTH116
    return (found.st_ino, found.st_mtime_ns)
