from __future__ import annotations

import pytest

from hamid.daemon.simulate.applying import apply_plan
from hamid.daemon.simulate.plan import Item, Plan
from hamid.errors import SettingsError
from hamid.kube.port import CONFIG_MAPS, NAMESPACES
from tests.e2e.simulation import ONE_V100, simulation

pytestmark = pytest.mark.slow


async def test_a_namespace_that_is_there_is_left_as_it_is(tmp_path):
    namespace = Item(resource=NAMESPACES, object={"metadata": {"name": "default"}})

    async with simulation(tmp_path, nodes=ONE_V100) as cluster:
        await apply_plan(cluster, Plan(first=(namespace,)))


async def test_an_object_that_the_api_server_does_not_take_is_bad_input(tmp_path):
    lost = Item(resource=CONFIG_MAPS, object={"metadata": {"name": "c", "namespace": "nowhere"}})

    async with simulation(tmp_path, nodes=ONE_V100) as cluster:
        with pytest.raises(SettingsError, match="does not take ConfigMap 'c'"):
            await apply_plan(cluster, Plan(first=(lost,)))
