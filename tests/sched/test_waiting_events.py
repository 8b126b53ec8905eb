import itertools

import pytest

from hamid.kube.events import EventWriter
from hamid.kube.port import EVENTS, PODS
from hamid.sched.explainer import Explainer
from hamid.sched.nominations import Nomination
from hamid.sched.outlook import Outlook
from hamid.sched.placement.change import Change, ChangeKind
from hamid.sched.placement.place import Unplaceable
from hamid.sched.waiting_events import REASON, WaitingEvents, event_name, message_of
from tests.sched.builders import make_allocation, make_devices, make_request, make_share
from tests.sched.objects import quota_object, registered, waiting
from tests.sched.world import World

AFTER_S = 10.0


class Desk:
    """A leader that tells waiting pods, in time that tests make pass."""

    def __init__(self, **settings):
        self.world = World(pod_wait_s=0.01, sync_wait_s=0.01, **settings)
        explainer = Explainer(
            cache=self.world.cache,
            verdicts=self.world.extender.explanations,
            refused=self.world.extender.refused,
            nominations=self.world.extender.nominations,
            leadership=self.world.leadership,
            settings=self.world.settings,
        )
        self.events = self.new_term(explainer)

    def new_term(self, explainer):
        writer = EventWriter(kube=self.world.kube, clock=self.world.clock, host="node-1")
        return WaitingEvents(
            explainer=explainer,
            cache=self.world.cache,
            writer=writer,
            settings=self.world.settings,
            clock=self.world.clock,
        )

    async def refuse(self, *calls):
        for call in calls:
            await self.world.filter(call)

    async def pass_time(self, seconds):
        for _ in range(int(seconds)):
            self.world.clock.advance(1)
            await self.events.step()

    async def told(self):
        return {
            event["involvedObject"]["name"]: event["message"]
            for event in (await self.world.kube.list(EVENTS)).items
        }

    def writes(self):
        count = self.world.kube.requests.count
        return count(resource="events", verb="create") + count(resource="events", verb="patch")


@pytest.fixture
def desk():
    return Desk()


async def test_a_pod_that_waits_is_told_what_would_make_it_fit(desk):
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)
    await desk.pass_time(AFTER_S)
    assert await desk.told() == {}

    await desk.pass_time(2)

    assert await desk.told() == {
        "big": "no card of 1 fits: 1 is too small (need 50000 MiB, largest has 40000 MiB). It would "
        "fit if you ask for 10000 MiB less (40000 instead of 50000) in container main"
    }
    (event,) = (await desk.world.kube.list(EVENTS)).items
    assert (event["reason"], event["type"]) == (REASON, "Warning")
    assert event["involvedObject"]["uid"] == call.uid


async def test_nothing_is_written_while_nothing_changes(desk):
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)
    await desk.pass_time(20)

    for _ in range(5):
        await desk.refuse(call)
        await desk.pass_time(100)

    assert desk.writes() == 1


async def test_pods_of_one_shape_are_worked_out_once_and_each_told(desk):
    pods = [waiting(name=f"big-{n}", uid=f"u{n}", mib=50_000) for n in range(30)]
    calls = await desk.world.create(registered(), *pods)
    await desk.refuse(*calls)
    asked = 0
    outlook = desk.events.explainer.outlook

    async def counting(*args):
        nonlocal asked
        asked += 1
        return await outlook(*args)

    class Counting:
        refused = desk.events.explainer.refused
        leadership = desk.events.explainer.leadership
        nominations = desk.events.explainer.nominations

    Counting.outlook = staticmethod(counting)
    desk.events.explainer = Counting()

    await desk.pass_time(AFTER_S + 3)

    assert asked == 1
    assert len(await desk.told()) == 30
    assert desk.writes() == 30


async def test_pods_that_may_go_to_other_nodes_are_told_of_those(desk):
    """They ask for the same, and kube-scheduler lets each onto nodes of its own."""
    pods = [waiting(name=zone, mib=50_000, nodeSelector={"zone": zone}) for zone in ("one", "two")]
    nodes = [registered("n1", make_devices(1)), registered("n2", make_devices(2, memory_mib=8_000))]
    one, two = await desk.world.create(*nodes, *pods)
    await desk.world.filter(one, "n1")
    await desk.world.filter(two, "n2")

    await desk.pass_time(AFTER_S + 3)

    told = await desk.told()
    assert told["one"].startswith(
        "no card of 1 fits: 1 is too small (need 50000 MiB, largest has 4"
    )
    assert told["two"].startswith(
        "no card of 2 fits: 2 are too small (need 50000 MiB, largest has 8"
    )


