import asyncio

import pytest

from hamid.aiokit.farewell import last_words


async def test_a_farewell_is_awaited():
    said = []

    async def act():
        said.append("goodbye")

    await last_words(act(), what="say goodbye", timeout_s=1)

    assert said == ["goodbye"]


async def test_a_farewell_that_fails_is_logged_and_hides_nothing(assert_logged):
    async def act():
        raise ValueError("no")

    await last_words(act(), what="release the lease", timeout_s=1)

    assert_logged("farewell failed", what="release the lease", log_level="warning")


@pytest.mark.looptime
async def test_a_farewell_that_hangs_is_given_up_and_logged(looptime, assert_logged):
    await last_words(asyncio.Event().wait(), what="mark the node", timeout_s=2)

    assert looptime == 2
    assert_logged("farewell failed", what="mark the node")


async def test_a_farewell_is_said_while_being_cancelled():
    said = []

    async def act():
        await asyncio.sleep(0)
        said.append("goodbye")

    async def service():
        try:
            await asyncio.Event().wait()
        finally:
            await last_words(act(), what="say goodbye", timeout_s=1)

    task = asyncio.get_running_loop().create_task(service())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert said == ["goodbye"]


async def test_a_second_cancellation_ends_the_farewell():
    task = asyncio.get_running_loop().create_task(
        last_words(asyncio.Event().wait(), what="say goodbye", timeout_s=60)
    )
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
