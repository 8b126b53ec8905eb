import asyncio

from hamid.sched.refused import Refused


def test_the_last_try_counts():
    refused = Refused()

    refused.put("uid-1", serial=3, node_names=("node-a", "node-b"))
    refused.put("uid-1", serial=5, node_names=("node-a",))

    last = refused.tries()["uid-1"]
    assert (last.serial, last.node_names) == (5, {"node-a"})


def test_a_pod_that_was_placed_or_is_gone_is_forgotten():
    refused = Refused()
    for uid in ("uid-1", "uid-2", "uid-3"):
        refused.put(uid, serial=1, node_names=("node-a",))

    refused.drop("uid-1")
    refused.drop("unknown")
    refused.keep_only({"uid-3", "uid-4"})

    assert list(refused.tries()) == ["uid-3"]


def test_the_names_that_most_pods_share_are_kept_once():
    refused = Refused()

    refused.put("uid-1", serial=1, node_names=("node-0", "node-1", "node-2"))
    refused.put("uid-2", serial=1, node_names=("node-2", "node-0", "node-1"))
    for number in range(100):
        refused.put(f"other-{number}", serial=1, node_names=(f"node-{number}",))

    tries = refused.tries()
    assert tries["uid-1"].node_names is tries["uid-2"].node_names
    assert tries["other-0"].node_names == {"node-0"}


async def test_whoever_waits_learns_of_a_pod_that_may_be_helped():
    refused = Refused()

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(refused.wait(since=0, timeout_s=60))
        await asyncio.sleep(0)
        refused.put("uid-1", serial=1, node_names=("node-a",), may_be_helped=True)
        await waiting

    assert refused.tries()["uid-1"].may_be_helped


async def test_a_pod_that_nobody_can_help_is_no_news():
    refused = Refused()
    refused.put("uid-1", serial=1, node_names=("node-a",))

    await refused.wait(since=0, timeout_s=0.01)

    assert not refused.tries()["uid-1"].may_be_helped
