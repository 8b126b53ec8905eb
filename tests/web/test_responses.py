import orjson

from hamid.errors import HamidError
from hamid.web.responses import json_body, json_response, problem_of


def test_a_value_becomes_json():
    response = json_response({"a": [1]}, status=201)

    assert response.status == 201
    assert response.content_type == "application/json"
    assert orjson.loads(response.body) == {"a": [1]}


def test_json_that_is_encoded_already_is_sent_as_it_is():
    assert json_body(b'{"a":1}').body == b'{"a":1}'


def test_an_error_keeps_its_message_and_hint():
    response = problem_of(HamidError("m", hint="h"), status=500, closes_connection=True)

    assert orjson.loads(response.body) == {"message": "m", "hint": "h"}
    assert response.keep_alive is False
