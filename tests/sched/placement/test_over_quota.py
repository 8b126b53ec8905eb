import pytest

from hamid.model.quota import Bound, Limit, Overdraft, QuotaResource
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.explain import card_reasons, cluster_sentence, node_sentences
from hamid.sched.placement.over_quota import QuotaRefusal, never_sentence
from hamid.sched.placement.refusal import Refusal
from tests.sched.builders import make_request


def over(asked=1, *, resource=QuotaResource.MEMORY_MIB, key="gpumem", **more):
    limit = Limit(key=f"limits.nvidia.com/{key}", resource=resource, hard=4_096)
    bound = Bound(quota_name="cards", limit=limit, used=4_000)
    return Overdraft(bound=bound, asked=asked, **more)


SENTENCE = (
    "quota of namespace team: limits.nvidia.com/gpumem in ResourceQuota cards allows 4096 MiB of "
    "card memory, 4000 used, 100 asked; wait until pods of the namespace end, ask for less, or "
    "have the quota raised"
)


@pytest.fixture
def refusal():
    return QuotaRefusal("team", [over(100)])


def test_a_refusal_says_what_is_allowed_used_and_asked_and_what_to_do(refusal):
    assert refusal.sentence == SENTENCE


def test_all_that_lacks_is_said_at_once():
    cards = over(2, resource=QuotaResource.CARDS, key="gpu")

    sentence = QuotaRefusal("team", [cards, over(100, is_least=True)]).sentence

    assert "allows 4096 cards, 4000 used, 2 asked and limits" in sentence
    assert "at least 100 asked" in sentence


def test_a_pod_that_never_fits_is_told_so():
    assert never_sentence("team", [over(8_192)]) == (
        "the pod asks for 8192 MiB of card memory in all, but limits.nvidia.com/gpumem in "
        "ResourceQuota cards allows namespace team 4096, so that it would never run; ask for "
        "less, or have the quota raised"
    )


def test_eviction_would_not_help(refusal):
    assert refusal.is_hopeless


def test_refusals_are_equal_by_what_they_say(refusal):
    assert refusal == QuotaRefusal("team", [over(100)])
    assert hash(refusal) == hash(QuotaRefusal("team", [over(100)]))
    assert refusal != QuotaRefusal("team", [over(101)])
    assert refusal != Refusal(())


def test_all_nodes_say_the_same(refusal):
    refusals = {"a": refusal, "b": refusal}

    assert node_sentences(make_request(), refusals) == {"a": SENTENCE, "b": SENTENCE}
    assert cluster_sentence(make_request(), refusals) == SENTENCE
    assert card_reasons(make_request(), refusals) == ()


def test_what_other_nodes_lack_is_said_after_it(refusal):
    other = Refusal((Shortfall(resource=Resource.REGISTRATION),))

    said = cluster_sentence(make_request(), {"a": refusal, "b": other})

    assert said.startswith(f"{SENTENCE}. Besides, the node registers no card: ")
