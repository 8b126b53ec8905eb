import pytest

from hamid.model.device import DeviceMode, DeviceUsage
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import DeviceSelection
from hamid.model.shortfall import Resource
from hamid.sched.placement.fit import copies, is_model_allowed, share_on, shortfalls
from tests.sched.builders import make_container, make_device, make_request, make_share


def lacking(usage, share, **overrides):
    is_cordoned = overrides.pop("is_cordoned", False)
    found = shortfalls(usage, share, request=make_request(**overrides), is_cordoned=is_cordoned)
    return [s.resource for s in found]


@pytest.mark.parametrize(
    ("usage", "asked", "expected"),
    [
        pytest.param({}, {"memory_mib": 40_000}, [], id="all of an empty card may be taken"),
        pytest.param(
            {"memory_used_mib": 32_000},
            {"memory_mib": 8_000},
            [],
            id="the last free MiB may be taken",
        ),
        pytest.param(
            {"memory_used_mib": 32_000},
            {"memory_mib": 8_001},
            [Resource.MEMORY_MIB],
            id="one MiB too many does not fit",
        ),
        pytest.param(
            {"slots_used": 10}, {}, [Resource.SLOTS], id="the eleventh container finds no slot"
        ),
        pytest.param(
            {"core_used_percent": 70},
            {"core_percent": 31},
            [Resource.CORE_PERCENT],
            id="one percent too many does not fit",
        ),
        pytest.param(
            {"core_used_percent": 70}, {"core_percent": 30}, [], id="the last percent may be taken"
        ),
        pytest.param(
            {"core_used_percent": 100},
            {"core_percent": 0},
            [Resource.CORE_PERCENT],
            id="a share without cores does not come onto promised ones",
        ),
        pytest.param(
            {"slots_used": 1},
            {"core_percent": 100},
            [Resource.EXCLUSIVITY],
            id="a whole card is not given out while someone is on it",
        ),
        pytest.param(
            {"slots_used": 1, "core_used_percent": 100, "exclusive_count": 1},
            {"core_percent": 0},
            [Resource.CORE_PERCENT, Resource.EXCLUSIVITY],
            id="a card held whole takes nobody else",
        ),
        pytest.param(
            {"slots_used": 10, "memory_used_mib": 40_000, "core_used_percent": 90},
            {"core_percent": 20},
            [Resource.SLOTS, Resource.MEMORY_MIB, Resource.CORE_PERCENT],
            id="all reasons are named, not the first",
        ),
        pytest.param(
            {"memory_used_mib": 50_000},
            {},
            [Resource.MEMORY_MIB],
            id="an over-promised card takes nothing",
        ),
    ],
)
def test_amounts(usage, asked, expected):
    assert lacking(DeviceUsage(device=make_device(), **usage), make_share(**asked)) == expected


@pytest.mark.parametrize(
    ("device", "asked", "expected"),
    [
        pytest.param({}, {}, [], id="a plain card does for a plain pod"),
        pytest.param(
            {"is_healthy": False}, {}, [Resource.HEALTH], id="an unhealthy card is not used"
        ),
        pytest.param(
            {}, {"is_cordoned": True}, [Resource.CORDON], id="a cordoned card is not used"
        ),
        pytest.param(
            {},
            {"selection": DeviceSelection(use_models=("T4",))},
            [Resource.MODEL],
            id="another model than the asked",
        ),
        pytest.param(
            {},
            {"selection": DeviceSelection(avoid_models=("A100",))},
            [Resource.MODEL],
            id="an avoided model",
        ),
        pytest.param(
            {}, {"selection": DeviceSelection(use_uuids=("card-a",))}, [], id="the UUID asked for"
        ),
        pytest.param(
            {},
            {"selection": DeviceSelection(use_uuids=("card",))},
            [Resource.UUID],
            id="a UUID matches whole",
        ),
        pytest.param(
            {},
            {"selection": DeviceSelection(avoid_uuids=("card-a",))},
            [Resource.UUID],
            id="an avoided UUID",
        ),
        pytest.param(
            {}, {"allowed_modes": ("hami-core", "mig")}, [], id="one of the allowed modes"
        ),
        pytest.param(
            {"mode": DeviceMode.MIG},
            {"allowed_modes": ("hami-core",)},
            [Resource.MODE],
            id="another mode",
        ),
    ],
)
def test_what_the_device_is(device, asked, expected):
    assert lacking(DeviceUsage(device=make_device(**device)), make_share(), **asked) == expected


def test_a_shortfall_carries_its_numbers():
    usage = DeviceUsage(device=make_device(), memory_used_mib=39_000)

    (found,) = shortfalls(usage, make_share(memory_mib=3_000), request=make_request())

    assert (found.requested, found.used, found.capacity) == (3_000, 39_000, 40_000)
    assert found.device_uuid == "card-a"


def test_a_percentage_is_of_each_device():
    container = make_container(memory=MemoryPercent(percent=50))

    assert share_on(make_device(memory_mib=16_000), container).memory_mib == 8_000
    assert share_on(make_device(memory_mib=24_000), container).memory_mib == 12_000


def test_a_card_registered_without_cores_serves_those_who_ask_for_none():
    usage = DeviceUsage(device=make_device(core_percent=0))

    assert lacking(usage, make_share()) == []
    assert lacking(usage, make_share(core_percent=1)) == [Resource.CORE_PERCENT]


@pytest.mark.parametrize(
    ("wish", "model", "expected"),
    [
        ("A100", "NVIDIA A100-SXM4-40GB", True),
        ("a100", "NVIDIA A100-SXM4-40GB", True),
        ("A100-SXM4", "NVIDIA A100-SXM4-40GB", True),
        ("A10", "NVIDIA A100-SXM4-40GB", False),
        ("A10", "NVIDIA A10", True),
        ("NVIDIA-Tesla V100", "NVIDIA-Tesla V100-PCIE-32GB", True),
        ("NVIDIA", "NVIDIA-Tesla T4", True),
        ("A100 40GB", "NVIDIA A100-SXM4-40GB", False),
        ("--", "NVIDIA A10", False),
    ],
)
def test_models_match_by_whole_words(wish, model, expected):
    assert is_model_allowed(model, DeviceSelection(use_models=(wish,))) is expected
    assert is_model_allowed(model, DeviceSelection(avoid_models=(wish,))) is not expected


@pytest.mark.parametrize(
    ("usage", "container", "count"),
    [
        pytest.param({}, {"memory": MemoryMib(mib=15_000)}, 2, id="memory ends first"),
        pytest.param({}, {"core_percent": 30}, 3, id="cores end first"),
        pytest.param({"slots_used": 3}, {}, 7, id="slots end first"),
        pytest.param({}, {"core_percent": 100}, 1, id="one that must be alone"),
        pytest.param({"slots_used": 1}, {"core_percent": 100}, 0, id="and is not"),
        pytest.param({"memory_used_mib": 39_500}, {}, 0, id="what does not fit at all"),
        pytest.param({}, {"memory": MemoryMib(mib=0)}, 10, id="what needs no memory"),
    ],
)
def test_so_many_copies_fit_at_once(usage, container, count):
    device = DeviceUsage(device=make_device(), **usage)

    assert copies(device, make_container(**container), request=make_request()) == count
