import asyncio
import threading

import pytest

from hamid.aiokit.blocking import OneThread


@pytest.fixture
def thread():
    thread = OneThread(name="test")
    yield thread
    thread.close()


async def test_a_call_returns_what_the_function_returns(thread):
    assert await thread.call(divmod, 7, 2) == (3, 1)
    assert await thread.call(int, "ff", base=16) == 255


async def test_a_call_raises_what_the_function_raises(thread):
    with pytest.raises(ZeroDivisionError):
        await thread.call(divmod, 1, 0)


async def test_calls_run_in_one_named_thread_that_is_not_the_loops(thread):
    threads = [await thread.call(threading.current_thread) for _ in range(3)]

    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    assert threads[0].name.startswith("test")


async def test_the_loop_goes_on_while_a_call_blocks_and_later_calls_wait(thread):
    release, order = threading.Event(), []

    async def first():
        await thread.call(release.wait)
        order.append("first")

    async def second():
        await thread.call(int)
        order.append("second")

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        group.create_task(second())
        await asyncio.sleep(0)
        order.append("loop")
        release.set()

    assert order == ["loop", "first", "second"]


async def test_a_closed_thread_takes_no_more_calls(thread):
    thread.close()

    with pytest.raises(RuntimeError):
        await thread.call(int)


async def test_closing_does_not_wait_for_a_call_that_hangs(thread):
    release = threading.Event()
    entered = threading.Event()

    def hang():
        entered.set()
        release.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(thread.call(hang))
        await asyncio.to_thread(entered.wait)
        thread.close()
        release.set()
