import pytest

from hamid.codec.allocation_record import encode_allocation
from hamid.codec.pod_annotation import encode_hami_annotations
from hamid.codec.pod_bounds import MAX_ANNOTATION_BYTES, MAX_ASKING, size_problems
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import DeviceShare
from hamid.model.names import POD_ALLOCATION, WRITTEN_BY_US
from hamid.model.quantities import MAX_MEMORY_MIB
from hamid.model.request import ContainerKind
from tests.sched.builders import make_container


def problems(*requests, annotations=None, others=0):
    count = len(requests) + others
    return list(size_problems(requests, annotations or {}, container_count=count))


def asking(count, *, cards=1, name="c"):
    return [make_container(f"{name}{n}", device_count=cards) for n in range(count)]


def test_an_ordinary_pod_is_not_too_large():
    assert problems(*asking(3, cards=8), annotations={"note": "x" * 1_000}) == []


def test_no_more_containers_may_ask_than_anybody_needs():
    assert problems(*asking(MAX_ASKING)) == []

    assert problems(*asking(MAX_ASKING + 1)) == [
        f"{MAX_ASKING + 1} containers ask for devices; allowed are {MAX_ASKING}"
    ]


def test_annotations_that_leave_no_room_for_the_decision_are_said_with_numbers():
    text = "é" * (MAX_ANNOTATION_BYTES // 2 - 100)

    (said,) = problems(*asking(1), annotations={"note": text})

    assert said == (
        "the pod's annotations take 261948 bytes, and what is decided about it may take 1260 more; "
        "it can have 262144 in all"
    )


def test_a_pod_that_asks_for_nothing_may_have_whatever_the_api_server_takes():
    assert problems(others=3, annotations={"note": "x" * MAX_ANNOTATION_BYTES}) == []


def test_many_containers_with_many_cards_need_more_room_than_there_is():
    assert problems(*asking(100, cards=16)) != []


def test_what_a_decision_replaces_does_not_count():
    full = dict.fromkeys(WRITTEN_BY_US, "x" * 100_000)

    assert problems(*asking(1), annotations=full) == []


@pytest.mark.parametrize(("containers", "cards", "others"), [(1, 1, 0), (1, 64, 9), (60, 16, 200)])
def test_a_decision_never_takes_more_than_is_kept_for_it(containers, cards, others):
    """The longest names, UUIDs and amounts that there are."""
    requests = asking(containers, cards=cards, name="n" * 60)
    others_names = tuple(f"other-{n}" for n in range(others))
    allocation = PodAllocation(
        pod_uid="u" * 36,
        node_name="n" * 253,
        containers=tuple(
            ContainerAllocation(
                container_name=asked.container_name,
                kind=ContainerKind.SIDECAR,
                shares=tuple(
                    DeviceShare(
                        device_uuid=f"MIG-GPU-{n:036}/13/0",
                        memory_mib=MAX_MEMORY_MIB,
                        core_percent=100,
                    )
                    for n in range(cards)
                ),
                priority=1,
            )
            for asked in requests
        ),
    )
    names = (*(asked.container_name for asked in requests), *others_names)
    written = {
        **encode_hami_annotations(allocation, container_names=names, decided_at_s=1_800_000_000),
        POD_ALLOCATION: encode_allocation(allocation),
    }
    taken = sum(len(key) + len(text) for key, text in written.items())
    room = MAX_ANNOTATION_BYTES - taken

    assert problems(*requests, annotations={"": "x" * (room + 1)}, others=others) != []
