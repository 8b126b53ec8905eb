from pathlib import Path

import pytest

from hamid.errors import SettingsError
from hamid.plugin.settings import GrantMode, PluginSettings, UndecidedPods


def test_the_defaults_are_hamis_where_hami_has_them():
    settings = PluginSettings()

    assert settings.device_split_count == 10
    assert settings.device_memory_scaling == settings.device_core_scaling == 1
    assert not settings.report_numa


def test_the_defaults_are_careful_where_hami_is_not():
    settings = PluginSettings()

    assert settings.undecided_pods is UndecidedPods.REFUSE
    assert settings.grant_mode is GrantMode.ENV
    assert settings.state_dir == Path("/var/lib/hamid")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device_split_count", 0),
        ("device_split_count", 1001),
        ("device_memory_scaling", 0),
        ("device_memory_scaling", -1),
        ("device_memory_scaling", 10.5),
        ("device_memory_scaling", float("nan")),
        ("context_memory_mib", -1),
        ("context_memory_mib", 65_537),
        ("device_core_scaling", 0),
        ("device_core_scaling", 11),
        ("default_slice_memory_mib", 0),
        ("health_interval_s", 0),
        ("reconcile_interval_s", -1),
        ("recovery_s", -0.1),
        ("state_dir", Path("var/lib/hamid")),
        ("device_plugin_dir", Path("device-plugins")),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=f"{name} is {value}"):
        PluginSettings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device_split_count", 1),
        ("device_split_count", 1000),
        ("device_memory_scaling", 10),
        ("device_core_scaling", 0.1),
        ("default_slice_memory_mib", 1),
        ("recovery_s", 0),
    ],
)
def test_what_is_at_the_edge_is_taken(name, value):
    assert getattr(PluginSettings(**{name: value}), name) == value