async def test_pods_whose_quotas_are_others_are_told_of_those(desk):
    short, long = (waiting(name=name, mib=50_000) for name in ("short", "long"))
    short["spec"]["activeDeadlineSeconds"] = 60
    quota = quota_object(gpumem=999, scopes=["Terminating"])
    await desk.refuse(*await desk.world.create(registered(), quota, long, short))

    await desk.pass_time(AFTER_S + 3)

    told = await desk.told()
    assert "ResourceQuota" in told["short"]
    assert "ResourceQuota" not in told["long"]


async def test_who_was_told_nothing_yet_comes_before_those_to_whom_amounts_are_told(monkeypatch):
    monkeypatch.setattr("hamid.sched.waiting_events._WRITES_A_TICK", 1)
    desk = Desk(event_interval_s=1)
    pods = [waiting(name=f"big-{n}", mib=50_000) for n in range(3)]
    calls = await desk.world.create(registered(), *pods, waiting(name="other", mib=60_000))
    await desk.refuse(*calls)
    await desk.pass_time(AFTER_S)

    for number in range(8):
        devices = make_devices(1, memory_mib=40_000 + number)
        desk.world.cache.take_node(registered("node-a", devices))
        await desk.pass_time(1)

    assert set(await desk.told()) == {"big-0", "big-1", "big-2", "other"}


async def test_who_was_told_the_longest_ago_is_told_first(monkeypatch):
    monkeypatch.setattr("hamid.sched.waiting_events._WRITES_A_TICK", 1)
    desk = Desk(event_interval_s=1)
    pods = [waiting(name=f"big-{n}", mib=50_000) for n in range(3)]
    await desk.refuse(*await desk.world.create(registered(), *pods))
    await desk.pass_time(AFTER_S + 3)

    last = []
    for number in range(6):
        devices = make_devices(1, memory_mib=40_001 + number)
        desk.world.cache.take_node(registered("node-a", devices))
        before = await desk.told()
        await desk.pass_time(1)
        last += [name for name, text in (await desk.told()).items() if before[name] != text]

    assert last == ["big-0", "big-1", "big-2"] * 2


async def test_to_find_out_who_waits_takes_a_small_part_of_the_time():
    desk = Desk(event_after_s=1_000)
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)
    looks = []

    class Slow:
        is_synced = True

        def pod(self, pod_uid):
            looks.append(desk.world.clock.now_s)
            desk.world.clock.advance(0.5)
            return desk.world.cache.pod(pod_uid)

    desk.events.cache = Slow()

    await desk.pass_time(40)

    assert all(later - sooner >= 10 for sooner, later in itertools.pairwise(looks))
    assert len(looks) > 2


async def test_a_pod_that_is_placed_while_its_text_is_worked_out_is_not_told(desk):
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)
    await desk.pass_time(AFTER_S)
    outlook = desk.events.explainer.outlook

    class Slow:
        refused = desk.events.explainer.refused
        leadership = desk.events.explainer.leadership
        nominations = desk.events.explainer.nominations

        async def outlook(self, *args):
            found = await outlook(*args)
            self.refused.drop(call.uid)
            return found

    desk.events.explainer = Slow()
    await desk.pass_time(3)

    assert await desk.told() == {}


async def test_however_many_wait_all_are_told():
    """More than there are decisions to explain."""
    desk = Desk(verdict_count=2)
    pods = [waiting(name=f"big-{n}", uid=f"u{n}", mib=50_000) for n in range(5)]
    calls = await desk.world.create(registered(), *pods)

    for _ in range(int(AFTER_S) + 3):
        await desk.refuse(*calls)
        await desk.pass_time(1)

    assert len(await desk.told()) == 5


async def test_a_pod_for_which_room_is_made_is_told_so_alone_and_at_once(desk):
    pods = [waiting(name=name, mib=50_000) for name in ("one", "other")]
    (one, other) = await desk.world.create(registered(), *pods)
    await desk.refuse(one, other)
    await desk.pass_time(AFTER_S + 2)
    desk.world.extender.nominations.put(
        Nomination(
            allocation=make_allocation(make_share("card-0"), uid=one.uid),
            priority=0,
            victims=frozenset(),
            expires_at=desk.world.clock() + 600,
        )
    )

    await desk.pass_time(2)

    told = await desk.told()
    assert told["one"].startswith("room was made on node node-a; kube-scheduler has yet to try")
    assert told["other"].startswith("no card of 1 fits")
    assert desk.writes() == 3

    desk.world.extender.nominations.clear()
    await desk.pass_time(2)

    told = await desk.told()
    assert told["one"] == told["other"]


