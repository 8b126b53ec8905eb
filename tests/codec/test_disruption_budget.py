import pytest

from hamid.codec.disruption_budget import decode_budget


def budget(selector, *, allowed=1):
    return decode_budget(
        {
            "metadata": {"namespace": "team", "name": "web"},
            "spec": {} if selector is None else {"selector": selector},
            "status": {"disruptionsAllowed": allowed},
        }
    )


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "is_counted"),
    [
        pytest.param(None, False, id="no selector counts none"),
        pytest.param({}, True, id="an empty one counts all"),
        pytest.param({"matchLabels": {"app": "web"}}, True, id="a label that it has"),
        pytest.param({"matchLabels": {"app": "db"}}, False, id="a label with another value"),
        pytest.param(expression("app", "In", "db", "web"), True, id="a value of a set"),
        pytest.param(expression("app", "In", "db"), False, id="no value of a set"),
        pytest.param(expression("tier", "In", "a"), False, id="no label to be in a set"),
        pytest.param(expression("app", "NotIn", "db"), True, id="a value outside of a set"),
        pytest.param(expression("tier", "NotIn", "a"), True, id="no label to be outside of a set"),
        pytest.param(expression("app", "Exists"), True, id="a label that there is"),
        pytest.param(expression("tier", "Exists"), False, id="a label that there is not"),
        pytest.param(expression("tier", "DoesNotExist"), True, id="a label that must not be"),
        pytest.param(expression("app", "Unheard"), True, id="an unknown operator may count it"),
    ],
)
def test_a_budget_counts(selector, is_counted):
    assert budget(selector).counts("team", {"app": "web"}) is is_counted


def test_it_counts_in_its_own_namespace_only():
    assert not budget({}).counts("other", {"app": "web"})


def test_it_says_how_many_may_go():
    assert (budget({}, allowed=3).key, budget({}, allowed=3).allowed) == ("team/web", 3)
    assert decode_budget({"metadata": {"namespace": "team", "name": "new"}}).allowed == 0
