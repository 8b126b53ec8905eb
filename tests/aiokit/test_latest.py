import asyncio

import pytest

from hamid.aiokit.latest import Latest


def test_it_is_born_with_a_value():
    latest = Latest(1)

    assert (latest.get(), latest.version) == (1, 0)


def test_publishing_replaces_the_value_and_counts():
    latest = Latest(1)

    latest.publish(2)

    assert (latest.get(), latest.version) == (2, 1)


def test_an_equal_value_is_no_change():
    latest = Latest((1,))

    latest.publish((1,))

    assert latest.version == 0


async def test_all_who_wait_are_woken_by_a_change():
    latest = Latest(1)

    async with asyncio.TaskGroup() as group:
        waiters = [group.create_task(latest.wait_change(since=0)) for _ in range(3)]
        await asyncio.sleep(0)
        latest.publish(2)

    assert [waiter.result() for waiter in waiters] == [1, 1, 1]


async def test_a_change_that_was_missed_is_not_waited_for():
    latest = Latest(1)
    latest.publish(2)

    assert await latest.wait_change(since=0) == 1


async def test_waiting_for_a_condition_ends_with_the_value_that_meets_it():
    latest = Latest(1)

    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(latest.wait_for(lambda value: value >= 3))
        await asyncio.sleep(0)
        latest.publish(2)
        await asyncio.sleep(0)
        latest.publish(3)

    assert waiter.result() == 3


async def test_a_condition_that_holds_already_is_not_waited_for():
    assert await Latest(1).wait_for(lambda value: value == 1) == 1


async def test_a_slow_reader_sees_the_newest_value_only():
    latest = Latest(1)
    changes = latest.changes()

    first = await anext(changes)
    latest.publish(2)
    latest.publish(3)
    second = await anext(changes)

    assert (first, second) == (1, 3)
    await changes.aclose()


@pytest.mark.looptime
async def test_no_change_wakes_nobody():
    latest = Latest(1)
    changes = latest.changes()
    await anext(changes)

    latest.publish(1)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await anext(changes)
