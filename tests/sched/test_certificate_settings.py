import pytest

from hamid.errors import SettingsError
from hamid.sched.certificate_settings import DAY_S, CertificateSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"server_names": ()},
        {"interval_s": 0},
        {"server_lifetime_s": 60.0},
        {"client_lifetime_s": 60.0},
        {"authority_lifetime_s": 90 * DAY_S},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(SettingsError):
        CertificateSettings(**wrong)
