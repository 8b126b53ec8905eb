import inspect

import pytest

from hamid import errors
from hamid.errors import HamidError, shortened

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_every_error_has_a_message_and_says_what_to_do(error_class):
    error = error_class("node 'a' is unwell", hint="call a doctor")

    assert isinstance(error, HamidError)
    assert (error.message, error.hint) == ("node 'a' is unwell", "call a doctor")
    assert str(error) == "node 'a' is unwell (call a doctor)"


def test_the_hint_is_mandatory():
    with pytest.raises(TypeError):
        HamidError("message")


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_every_error_is_drawn_in_the_tree(error_class):
    assert f" {error_class.__name__}" in f" {errors.__doc__}"


def test_what_is_long_is_shortened_and_its_length_said():
    assert shortened("four", longest=4) == "four"
    assert shortened("x" * 5_000, longest=3) == "xxx … (5000 characters in all)"
