import pytest

from hamid.errors import SettingsError
from hamid.model.request import PolicyName
from hamid.sched.placement.policy import Policies
from hamid.sched.settings import SchedSettings


def test_the_policies_are_those_of_the_settings():
    settings = SchedSettings(device_policy=PolicyName.SPREAD)

    assert settings.policies == Policies(
        node=(PolicyName.FRAGMENTATION,), device=(PolicyName.SPREAD,)
    )


@pytest.mark.parametrize("name", ["reservation_ttl_s", "pod_wait_s", "verdict_count", "rank_step"])
def test_a_term_of_nothing_is_refused(name):
    with pytest.raises(SettingsError, match=name):
        SchedSettings(**{name: 0})


def test_a_policy_that_says_nothing_of_nodes_is_refused_for_them():
    with pytest.raises(SettingsError, match="mutex, which says nothing of nodes"):
        SchedSettings(node_policy=PolicyName.MUTEX)
