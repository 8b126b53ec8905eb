import asyncio

from hamid.sched.freed import Freed

ALL = frozenset({"node-a", "node-b", "node-c"})


def test_each_node_remembers_when_room_was_last_freed():
    freed = Freed()

    freed.on("node-a")
    freed.on("node-b")
    freed.on("elsewhere")

    assert freed.since(0, among=ALL) == {"node-a", "node-b"}
    assert freed.since(1, among=ALL) == {"node-b"}
    assert freed.since(2, among=ALL) == set()
    assert freed.serial == 3


def test_a_node_may_be_freed_again():
    freed = Freed()
    freed.on("node-a")
    freed.on("node-b")

    freed.on("node-a")

    assert freed.since(2, among=ALL) == {"node-a"}
    assert freed.since(1, among=ALL) == {"node-a", "node-b"}


def test_what_is_freed_everywhere_counts_for_each_node():
    freed = Freed()
    freed.on("node-a")

    freed.everywhere()
    freed.on("node-b")

    assert freed.since(1, among=ALL) == ALL
    assert freed.since(2, among=ALL) == {"node-b"}


def test_what_is_forgotten_counts_no_more_but_the_serial_goes_on():
    freed = Freed()
    freed.on("node-a")
    freed.everywhere()

    freed.forget()

    assert (freed.since(0, among=ALL), freed.serial) == (frozenset(), 2)


def test_of_a_node_that_is_gone_nothing_is_kept():
    freed = Freed()
    for number in range(1_000):
        freed.on(f"node-{number}")
        freed.drop(f"node-{number}")

    assert not freed._last_by_node
    assert freed.serial == 1_000


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
