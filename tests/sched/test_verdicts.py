from hamid.sched.placement.typical import Arrivals
from hamid.sched.verdicts import Scene, Verdict, Verdicts, counted
from tests.sched.builders import make_request


def verdict(uid, sentence=""):
    return Verdict(
        pod_uid=uid, pod_key=f"default/{uid}", decided_at_s=1.0, sentence=sentence, reasons={}
    )


def test_the_newest_verdict_of_a_pod_counts():
    kept = Verdicts(capacity=2)
    kept.put(verdict("a", "old"))
    kept.put(verdict("a", "new"))

    assert kept.verdict("a").sentence == "new"
    assert kept.verdict("b") is None


def test_the_oldest_verdicts_make_room():
    kept = Verdicts(capacity=2)
    for uid in ("a", "b", "a", "c"):
        kept.put(verdict(uid))

    assert [found.pod_uid for found in kept.all()] == ["c", "a"]


def test_sentences_are_counted_the_most_frequent_first():
    assert list(counted({"n1": "x", "n2": "y", "n3": "y"}).items()) == [("y", 2), ("x", 1)]


def test_what_a_verdict_was_decided_on_goes_with_it():
    kept = Verdicts(capacity=1)
    scene = Scene(request=make_request(), typical=Arrivals().typical)
    kept.put(verdict("a"), scene)

    assert kept.scene("a") is scene
    kept.put(verdict("b"))
    assert kept.scene("a") is kept.scene("b") is None
