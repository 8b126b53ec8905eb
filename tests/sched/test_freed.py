import asyncio

from hamid.sched.freed import Freed


def test_each_node_remembers_when_room_was_last_freed():
    freed = Freed()

    freed.on("node-a")
    freed.on("node-b")

    assert (freed.last_on("node-a"), freed.last_on("node-b"), freed.last_on("node-c")) == (1, 2, 0)
    assert freed.serial == 2


def test_what_is_freed_everywhere_counts_for_each_node():
    freed = Freed()
    freed.on("node-a")

    freed.everywhere()
    freed.on("node-b")

    assert (freed.last_on("node-a"), freed.last_on("node-b"), freed.last_on("new")) == (2, 3, 2)


def test_what_is_forgotten_counts_no_more_but_the_serial_goes_on():
    freed = Freed()
    freed.everywhere()

    freed.forget()

    assert (freed.last_on("node-a"), freed.serial) == (0, 1)


async def test_whoever_waits_learns_of_the_next_time():
    freed = Freed()

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(freed.wait(since=0, timeout_s=60))
        await asyncio.sleep(0)
        freed.on("node-a")
        await waiting

    assert freed.serial == 1


async def test_whoever_waits_in_vain_gives_up():
    await Freed().wait(since=0, timeout_s=0.01)
