from __future__ import annotations

import pytest

from hamid.daemon.simulate.command import prepare
from hamid.daemon.simulate.nodes import DEFAULT_NODES
from hamid.errors import SettingsError
from tests.daemon.simulate.manifests import pod, write


def test_without_nodes_there_are_the_default_ones(tmp_path):
    pods = write(tmp_path / "pods.yaml", pod())

    simulation = prepare([pods], nodes=None, library=tmp_path / "lib.so")

    assert simulation.nodes == DEFAULT_NODES
    assert simulation.library == tmp_path / "lib.so"
    assert len(simulation.plan.pods) == 1


def test_nodes_are_read_before_anything_starts(tmp_path):
    pods = write(tmp_path / "pods.yaml", pod())
    nodes = write(tmp_path / "nodes.yaml", [{"name": "a", "gpus": 1}])

    with pytest.raises(SettingsError, match="unknown field 'gpus'"):
        prepare([pods], nodes=nodes, library=tmp_path / "lib.so")
