import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.extender import (
    BindingArgs,
    FilterArgs,
    FilterResult,
    NodeVictims,
    PreemptArgs,
    decode_binding_args,
    decode_filter_args,
    decode_preempt_args,
    encode_binding_result,
    encode_filter_result,
    encode_preempt_result,
    encode_priorities,
)
from hamid.errors import ExtenderError
from tests.codec.golden_files import golden_body, golden_json
from tests.codec.strategies import json_values, objects_with

POD = {"metadata": {"uid": "u", "namespace": "s", "name": "n"}}


def body(**fields):
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["a"]} | fields).encode()


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_recorded_call_with_node_names_is_read(verb):
    args = decode_filter_args(golden_body(f"extender/{verb}-names.json"))

    assert args == FilterArgs(
        pod_uid="c7afdb5a-0605-4931-955d-6676128aee7b",
        namespace="default",
        pod_name="xtrue-0",
        node_names=("fake-0", "fake-1", "fake-2", "fake-3", "fake-4"),
    )


def test_a_recorded_call_with_whole_nodes_is_told_apart():
    args = decode_filter_args(golden_body("extender/filter-nodes.json"))

    assert args.node_names is None


def test_a_recorded_bind_is_read():
    assert decode_binding_args(golden_body("extender/bind.json")) == BindingArgs(
        pod_uid="c7afdb5a-0605-4931-955d-6676128aee7b",
        namespace="default",
        pod_name="xtrue-0",
        node_name="fake-2",
    )


def folded(value, fold):
    if isinstance(value, dict):
        return {fold(key): folded(entry, fold) for key, entry in value.items()}
    return value


@pytest.mark.parametrize("fold", [str.lower, str.upper], ids=["lower case", "upper case"])
def test_keys_are_read_in_any_case(fold):
    filter_call = golden_json("extender/filter-names.json")
    bind_call = golden_json("extender/bind.json")

    assert decode_filter_args(json.dumps(folded(filter_call, fold)).encode()) == decode_filter_args(
        json.dumps(filter_call).encode()
    )
    assert decode_binding_args(json.dumps(folded(bind_call, fold)).encode()) == decode_binding_args(
        json.dumps(bind_call).encode()
    )


def test_no_node_at_all_is_a_call_with_an_empty_list():
    assert decode_filter_args(body(NodeNames=[])).node_names == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"", "it is no JSON", id="nothing"),
        pytest.param(b"[]", "the JSON is a list", id="a list"),
        pytest.param(b"{}", "Pod is null, not an object", id="no pod"),
        pytest.param(body(Pod={}), "Pod.metadata is null", id="a pod without metadata"),
        pytest.param(
            body(Pod={"metadata": {"namespace": "s", "name": "n"}}),
            "Pod.metadata.uid is null",
            id="a pod without UID",
        ),
        pytest.param(
            body(Pod={"metadata": POD["metadata"] | {"name": 1}}),
            "Pod.metadata.name is a number",
            id="a number as name",
        ),
        pytest.param(body(NodeNames="a"), "NodeNames is a string", id="one name, no list"),
        pytest.param(body(NodeNames=[1]), "a name in NodeNames is a number", id="a number as node"),
    ],
)
def test_a_malformed_filter_call_is_refused_with_the_reason(text, message):
    with pytest.raises(ExtenderError, match="the filter call cannot be read") as caught:
        decode_filter_args(text)

    assert message in caught.value.message


@pytest.mark.parametrize("key", ["PodName", "PodNamespace", "PodUID", "Node"])
def test_a_bind_call_that_lacks_a_field_is_refused_and_names_it(key):
    call = golden_json("extender/bind.json") | {key: ""}

    with pytest.raises(ExtenderError, match=f"the bind call cannot be read: {key} is empty"):
        decode_binding_args(json.dumps(call).encode())


KEYS = ("Pod", "metadata", "uid", "name", "namespace", "NodeNames", "Nodes", "PodUID", "Node")


