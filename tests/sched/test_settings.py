import pytest

from hamid.errors import SettingsError
from hamid.model.request import PolicyName
from hamid.sched.placement.policy import Policies
from hamid.sched.settings import SchedSettings


def test_the_policies_are_those_of_the_settings():
    settings = SchedSettings(device_policy="spread")

    assert settings.policies == Policies(
        node=(PolicyName.FRAGMENTATION,), device=(PolicyName.SPREAD,)
    )


@pytest.mark.parametrize("name", ["reservation_ttl_s", "pod_wait_s", "verdict_count", "rank_step"])
def test_a_term_of_nothing_is_refused(name):
    with pytest.raises(SettingsError, match=name):
        SchedSettings(**{name: 0})


@pytest.mark.parametrize("text", ["binpak", "binpack,numo", "", " , "])
def test_a_policy_that_nobody_knows_is_refused_with_those_there_are(text):
    wrong = r"device_policy is .* (is unknown|names no policy)"
    with pytest.raises(SettingsError, match=wrong) as caught:
        SchedSettings(device_policy=text)

    assert "binpack, spread, fragmentation, mutex, numa, topology-aware" in str(caught.value)


def test_policies_of_the_cluster_are_chained_as_those_of_a_pod():
    settings = SchedSettings(node_policy="binpack, numa", device_policy="topology-aware,binpack,")

    assert settings.policies == Policies(
        node=(PolicyName.BINPACK, PolicyName.NUMA),
        device=(PolicyName.TOPOLOGY_AWARE, PolicyName.BINPACK),
    )


def test_less_than_no_node_cannot_be_offered():
    with pytest.raises(SettingsError, match="offered_count is -1"):
        SchedSettings(offered_count=-1)