async def test_other_reasons_are_told_soon_and_other_amounts_after_a_while(desk):
    world = desk.world
    await world.create(registered("a", make_devices(1)))
    (big,) = await world.create(waiting(name="big", mib=39_000))
    world.cache.take_node(registered("a", make_devices(1, memory_mib=30_000)))
    await desk.refuse(big)
    await desk.pass_time(15)
    assert "largest has 30000" in (await desk.told())["big"]

    world.cache.take_node(registered("a", make_devices(1, memory_mib=31_000)))
    await desk.pass_time(40)
    assert desk.writes() == 1
    await desk.pass_time(40)
    assert "largest has 31000" in (await desk.told())["big"]
    assert desk.writes() == 2

    world.cache.take_node(registered("a", make_devices(1), cordoned=["card-0"]))
    await desk.pass_time(40)

    assert "1 is cordoned" in (await desk.told())["big"]
    assert desk.writes() == 3


async def test_a_pod_that_fits_now_is_left_to_kube_scheduler(desk):
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)
    desk.world.cache.take_node(registered("b", make_devices(1, memory_mib=60_000)))
    desk.world.cache.take_node(registered("node-a", make_devices(1, memory_mib=60_000)))

    await desk.pass_time(30)

    assert desk.writes() == 0


async def test_pods_that_were_never_refused_or_wait_no_more_are_told_nothing(desk):
    never, gone = await desk.world.create(
        registered(), waiting(name="never", mib=50_000), waiting(name="gone", uid="g", mib=50_000)
    )
    await desk.refuse(gone)
    await desk.world.kube.delete(PODS, "gone", namespace="default")
    await desk.world.sync()

    await desk.pass_time(30)

    assert never.uid != gone.uid
    assert desk.writes() == 0


async def test_it_is_said_again_before_the_api_server_forgets_it(desk):
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)

    await desk.pass_time(3_100)

    assert desk.writes() == 2


async def test_a_new_leader_goes_on_with_the_event_of_the_last(desk):
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)
    await desk.pass_time(20)

    desk.events = desk.new_term(desk.events.explainer)
    await desk.pass_time(20)

    assert len((await desk.world.kube.list(EVENTS)).items) == 1


async def test_a_replica_that_may_not_act_any_more_writes_nothing(desk):
    (call,) = await desk.world.create(registered(), waiting(name="big", mib=50_000))
    await desk.refuse(call)
    desk.world.leadership.is_leader = False

    await desk.pass_time(30)

    assert desk.writes() == 0


def test_pods_of_other_namespaces_are_not_named():
    def change(pod_key):
        return Change(kind=ChangeKind.DEPARTURE, node_name="a", pod_key=pod_key)

    def outlook(*pod_keys):
        return Outlook(
            request=make_request(),
            outcome=Unplaceable(refusals={}),
            changes=tuple(map(change, pod_keys)),
        )

    assert message_of(outlook("other/p"), "team") == (
        "no node was offered. It would fit if one pod of another namespace ended"
    )
    assert message_of(outlook("team/p"), "team") == (
        "no node was offered. It would fit if you delete pod team/p (priority 0)"
    )
    assert "one of these: delete pod team/p (priority 0); or delete pod team/q" in message_of(
        outlook("team/p", "team/q"), "team"
    )


def test_names_of_events_are_those_of_objects():
    class Record:
        pod_name = "p" * 199 + "-" + "q" * 50
        pod_uid = "0123456789"

    assert event_name(Record) == "p" * 199 + ".01234567.cards"


async def test_a_pod_that_waits_for_its_quota_is_told_so(desk):
    (call,) = await desk.world.create(registered(), quota_object(gpumem=999), waiting(name="big"))
    await desk.refuse(call)
    await desk.pass_time(AFTER_S + 1)

    message = (await desk.told())["big"]
    assert "limits.nvidia.com/gpumem in ResourceQuota cards allows 999 MiB" in message
    assert message.endswith(
        "It would fit if you ask for 1 MiB less (999 instead of 1000) in container main"
    )


def test_where_no_change_helps_it_is_said_why():
    found = Outlook(request=make_request(), outcome=Unplaceable(refusals={}), remark="Why not")

    assert message_of(found, "team") == "no node was offered. Why not"
