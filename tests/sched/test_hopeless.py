import pytest

from hamid.model.quota import Payer
from hamid.sched.hopeless import Hopeless
from hamid.sched.records import PodRecord
from hamid.sched.refused import LastTry
from tests.sched.builders import make_container, make_request

NODES = frozenset({"node-a"})


def pod(uid="uid-1", *, container=None, priority=5, namespace="default"):
    return PodRecord(
        pod_uid=uid,
        namespace=namespace,
        pod_name=uid,
        node_name="",
        request=make_request(container or make_container(), uid=uid, namespace=namespace),
        priority=priority,
        payer=Payer(namespace=namespace),
    )


def tried(*, serial=1, node_names=NODES):
    return LastTry(serial=serial, node_names=node_names, may_be_helped=True)


@pytest.mark.parametrize(
    ("other", "last", "is_hopeless"),
    [
        pytest.param(pod("uid-2"), tried(serial=9), True, id="of which nothing else is known"),
        pytest.param(
            pod("uid-2", container=make_container(device_count=2)),
            tried(),
            False,
            id="asks for more",
        ),
        pytest.param(pod("uid-2", priority=6), tried(), False, id="is more important"),
        pytest.param(pod("uid-2", namespace="team"), tried(), False, id="has other quotas"),
        pytest.param(
            pod("uid-2"), tried(node_names=frozenset({"node-b"})), False, id="may go elsewhere"
        ),
    ],
)
def test_a_pod_is_as_hopeless_as_another_unless_it(other, last, is_hopeless):
    hopeless = Hopeless()
    hopeless.add(pod(), tried(), until_s=10)

    assert hopeless.has(other, last) is is_hopeless


def test_a_pod_that_may_go_elsewhere_by_now_is_hopeless_no_more():
    hopeless = Hopeless()
    hopeless.add(pod(), tried(), until_s=10)
    assert hopeless.has(pod(), tried())

    assert not hopeless.has(pod(), tried(node_names=frozenset({"node-a", "node-b"})))


def test_hope_comes_back_with_time():
    hopeless = Hopeless()
    hopeless.add(pod(), tried(), until_s=10)

    hopeless.forget(now_s=9, but=["uid-1"])
    assert hopeless.has(pod(), tried())
    hopeless.forget(now_s=10, but=["uid-1"])
    assert not hopeless.has(pod(), tried())


def test_of_pods_that_are_gone_nothing_is_kept():
    hopeless = Hopeless()
    for number in range(50):
        hopeless.add(pod(f"uid-{number}"), tried(), until_s=10)

    hopeless.forget(now_s=0, but=["uid-7"])

    assert len(hopeless._kinds) == 1
