from __future__ import annotations

import pytest

from hamid.daemon.simulate.roster import Roster, refusal_sentence
from hamid.daemon.simulate.view import ClusterView
from hamid.kube.errors import Forbidden
from tests.daemon.simulate.manifests import pod


def test_the_order_is_that_of_asking_and_a_later_admission_replaces_a_refusal():
    roster = Roster(view=ClusterView())
    first, second = pod("b", namespace="default"), pod("a", namespace="default")

    roster.refuse(first, Forbidden("no"))
    roster.admit(second)
    roster.admit(first)

    assert list(roster.refusals) == ["default/b", "default/a"]
    assert not roster.is_refused("default/b")


def test_what_nobody_wants_any_more_is_forgotten():
    roster = Roster(view=ClusterView())
    roster.refuse(pod("a", namespace="default"), Forbidden("no"))

    roster.forget("default/a")

    assert roster.refusals == {}


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        pytest.param(
            'create /api/v1/pods: 403: admission webhook "x" denied the request: too much',
            "too much",
            id="of a webhook, what it said",
        ),
        pytest.param(
            'create /api/v1/pods: 422: Pod "a" is invalid:\n  no image',
            'Pod "a" is invalid: no image',
            id="of the server, what it said, in a line",
        ),
        pytest.param("anything else", "anything else", id="anything else as it is"),
    ],
)
def test_a_refusal_is_a_sentence(message, sentence):
    assert refusal_sentence(Forbidden(message)) == sentence
