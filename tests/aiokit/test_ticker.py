import asyncio

import pytest

from hamid.aiokit.ticker import every, pause

pytestmark = pytest.mark.looptime


async def ticks(interval_s, bodies_s):
    """When, by the loop's clock, the body ran; each run takes the next of the given times."""
    loop, at = asyncio.get_running_loop(), []
    remaining = list(bodies_s)
    async for _ in every(interval_s):
        at.append(loop.time())
        await asyncio.sleep(remaining.pop(0))
        if not remaining:
            break
    return at


async def test_the_first_tick_comes_at_once_and_the_others_at_multiples():
    assert await ticks(10, [0, 0, 0]) == [0, 10, 20]


async def test_a_body_that_takes_a_while_does_not_shift_the_ticks():
    assert await ticks(10, [3, 9, 0]) == [0, 10, 20]


async def test_a_body_that_overruns_skips_the_ticks_it_missed():
    assert await ticks(10, [25, 0, 0]) == [0, 30, 40]


async def test_a_body_that_takes_the_whole_interval_runs_on_every_tick():
    assert await ticks(10, [10, 10, 0]) == [0, 10, 20]


async def test_a_pause_lasts_as_long_as_it_says(looptime):
    await pause(2.5)

    assert looptime == 2.5
