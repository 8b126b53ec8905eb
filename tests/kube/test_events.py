from hamid.kube.events import LONGEST_MESSAGE, EventWriter, Subject, cut
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import EVENTS

POD = Subject(kind="Pod", name="train", uid="u-1", namespace="default")


class Clock:
    now_s = 1_800_000_000.7

    def __call__(self):
        return self.now_s


def writer(kube, clock=None):
    return EventWriter(kube=kube, clock=clock or Clock(), host="node-1")


async def events(kube):
    return (await kube.list(EVENTS)).items


async def keep(found, message, *, is_first=True, name="train.u-1"):
    return await found.keep(POD, name=name, reason="Waiting", message=message, is_first=is_first)


async def test_an_event_names_its_subject_and_where_it_comes_from():
    kube = FakeKube()

    await writer(kube).warn(POD, reason="Waiting", message="no room")

    (event,) = await events(kube)
    assert event["involvedObject"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "train",
        "uid": "u-1",
    }
    assert event["source"] == {"component": "hamid", "host": "node-1"}
    assert (event["type"], event["firstTimestamp"]) == ("Warning", "2027-01-15T08:00:00Z")


async def test_a_kept_event_is_one_whose_text_is_the_newest():
    kube, clock = FakeKube(), Clock()
    found = writer(kube, clock)
    await keep(found, "much is lacking")
    clock.now_s += 60

    await keep(found, "little is lacking", is_first=False)

    (event,) = await events(kube)
    assert event["message"] == "little is lacking"
    assert event["firstTimestamp"] == "2027-01-15T08:00:00Z"
    assert event["lastTimestamp"] == "2027-01-15T08:01:00Z"
    assert kube.requests.count(resource="events", verb="patch") == 1


async def test_it_is_gone_on_with_by_another_replica_and_made_anew_when_forgotten():
    kube = FakeKube()
    await keep(writer(kube), "one")
    await keep(writer(kube), "other")
    assert [event["message"] for event in await events(kube)] == ["other"]

    await kube.delete(EVENTS, "train.u-1", namespace="default")
    assert await keep(writer(kube), "again", is_first=False)

    assert [event["message"] for event in await events(kube)] == ["again"]


async def test_what_cannot_be_written_is_dropped_and_logged(assert_logged):
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.DROP, verb="create"))

    assert not await keep(writer(kube), "no room")

    assert_logged("event not written", reason="Waiting")


def test_long_texts_are_cut_at_a_letter():
    text = "ü" * LONGEST_MESSAGE

    assert cut("short") == "short"
    assert len(cut(text).encode()) <= LONGEST_MESSAGE
    assert cut(text).endswith("ü…")
