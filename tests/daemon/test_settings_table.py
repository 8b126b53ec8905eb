from pathlib import Path

from hamid.daemon.settings import HookSettings, Settings
from hamid.daemon.settings_table import meanings, rows, settings_page

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def row(key):
    return next(row for row in rows() if row[0] == key)


def test_every_setting_is_explained():
    assert [key for key, _, meaning in rows() if not meaning] == []


def test_the_page_in_docs_is_that_of_the_code():
    assert PAGE.read_text() == settings_page(), "run: hamid settings > docs/settings.md"


def test_a_row_has_key_default_and_meaning():
    key, default, meaning = row("hooks.usage_interval_s")

    assert (key, default) == ("hooks.usage_interval_s", "`5`")
    assert meaning == meanings(HookSettings)["usage_interval_s"]


def test_defaults_look_as_in_yaml():
    assert row("addresses.debug_is_open")[1] == "`false`"
    assert row("admission.replaced_schedulers")[1] == (
        "`default-scheduler`, `hami-scheduler`, `4pd-scheduler`"
    )
    assert row("nvml.library")[1] == ""
    assert row("kube.in_pod.host")[1] == "must be given"


def test_the_words_to_choose_from_are_named():
    assert row("log.level")[2].endswith("One of `debug`, `info`, `warning`, `error`.")


def test_an_entry_may_speak_of_several_settings_and_go_on_over_lines():
    found = meanings(Settings) | meanings(HookSettings)

    assert found["library"].endswith("copied to where containers mount it.")
    assert row("plugin.excluded_uuids")[2] == row("plugin.excluded_indexes")[2]
