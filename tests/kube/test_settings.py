from __future__ import annotations

from pathlib import Path

import pytest

from hamid.errors import SettingsError
from hamid.kube.settings import KubeSettings, PodAddress


@pytest.mark.parametrize(
    "settings",
    [
        KubeSettings(),
        KubeSettings(server="http://h", in_pod=PodAddress(host="h", port=1)),
        KubeSettings(server="http://h", kubeconfig=Path("k")),
    ],
)
def test_there_must_be_one_way_to_the_server(settings: KubeSettings) -> None:
    with pytest.raises(SettingsError, match="ways to the API server"):
        settings.access(clock=lambda: 0.0)


@pytest.mark.parametrize("name", ["request_timeout_s", "quiet_timeout_s", "page_size"])
def test_an_amount_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is 0, not above 0"):
        KubeSettings(**{name: 0})  # type: ignore[arg-type]  # the table names fields


def test_each_way_is_taken(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "k"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}],"
        " clusters: [{name: b, cluster: {server: 'http://one'}}]}"
    )
    pod = PodAddress(host="h", port=443, directory=tmp_path)

    assert KubeSettings(kubeconfig=kubeconfig).access(clock=lambda: 0.0).server == "http://one"
    assert KubeSettings(server="http://two/").access(clock=lambda: 0.0).server == "http://two"
    with pytest.raises(SettingsError, match=r"ca\.crt cannot be read"):
        KubeSettings(in_pod=pod).access(clock=lambda: 0.0)
