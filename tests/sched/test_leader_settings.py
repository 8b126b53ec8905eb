import pytest

from hamid.errors import SettingsError
from hamid.sched.leader_settings import EndpointSettings, LeaseSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_duration_s": 10.0},
        {"renew_deadline_s": 2.0},
        {"standby_count": 0},
        {"slow_poll_s": 14.0},
        {"standby_term_s": 0.0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(SettingsError):
        LeaseSettings(**wrong)


def test_an_address_is_not_looked_at_without_a_pause():
    with pytest.raises(SettingsError, match="interval_s is 0"):
        EndpointSettings(interval_s=0)
