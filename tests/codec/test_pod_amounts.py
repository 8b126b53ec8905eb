import pytest

from hamid.codec.pod_amounts import decode_pod_amounts
from hamid.model.amounts import NO_AMOUNTS, CardAmounts
from hamid.model.names import ResourceNames
from tests.builders import container_object, pod_object


def amounts(*containers, init=()):
    pod = pod_object(*containers, init_containers=list(init))
    return decode_pod_amounts(pod, names=ResourceNames())


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"gpu": 2}, NO_AMOUNTS, id="cards are no amount"),
        pytest.param(
            {"gpu": 2, "gpumem": 3_000, "gpucores": 30},
            CardAmounts(memory_mib=3_000, core_percent=30),
            id="the number of cards does not matter",
        ),
        pytest.param({"gpumem": "16Gi"}, CardAmounts(memory_mib=16 * 1024**3), id="as written"),
        pytest.param({"gpumem": "3k"}, CardAmounts(memory_mib=3_000), id="with a suffix"),
        pytest.param({"gpumem-percentage": 50}, CardAmounts(memory_ppm=500_000), id="percent"),
        pytest.param({"priority": "1"}, CardAmounts(priority=1), id="priority"),
        pytest.param({"gpumem": "much"}, NO_AMOUNTS, id="nothing that can be read"),
    ],
)
def test_a_number_is_taken_as_it_stands(limits, expected):
    assert amounts(container_object("a", limits)) == expected


def test_requests_count_and_limits_where_they_are_silent():
    both = container_object("a", {"gpumem": 1, "gpucores": 2}, requests={"gpumem": 3})

    assert amounts(both) == CardAmounts(memory_mib=3, core_percent=2)


def test_containers_add_up_as_kubernetes_has_it():
    init = [
        container_object("first", {"gpumem": 10}),
        container_object("beside", {"gpumem": 3}, restartPolicy="Always"),
        container_object("second", {"gpumem": 4}),
    ]

    assert amounts(container_object("a", {"gpumem": 6}), init=init).memory_mib == 10
    assert amounts(container_object("a", {"gpumem": 8}), init=init).memory_mib == 11
