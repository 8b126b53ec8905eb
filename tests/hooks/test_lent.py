"""One container: what it claims becomes a tenant, what is decided becomes a word."""

from math import inf

import pytest

from hamid.errors import HookError
from hamid.hooks.abi.budgets import BudgetUse
from hamid.hooks.abi.contract import CONTROL_PAGE_NAME
from hamid.hooks.abi.live import RATE_STOP, RATE_UNSAID
from hamid.hooks.abi.pages import ContainerLimits, CoreMode, DeviceLimit, encode_control_page
from hamid.hooks.lent import DeviceUse, LentContainer

MS = 1_000_000
NOW = 1_000_000 * MS


def use(percent: int = 50, mode: CoreMode = CoreMode.LEND) -> DeviceUse:
    limit = DeviceLimit(device_uuid="GPU-1", memory_bytes=None, core_percent=percent)
    return DeviceUse(limit=limit, mode=mode, priority=1)


def claims(*, charged=0, due=0, wanted=NOW, waited=0) -> BudgetUse:
    return BudgetUse(charged_ns=charged, due_ns=due, wanted_ns=wanted, waited_ns=waited)


def test_who_never_asked_is_idle():
    of = use()
    of.look(None, NOW)

    assert not of.tenant.is_active
    assert of.tenant.promise == 500


@pytest.mark.parametrize(
    ("claim", "is_active"),
    [
        pytest.param(claims(wanted=NOW - 10 * MS), True, id="wanted lately"),
        pytest.param(claims(wanted=NOW - 100 * MS), False, id="wanted long ago"),
        pytest.param(claims(wanted=NOW - 100 * MS, due=NOW + MS), True, id="in debt"),
        pytest.param(claims(wanted=1, due=2**64 - 1), False, id="nonsense"),
        pytest.param(claims(wanted=2**64 - 1), False, id="a moment that has not come"),
    ],
)
def test_activity_is_what_was_wanted_lately_or_is_not_paid_for(claim, is_active):
    of = use()
    of.look(claim, NOW)

    assert of.tenant.is_active is is_active


def run(of: DeviceUse, milliseconds: int, percent: int, *, since: int = NOW, **more) -> int:
    """Let it use so many percent, seen every 20 ms; returns the time after."""
    now = since
    for _ in range(milliseconds // 20):
        now += 20 * MS
        charged = (now - NOW) * percent // 100
        of.look(claims(charged=charged, wanted=now, **more), now)
    return now


def test_who_has_just_come_may_want_all():
    of = use()
    of.look(claims(), NOW)

    assert of.tenant.demand == inf


def test_who_uses_less_than_its_promise_lends_the_rest_slowly():
    of = use()
    of.look(claims(), NOW)
    now = run(of, 100, 10)
    soon = of.tenant.demand
    run(of, 3000, 10, since=now)

    assert 300 < soon < 600
    assert 150 < of.tenant.demand < 200


def test_who_begins_to_use_more_may_want_all_at_once():
    of = use()
    of.look(claims(), NOW)
    now = run(of, 3000, 10)
    of.look(claims(charged=(now - NOW) // 10 + 20 * MS, wanted=now + 20 * MS), now + 20 * MS)

    assert of.tenant.demand == inf


def test_who_had_to_wait_wants_all():
    of = use()
    of.look(claims(), NOW)
    run(of, 3000, 10)
    of.look(claims(wanted=NOW + 3020 * MS, waited=NOW + 3010 * MS), NOW + 3020 * MS)

    assert of.tenant.demand == inf


def test_a_rate_is_told_in_thousandths_corrected():
    of = use()
    of.correction.factor = 1.5

    assert of.word(500) == 750


def test_to_stop_is_told_as_such():
    assert use(mode=CoreMode.PRIORITY).word(0) == RATE_STOP


def test_of_a_hard_capped_container_without_a_cap_nothing_is_said():
    assert use(0, CoreMode.HARD).word(0) == RATE_UNSAID
    assert use(100, CoreMode.HARD).word(1000) == RATE_UNSAID


def open_container(directory, percent: int, mode: CoreMode = CoreMode.HARD):
    limits = ContainerLimits(
        devices=(DeviceLimit(device_uuid="GPU-1", memory_bytes=None, core_percent=percent),),
        priority=1,
        generation=1,
        mode=mode,
    )
    (directory / CONTROL_PAGE_NAME).write_bytes(encode_control_page(limits))
    return LentContainer.open(limits_dir=directory, usage_dir=directory)


def test_a_container_without_limits_of_time_is_left_alone(tmp_path):
    assert open_container(tmp_path, 0) is None
    assert open_container(tmp_path, 100) is None


def test_limits_that_are_not_there_or_cannot_be_read_are_an_error(tmp_path):
    (tmp_path / CONTROL_PAGE_NAME).write_bytes(b"x")

    with pytest.raises(HookError):
        LentContainer.open(limits_dir=tmp_path, usage_dir=tmp_path)
    with pytest.raises(FileNotFoundError):
        LentContainer.open(limits_dir=tmp_path / "none", usage_dir=tmp_path)


def test_a_container_is_current_until_its_limits_change(tmp_path):
    container = open_container(tmp_path, 30)
    before = container.is_current()
    (tmp_path / CONTROL_PAGE_NAME).unlink()
    after = container.is_current()
    container.close()

    assert (before, after) == (True, False)
