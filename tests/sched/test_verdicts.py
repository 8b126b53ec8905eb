from hamid.sched.placement.place import place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.typical import Arrivals
from hamid.sched.verdicts import Decision, NodeLoad, Verdicts, counted
from tests.sched.builders import make_devices, make_node, make_request


def decision(uid, sentence="", nodes=(), ranked=()):
    return Decision(
        request=make_request(uid=uid),
        decided_at_s=1.0,
        sentence=sentence,
        node_policies=(),
        fitting_count=len(ranked),
        considered=tuple(nodes),
        ranked=ranked,
        reasons={},
        typical=Arrivals().typical,
    )


def test_the_newest_verdict_of_a_pod_counts():
    kept = Verdicts(capacity=2)
    kept.put(decision("a", "old"))
    kept.put(decision("a", "new"))

    assert kept.verdict("a").sentence == "new"
    assert kept.verdict("b") is None


def test_the_oldest_verdicts_make_room():
    kept = Verdicts(capacity=2)
    for uid in ("a", "b", "a", "c"):
        kept.put(decision(uid))

    assert [found.pod_uid for found in kept.all()] == ["c", "a"]


def test_sentences_are_counted_the_most_frequent_first():
    assert list(counted({"n1": "x", "n2": "y", "n3": "y"}).items()) == [("y", 2), ("x", 1)]


def test_what_a_verdict_was_decided_on_goes_with_it():
    node = make_node(devices=make_devices(1))
    ranked = place(make_request(), [node], policies=Policies()).ranked
    kept = Verdicts(capacity=1)
    kept.put(decision("a", nodes=[node], ranked=ranked))

    (load,) = kept.verdict("a").best
    scene = kept.scene("a")

    assert kept.verdict("a").node_name == node.node_name
    assert load == NodeLoad(
        node_name=node.node_name, load_ppm=ranked[0].load_ppm, costs=ranked[0].cost
    )
    assert (scene.request.pod_uid, scene.considered) == ("a", ((node, ranked[0]),))
    kept.put(decision("b"))
    assert kept.scene("a") is None
    assert kept.verdict("b").node_name == ""
