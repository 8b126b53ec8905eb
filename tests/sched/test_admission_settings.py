import pytest

from hamid.errors import SettingsError
from hamid.sched.admission_settings import AdmissionSettings, Policy


def test_the_defaults_refuse_privilege_and_preset_nodes_and_warn_of_host_pid():
    settings = AdmissionSettings()

    assert settings.privileged_user is Policy.REFUSE
    assert settings.privileged_neighbour is Policy.REFUSE
    assert settings.preset_node is Policy.REFUSE
    assert settings.over_quota is Policy.REFUSE
    assert settings.host_pid is Policy.WARN
    assert settings.foreign_scheduler is Policy.WARN


def test_a_scheduler_without_a_name_is_refused():
    with pytest.raises(SettingsError, match="scheduler_name is empty"):
        AdmissionSettings(scheduler_name="")
