"""Pods as values."""

from __future__ import annotations

import pytest

from hamid.kubelet.fake import FakeContainer, FakePod, FakePodStatus, Phase


def test_init_containers_and_sidecars_come_first_in_their_order():
    pod = FakePod(
        name="p",
        uid="u",
        containers=(
            FakeContainer(name="main"),
            FakeContainer(name="init", is_init=True),
            FakeContainer(name="side", is_sidecar=True),
        ),
    )

    assert [container.name for container in pod.in_start_order] == ["init", "side", "main"]
    assert pod.container("side").is_sidecar


@pytest.mark.parametrize("phase", list(Phase))
def test_succeeded_and_failed_are_final(phase):
    is_final = phase in {Phase.SUCCEEDED, Phase.FAILED}

    assert FakePodStatus(phase=phase).is_terminal is is_final
