from __future__ import annotations

import pytest

from hamid.daemon.simulate.command import prepare
from hamid.daemon.simulate.nodes import DEFAULT_NODES
from hamid.errors import SettingsError
from tests.daemon.simulate.manifests import pod, write


def test_without_nodes_there_are_the_default_ones(tmp_path):
    pods = write(tmp_path / "pods.yaml", pod())
    library = tmp_path / "lib.so"
    library.touch()

    simulation = prepare([pods], nodes=None, library=library)

    assert simulation.nodes == DEFAULT_NODES
    assert simulation.library == library
    assert len(simulation.plan.pods) == 1


def test_nodes_are_read_before_anything_starts(tmp_path):
    pods = write(tmp_path / "pods.yaml", pod())
    nodes = write(tmp_path / "nodes.yaml", [{"name": "a", "gpus": 1}])

    with pytest.raises(SettingsError, match="unknown field 'gpus'"):
        prepare([pods], nodes=nodes, library=tmp_path / "lib.so")


def test_a_library_that_is_not_there_is_bad_input(tmp_path):
    pods = write(tmp_path / "pods.yaml", pod())

    with pytest.raises(SettingsError, match=r"there is no .*lib\.so"):
        prepare([pods], nodes=None, library=tmp_path / "lib.so")
