import pytest

from hamid.aiokit.backoff import Backoff
from hamid.daemon.patience import until_answered
from hamid.kube.errors import Forbidden, Unavailable


def asking(*outcomes):
    """A function that has these outcomes, one after the other."""
    left = list(outcomes)

    async def ask():
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return ask


async def test_an_answer_is_passed_on_and_nothing_said(logs):
    assert await until_answered(asking(3), what="the version") == 3
    assert logs == []


@pytest.mark.looptime
async def test_no_answer_is_said_once_and_asked_for_again(logs, looptime):
    away = Unavailable("away")

    ask = asking(away, away, Forbidden("no"), "there")
    backoff = Backoff(first_s=1.0, jitter=0.0)
    assert await until_answered(ask, what="the version", backoff=backoff) == "there"

    assert looptime == 1 + 2 + 4
    assert [(e["event"], e["log_level"], e["what"]) for e in logs] == [
        ("start delayed", "warning", "the version"),
        ("start goes on", "info", "the version"),
    ]


async def test_our_own_mistakes_are_not_waited_out():
    with pytest.raises(ZeroDivisionError):
        await until_answered(asking(ZeroDivisionError()), what="the version")