@pytest.mark.slow
@given(
    st.binary()
    | json_values.map(lambda v: json.dumps(v).encode())
    | objects_with(*KEYS).map(lambda v: json.dumps(v).encode())
)
def test_any_body_is_read_or_refused(text):
    for decode in (decode_filter_args, decode_binding_args):
        with suppress(ExtenderError):
            decode(text)


def test_the_answer_to_filter_has_gos_names():
    answer = encode_filter_result(
        FilterResult(
            node_names=("a", "b"), failed={"c": "no room"}, failed_unresolvable={"d": "no device"}
        )
    )

    assert json.loads(answer) == {
        "Nodes": None,
        "NodeNames": ["a", "b"],
        "FailedNodes": {"c": "no room"},
        "FailedAndUnresolvableNodes": {"d": "no device"},
        "Error": "",
    }


def test_an_error_is_an_answer():
    assert json.loads(encode_filter_result(FilterResult(error="who are you")))["Error"] == (
        "who are you"
    )
    assert encode_binding_result("taken") == b'{"Error":"taken"}'
    assert encode_binding_result("") == b'{"Error":""}'


def test_no_text_has_a_percent_sign_for_kube_scheduler_takes_it_for_a_format():
    failed = FilterResult(failed={"a": "need 30 %, most free 20 %"}, error="of model 100%d")

    answer = json.loads(encode_filter_result(failed))

    assert answer["FailedNodes"] == {"a": "need 30 percent, most free 20 percent"}
    assert answer["Error"] == "of model 100 percentd"
    assert json.loads(encode_binding_result("90 % used")) == {"Error": "90 percent used"}


def test_priorities_keep_their_order_and_their_full_size():
    assert encode_priorities({"b": 95, "a": 7}) == (
        b'[{"Host":"b","Score":95},{"Host":"a","Score":7}]'
    )
    assert encode_priorities({}) == b"[]"


def preempt_body(nodes):
    return json.dumps(
        {"Pod": POD, "NodeNameToVictims": {}, "NodeNameToMetaVictims": nodes}
    ).encode()


def test_a_preempt_call_says_whom_kube_scheduler_would_evict():
    nodes = {
        "a": {"Pods": [{"UID": "x"}, {"UID": "y"}], "NumPDBViolations": 1},
        "b": {"Pods": None},
    }

    assert decode_preempt_args(preempt_body(nodes)) == PreemptArgs(
        pod_uid="u",
        namespace="s",
        pod_name="n",
        victims={
            "a": NodeVictims(pod_uids=("x", "y"), violations=1),
            "b": NodeVictims(pod_uids=()),
        },
    )


def test_a_preempt_call_with_whole_pods_is_told_apart():
    assert decode_preempt_args(preempt_body(None)).victims is None


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([], id="no object"),
        pytest.param({"a": []}, id="a node that is none"),
        pytest.param({"a": {"Pods": [{"UID": 1}]}}, id="a UID that is none"),
        *(
            pytest.param({"a": {"Pods": [], "NumPDBViolations": count}}, id=f"a count of {count!r}")
            for count in ("1", 1.5, -1, True)
        ),
    ],
)
def test_a_preempt_call_that_cannot_be_read_is_refused(nodes):
    with pytest.raises(ExtenderError, match="preempt call cannot be read"):
        decode_preempt_args(preempt_body(nodes))


def test_the_answer_to_preempt_names_victims_by_uid():
    answer = encode_preempt_result({"a": NodeVictims(pod_uids=("x",), violations=2)})

    assert json.loads(answer) == {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "x"}], "NumPDBViolations": 2}}
    }


@given(st.dictionaries(st.text(), st.integers(min_value=0, max_value=2**62)))
def test_scores_of_any_names_are_written(scores):
    expected = [{"Host": name, "Score": score} for name, score in scores.items()]

    assert json.loads(encode_priorities(scores)) == expected


@pytest.mark.parametrize("name", ['x":y', 'c,"d', "\\", 'a\\",', "a,b", ":", '"'])
def test_scores_of_names_that_look_like_json_are_written(name):
    scores = {name: 2, "b.c-d": 1}

    expected = [{"Host": name, "Score": 2}, {"Host": "b.c-d", "Score": 1}]
    assert json.loads(encode_priorities(scores)) == expected
