"""The processes of one container share one limit, and the dead have no part in it."""

import pytest

from tests.native.container import CARD, MIB

pytestmark = pytest.mark.native

SUCCESS = "CUDA_SUCCESS"
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


def test_two_processes_share_the_limit(container):
    container.limit((CARD, 100))
    first, second = container.start(), container.start()

    assert first.alloc(60) == SUCCESS
    assert second.alloc(60) == OUT_OF_MEMORY
    assert second.alloc(40) == SUCCESS
    assert first.alloc(1) == OUT_OF_MEMORY


def test_each_is_told_what_both_hold(container):
    container.limit((CARD, 100))
    first, second = container.start(60), container.start(30)

    for tenant in (first, second):
        told = tenant.tell("info")
        assert told.only("cuMemGetInfo")["free_mib"] == 10
        assert told.only("nvmlDeviceGetMemoryInfo")["used_mib"] == 90


@pytest.mark.parametrize("how", ["kill", "end"])
def test_what_a_process_held_is_free_when_it_is_gone(container, how):
    container.limit((CARD, 100))
    first, second = container.start(60), container.start()
    assert second.alloc(60) == OUT_OF_MEMORY

    getattr(first, how)()

    assert second.tell("info").only("cuMemGetInfo")["free_mib"] == 100
    assert second.alloc(100) == SUCCESS


def test_many_processes_come_and_go_and_the_books_stay_right(container):
    container.limit((CARD, 100))
    keeper = container.start(10)

    for _ in range(10):
        container.start(60).kill()
        assert keeper.alloc(90) == SUCCESS
        keeper.tell("free")


def test_the_daemon_reads_who_holds_how_much(container):
    container.limit((CARD, 100))
    first, second = container.start(60), container.start(30)

    report = container.usage()

    held = {process.pid: dict(process.used_bytes_by_uuid) for process in report.processes}
    assert held == {first.process.pid: {CARD: 60 * MIB}, second.process.pid: {CARD: 30 * MIB}}
    assert report.used_bytes(CARD) == 90 * MIB


def test_a_process_that_ends_says_good_bye_to_the_daemon(container):
    container.limit((CARD, 100))
    container.start(60).end()

    assert container.usage().processes == ()


def test_a_process_that_only_asks_joins_nothing(container):
    container.limit((CARD, 100))

    answers = container.alloc()

    assert answers.only("cuMemGetInfo")["free_mib"] == 100
    assert list(container.usage_dir.iterdir()) == []
