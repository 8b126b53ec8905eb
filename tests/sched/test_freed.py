import asyncio

from hamid.sched.freed import Freed

ALL = frozenset({"node-a", "node-b", "node-c"})


def since(freed, serial, namespace="default"):
    return freed.since(serial, among=ALL, namespace=namespace)


def test_each_node_remembers_when_room_was_last_freed():
    freed = Freed()

    freed.on("node-a")
    freed.on("node-b")
    freed.on("elsewhere")

    assert since(freed, 0) == {"node-a", "node-b"}
    assert since(freed, 1) == {"node-b"}
    assert since(freed, 2) == set()
    assert freed.serial == 3


def test_a_node_may_be_freed_again():
    freed = Freed()
    freed.on("node-a")
    freed.on("node-b")

    freed.on("node-a")

    assert since(freed, 2) == {"node-a"}
    assert since(freed, 1) == {"node-a", "node-b"}


def test_what_is_freed_everywhere_counts_for_each_node():
    freed = Freed()
    freed.on("node-a")

    freed.everywhere()
    freed.on("node-b")

    assert since(freed, 1) == ALL
    assert since(freed, 2) == {"node-b"}


def test_what_is_freed_in_a_namespace_counts_for_each_node_and_for_its_pods_alone():
    freed = Freed()
    freed.on("node-a")

    freed.in_namespace("team")

    assert since(freed, 1, "team") == ALL
    assert since(freed, 1) == set()
    assert since(freed, 2, "team") == set()


def test_what_is_forgotten_counts_no_more_but_the_serial_goes_on():
    freed = Freed()
    freed.on("node-a")
    freed.everywhere()
    freed.in_namespace("default")

    freed.forget()

    assert (since(freed, 0), freed.serial) == (frozenset(), 3)


def test_of_a_node_that_is_gone_nothing_is_kept():
    freed = Freed()
    for number in range(1_000):
        freed.on(f"node-{number}")
        freed.drop(f"node-{number}")

    assert not freed._last_by_node
    assert freed.serial == 1_000


def test_of_more_namespaces_than_anybody_uses_none_is_missed_and_not_all_are_kept():
    freed = Freed()
    for number in range(3_000):
        freed.in_namespace(f"team-{number}")
        freed.in_namespace("busy")

    assert len(freed._last_by_namespace) == 1_024
    assert all(since(freed, 2 * n, f"team-{n}") == ALL for n in range(3_000))
    assert since(freed, 4_000, "quiet") == set()
    assert since(freed, 5_999, "busy") == ALL
    assert since(freed, 6_000, "busy") == set()


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
