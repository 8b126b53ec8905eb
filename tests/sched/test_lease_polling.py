import random

import pytest

from hamid.codec.lease import format_micro_time
from hamid.model.lease import LeaseRecord
from hamid.sched import lease_polling as polling
from hamid.sched.leader_settings import LeaseSettings

SETTINGS = LeaseSettings()


def look(*, at_s, renewed_at_s, holder="a", transitions=0):
    renewed_at = renewed_at_s if isinstance(renewed_at_s, str) else format_micro_time(renewed_at_s)
    return polling.Look(
        record=LeaseRecord(
            holder_identity=holder,
            lease_duration_s=15.0,
            renewed_at=renewed_at,
            transitions=transitions,
        ),
        at_s=at_s,
    )


BEFORE = look(at_s=100.0, renewed_at_s=5_000.0)


@pytest.mark.parametrize(
    ("before", "now", "is_overdue"),
    [
        pytest.param(
            None, look(at_s=500, renewed_at_s=5_000), False, id="a first look says nothing"
        ),
        pytest.param(
            BEFORE, look(at_s=500, renewed_at_s=5_400), False, id="it moved on with our clock"
        ),
        pytest.param(
            BEFORE, look(at_s=500, renewed_at_s=5_394), False, id="three periods late is chance"
        ),
        pytest.param(BEFORE, look(at_s=500, renewed_at_s=5_393), True, id="later is not"),
        pytest.param(BEFORE, look(at_s=500, renewed_at_s=5_000), True, id="it stands still"),
        pytest.param(
            look(at_s=100, renewed_at_s=90_000),
            look(at_s=500, renewed_at_s=90_400),
            False,
            id="clocks that differ by a day do not matter",
        ),
        pytest.param(
            BEFORE, look(at_s=500, renewed_at_s=5_000, holder="b"), False, id="another holder"
        ),
        pytest.param(
            BEFORE, look(at_s=500, renewed_at_s=5_000, transitions=2), False, id="another term"
        ),
        pytest.param(
            BEFORE, look(at_s=500, renewed_at_s="?"), False, id="no time that we can read"
        ),
    ],
)
def test_a_leader_is_suspected_when_its_renewals_fall_behind_our_clock(before, now, is_overdue):
    assert polling.is_overdue(before, now, settings=SETTINGS) is is_overdue


def test_delays_keep_within_their_bounds():
    rng = random.Random(1)

    def extremes(delay):
        drawn = [delay() for _ in range(2_000)]
        return round(min(drawn)), round(max(drawn))

    assert extremes(lambda: polling.standby_delay_s(SETTINGS, rng)) == (2, 2)
    assert extremes(lambda: polling.sign_up_delay_s(SETTINGS, rng)) == (2, 8)
    assert extremes(lambda: polling.confirm_delay_s(SETTINGS, rng)) == (15, 17)
    assert extremes(lambda: polling.slow_delay_s(SETTINGS, rng, is_first=True)) == (0, 500)
    assert extremes(lambda: polling.slow_delay_s(SETTINGS, rng, is_first=False)) == (375, 625)
