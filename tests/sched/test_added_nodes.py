import pytest

from hamid.errors import RequestError
from hamid.model.device import DeviceUsage
from hamid.model.node import HostAmount
from hamid.sched.added_nodes import added_node
from tests.sched.builders import A100, make_device, make_node

T4 = "NVIDIA-Tesla T4"
KNOWN = (make_device(), make_device("card-t", model=T4, memory_mib=15_360, numa_node=1))
THERE = make_node(
    usages=[DeviceUsage(device=make_device(f"card-{n}", numa_node=n)) for n in range(2)],
    cordoned=["card-1"],
    host_free=HostAmount(cpu_milli=4_000, memory_mib=1),
)


def added(text, number=1):
    return added_node(text, number, emptied={"gpu-7": THERE}.get, known=KNOWN)


def test_a_node_like_another_has_its_cards_under_names_of_their_own():
    found = added("gpu-7", 2)

    assert found.node_name == "+2 (like gpu-7)"
    assert [u.device.device_uuid for u in found.usages] == ["+2-card-0", "+2-card-1"]
    assert [u.device.numa_node for u in found.usages] == [0, 1]
    assert found.cordoned == {"+2-card-1"}
    assert found.host_free == THERE.host_free


@pytest.mark.parametrize("model", [T4, "T4"])
def test_a_model_of_the_cluster_says_what_its_cards_are(model):
    found = added(f"cards=3,model={model}")

    assert found.node_name == f"+1 (3 x {T4})"
    assert [u.device.memory_mib for u in found.usages] == [15_360] * 3
    assert [u.device.device_index for u in found.usages] == [0, 1, 2]
    assert found.host_free is None


def test_other_cards_are_described():
    (usage,) = added("cards=1, model=B200, cardmem=180Gi, cpu=96, memory=1Ti").usages

    assert (usage.device.model, usage.device.memory_mib) == ("B200", 184_320)
    assert added("cards=1,cardmem=1Gi,cpu=2").host_free.cpu_milli == 2_000
    assert added("cards=1,cardmem=1Gi,memory=2Gi").host_free.memory_mib == 2_048


def test_memory_that_is_said_goes_before_that_of_the_model():
    assert added(f"cards=1,model={A100},cardmem=80Gi").usages[0].device.memory_mib == 81_920


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu-8", "there is no node 'gpu-8'"),
        ("model=T4", "does not say how many cards"),
        ("cards=2", "does not say how much memory"),
        ("cards=2,model=B200", "'B200' is no model of this cluster"),
        ("cards=2,model=NVIDIA", "'NVIDIA' is more than one model"),
        ("cards=0,model=T4", "cards: '0' is out of range"),
        ("cards=2,cardmem=lots", "cardmem: 'lots' is no quantity"),
        ("cards=1,cardmem=1Gi,cpu=-5", "cpu: '-5' is negative"),
        ("cards=1,cardmem=1Gi,memory=-1Gi", "memory: '-1Gi' is negative"),
        ("cards=2,colour=red", "'colour=red' in"),
        ("cards=2,cards=3", "'cards=3' in"),
    ],
)
def test_what_describes_no_node_is_refused(text, said):
    with pytest.raises(RequestError, match=said):
        added(text)
