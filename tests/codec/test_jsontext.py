import pytest

from hamid.codec.jsontext import (
    QUOTE_LIMIT,
    ShapeError,
    as_bool,
    as_int,
    as_list,
    as_object,
    as_text,
    dumps,
    is_number,
    kind_of,
    loads,
    loads_object,
    quoted,
)


def test_what_is_written_is_compact_and_read_back():
    assert dumps({"b": [1, None], "a": "ü"}) == '{"b":[1,null],"a":"ü"}'.encode()
    assert loads(dumps({"b": 1})) == {"b": 1}


@pytest.mark.parametrize("text", ["", "{", "nan", "{'a':1}", b"\xff", '{"a":1}x', "\ud800"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ShapeError, match="it is no JSON"):
        loads(text)


def test_deeply_nested_text_is_refused_and_does_not_crash():
    with pytest.raises(ShapeError):
        loads("[" * 100_000)


def test_a_document_that_is_no_object_is_refused():
    with pytest.raises(ShapeError, match="the JSON is a list, not an object"):
        loads_object("[]")


@pytest.mark.parametrize(
    ("read", "good"),
    [(as_object, {}), (as_list, []), (as_text, "a"), (as_int, 0), (as_bool, False)],
)
def test_a_value_of_the_right_kind_is_itself(read, good):
    assert read(good, what="it") == good


@pytest.mark.parametrize(
    ("read", "bad", "message"),
    [
        (as_object, None, "it is null, not an object"),
        (as_list, {}, "it is an object, not a list"),
        (as_text, 1.5, "it is a number, not a string"),
        (as_text, "", "it is empty"),
        (as_int, True, "it is a boolean, not a whole number"),
        (as_int, 1.0, "it is a number, not a whole number"),
        (as_int, "1", "it is a string, not a whole number"),
        (as_int, -1, "it is -1; allowed is 0 to 2147483647"),
        (as_int, 2**31, "it is 2147483648; allowed is 0 to 2147483647"),
        (as_bool, 1, "it is a number, not true or false"),
        (as_bool, [], "it is a list, not true or false"),
    ],
)
def test_a_value_of_another_kind_is_refused_and_named(read, bad, message):
    with pytest.raises(ShapeError, match=message):
        read(bad, what="it")


@pytest.mark.parametrize(
    ("text", "maximum", "is_one"),
    [
        ("0", 7, True),
        ("7", 7, True),
        ("8", 7, False),
        ("10", 7, False),
        ("", 7, False),
        ("-1", 7, False),
        ("+1", 7, False),
        (" 1", 7, False),
        ("1_0", 1_000, False),
        ("\u0661", 7, False),  # a digit, in Arabic
        ("\u00b2", 7, False),
        ("1" * 5_000, 2**31 - 1, False),
    ],
)
def test_a_number_is_of_plain_digits_and_within_its_bounds(text, maximum, is_one):
    assert is_number(text, maximum) is is_one


def test_kinds_have_the_names_that_json_gives_them():
    assert [kind_of(v) for v in (None, True, 1, 1.5, "", [], {})] == [
        "null",
        "a boolean",
        "a number",
        "a number",
        "a string",
        "a list",
        "an object",
    ]


def test_foreign_text_is_quoted_escaped_and_cut():
    assert quoted("a\nb") == r"'a\nb'"
    assert quoted(b"\xff") == "'\N{REPLACEMENT CHARACTER}'"
    assert len(quoted("x" * 10_000)) == QUOTE_LIMIT + 3
    assert len(quoted(b"x" * 10_000)) == QUOTE_LIMIT + 3
