import pytest

from hamid.errors import SettingsError
from hamid.sched.leader_settings import LeaseSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_duration_s": 10.0},
        {"renew_deadline_s": 2.0},
        {"standby_count": 0},
        {"slow_poll_s": 14.0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(SettingsError):
        LeaseSettings(**wrong)
