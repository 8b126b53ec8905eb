import asyncio
import gc

import pytest

from hamid.daemon.heap import STEPS_BETWEEN, HeapKeeper


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


def test_nothing_is_frozen_before_the_books_are_complete():
    before = gc.get_freeze_count()

    HeapKeeper(is_settled=lambda: False).step()

    assert gc.get_freeze_count() == before


def test_complete_books_are_frozen_and_later_what_came_since():
    keeper = HeapKeeper(is_settled=lambda: True)

    keeper.step()
    first = gc.get_freeze_count()
    news = [[number] for number in range(10_000)]
    for _ in range(STEPS_BETWEEN):
        keeper.step()
    assert gc.get_freeze_count() <= first

    keeper.step()
    assert gc.get_freeze_count() > first + len(news) // 2


async def test_who_leads_no_more_freezes_nothing():
    keeper = HeapKeeper(is_settled=lambda: True)
    task = asyncio.ensure_future(keeper.run())  # noqa: TID251 - the test plays `running`
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gc.get_freeze_count() > 0

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert gc.get_freeze_count() == 0
