import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.admission import AdmissionRequest, Allow, Deny, decode_review, patch_object
from hamid.kube.fake.patches import json_patched
from hamid.model import names
from hamid.model.names import ResourceNames
from hamid.model.quota import Limit, Quota, QuotaResource, ScopeName, ScopeRule
from hamid.model.request import RequestDefaults
from hamid.sched.admission_rules import Rules
from hamid.sched.admission_settings import AdmissionSettings, ForgeryPolicy, Policy
from tests.codec.strategies import json_values

KNOWN = names.ASKED_BY_AUTHOR
OURS = "system:serviceaccount:hamid:hamid"


def container(name="train", *, gpu=None, limits=None, requests=None, **more):
    resources = {}
    if gpu is not None:
        limits = {"nvidia.com/gpu": str(gpu)} | (limits or {})
        requests = dict(limits) if requests is None else requests
    if limits is not None:
        resources["limits"] = limits
    if requests is not None:
        resources["requests"] = requests
    return {"name": name, "image": "busybox", **more, "resources": resources}


def pod(*containers, init=(), annotations=None, labels=None, **spec):
    meta = {"name": "p", "namespace": "default"}
    if annotations is not None:
        meta["annotations"] = annotations
    if labels is not None:
        meta["labels"] = labels
    body = {"containers": list(containers), **spec}
    if init:
        body["initContainers"] = list(init)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def review(item, *, old=None, operation="CREATE", subresource="", username="alice"):
    return AdmissionRequest(
        uid="u",
        api_version="admission.k8s.io/v1",
        operation=operation,
        namespace="default",
        name="p",
        username=username,
        groups=(),
        object=item,
        old_object=old,
        resource="pods",
        subresource=subresource,
    )


def rules(**settings):
    return Rules(settings=AdmissionSettings(**settings))


def verdict_on(item, **settings):
    return rules(**settings).verdict(review(item))


def patched(item, verdict):
    assert isinstance(verdict, Allow), verdict
    return json_patched(item, [patch_object(op) for op in verdict.patch])


# What is changed.


@pytest.mark.parametrize(
    "before", ["", "default-scheduler", "hami-scheduler", "4pd-scheduler", None]
)
def test_a_pod_that_made_no_choice_of_scheduler_gets_ours(before):
    item = pod(container(gpu=1), schedulerName=before)
    if before == "":
        del item["spec"]["schedulerName"]

    after = patched(item, verdict_on(item))

    assert after["spec"]["schedulerName"] == names.SCHEDULER_NAME


@pytest.mark.parametrize(
    ("policy", "is_allowed", "warning_count"),
    [
        pytest.param(Policy.WARN, True, 1, id="left alone with a warning"),
        pytest.param(Policy.ALLOW, True, 0, id="left alone in silence"),
        pytest.param(Policy.REFUSE, False, 0, id="refused"),
    ],
)
def test_another_scheduler_chosen_on_purpose(policy, is_allowed, warning_count):
    item = pod(container(limits={"nvidia.com/gpumem": "1"}), schedulerName="volcano")

    verdict = verdict_on(item, foreign_scheduler=policy)

    if not is_allowed:
        assert isinstance(verdict, Deny)
        assert "'volcano'" in verdict.message
        return
    assert patched(item, verdict) == item
    assert len(verdict.warnings) == warning_count


@pytest.mark.parametrize(
    ("app", "spec", "said"),
    [
        pytest.param(
            container(gpu=1, securityContext={"privileged": True}),
            {},
            "privileged",
            id="privileged",
        ),
        pytest.param(container(gpu=1), {"nodeName": "n"}, "spec.nodeName", id="preset node"),
    ],
)
def test_another_scheduler_is_no_way_round_what_the_operator_refuses(app, spec, said):
    verdict = verdict_on(pod(app, schedulerName="volcano", **spec))

    assert isinstance(verdict, Deny)
    assert said in verdict.message


@pytest.mark.parametrize(
    "asking",
    [
        pytest.param({"init": [container("prep", gpu=1)]}, id="an init container"),
        pytest.param(
            {"init": [container("side", gpu=1, restartPolicy="Always")]}, id="a native sidecar"
        ),
        pytest.param({"app": container("train", gpu=1)}, id="an app container"),
        pytest.param(
            {"init": [container("prep", requests={"nvidia.com/gpu": "1"})]},
            id="an init container that asks under requests only",
        ),
    ],
)
def test_every_kind_of_container_that_asks_makes_the_pod_ours(asking):
    app = asking.get("app") or container("web")
    item = pod(app, init=asking.get("init", ()))

    after = patched(item, verdict_on(item))

    assert after["spec"]["schedulerName"] == names.SCHEDULER_NAME
    for asked in (*after["spec"].get("initContainers", ()), *after["spec"]["containers"]):
        resources = asked["resources"]
        assert resources.get("limits") == resources.get("requests")


def test_a_count_that_is_understood_is_written_down_and_limits_equal_requests():
    item = pod(container("a", limits={"nvidia.com/gpumem": "3000"}), container("b"))

    after = patched(item, verdict_on(item))

    amounts = {"nvidia.com/gpumem": "3000", "nvidia.com/gpu": "1"}
    assert after["spec"]["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}
    assert after["spec"]["containers"][1] == item["spec"]["containers"][1]


def test_amounts_are_written_in_full_where_nodes_state_them():
    item = pod(container("a", gpu=1), container("b", gpu=2, limits={"nvidia.com/gpumem": "2Gi"}))
    spelling = Rules(spells_out=True)

    after = patched(item, spelling.verdict(review(item)))

    amounts = [each["resources"]["requests"] for each in after["spec"]["containers"]]
    whole = {"nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"}
    assert amounts == [
        {"nvidia.com/gpu": "1", **whole},
        {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "2048"},
    ]
    assert patched(after, spelling.verdict(review(after))) == after


def test_a_runtime_class_is_given_where_the_operator_wants_one_and_the_pod_names_none():
    item = pod(container(gpu=1))
    after = patched(item, verdict_on(item, runtime_class_name="nvidia"))
    assert after["spec"]["runtimeClassName"] == "nvidia"

    named = pod(container(gpu=1), runtimeClassName="kata")
    after = patched(named, verdict_on(named, runtime_class_name="nvidia"))
    assert after["spec"]["runtimeClassName"] == "kata"


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(pod(container()), id="a pod without devices"),
        pytest.param(pod(container(gpu=0)), id="a pod that asks for none"),
        pytest.param(
            pod(container(gpu=1), labels={"hami.io/webhook": "ignore"}), id="a pod that opted out"
        ),
        pytest.param(
            pod(container(gpu=1), labels={"4pd.io/webhook": "ignore"}),
            id="one that opted out before HAMi",
        ),
        pytest.param(
            pod(container(securityContext={"privileged": True}), nodeName="n", hostPID=True),
            id="a privileged pod without devices",
        ),
        pytest.param(pod(), id="a pod without containers, which the API server will refuse"),
    ],
)
def test_what_is_none_of_our_business_is_left_alone(item):
    assert verdict_on(item) == Allow()


def test_other_objects_and_operations_are_left_alone():
    item = pod(container(gpu=1))

    assert rules().verdict(review(item, operation="DELETE")) == Allow()
    assert rules().verdict(review(None)) == Allow()
    assert rules().verdict(review(item, operation="UPDATE", subresource="resize")) == Allow()


def test_the_second_review_of_what_the_first_made_changes_nothing():
    item = pod(
        container("a", limits={"nvidia.com/gpumem": "3000"}),
        init=[container("i", requests={"nvidia.com/gpu": 2})],
        annotations={names.POD_NODE: "x"},
    )
    settings = {"runtime_class_name": "nvidia"}
    once = patched(item, verdict_on(item, **settings))

    assert verdict_on(once, **settings) == Allow()


def test_fields_that_nobody_here_knows_survive_to_the_byte():
    item = pod(
        container(
            "a",
            limits={"nvidia.com/gpumem": 3000, "example.com/odd~name": "1"},
            futureField={"z": [1.50, None, {"ü": 12345678901234567890}], "a": 1e100},
        ),
        zzNew={"b": 1, "a": [True]},
        annotations={"b/x": "1", names.POD_ALLOCATION: "{}", "a/y": "2"},
    )
    item["metadata"]["managedFields"] = [{"fieldsV1": {"f:spec": {}}}]
    raw = json.dumps(item)

    after = patched(json.loads(raw), verdict_on(json.loads(raw)))

    expected = json.loads(raw)
    del expected["metadata"]["annotations"][names.POD_ALLOCATION]
    expected["spec"]["schedulerName"] = names.SCHEDULER_NAME
    resources = expected["spec"]["containers"][0]["resources"]
    resources["limits"]["nvidia.com/gpu"] = "1"
    resources["requests"] = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    assert canonical(after) == canonical(expected)


def canonical(value):
    return json.dumps(value, sort_keys=True)


def test_the_review_of_a_real_api_server_is_understood():
    sample = Path(__file__).parent / "golden" / "admission-review.json"
    request = decode_review(json.dumps(json.loads(sample.read_text())["request"]).encode())
    before = copy.deepcopy(request.object)

    verdict = Rules().verdict(request)

    assert request.object == before
    assert [(op.op, op.path, op.value) for op in verdict.patch] == [
        ("replace", "/spec/schedulerName", "hamid-scheduler")
    ]
    assert verdict.warnings == ()


def test_resources_may_have_other_names():
    renamed = Rules(resources=ResourceNames(count="example.com/card"))
    ours = pod(container(limits={"example.com/card": "1"}))
    theirs = pod(container(limits={"nvidia.com/gpu": "1"}))

    assert renamed.verdict(review(ours)) != Allow()
    assert renamed.verdict(review(theirs)) == Allow()


# What is refused.


def test_an_amount_that_cannot_be_is_refused_with_container_field_and_hint():
    verdict = verdict_on(pod(container("train", gpu=1, limits={"nvidia.com/gpumem": "-1"})))

    assert isinstance(verdict, Deny)
    assert verdict.code == 422
    assert "'train'" in verdict.message
    assert "nvidia.com/gpumem" in verdict.message


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"limits": {"nvidia.com/gpumem": "-1"}}, id="amounts"),
        pytest.param({"securityContext": {"privileged": True}}, id="privileges"),
    ],
)
def test_a_refusal_is_of_bounded_length_however_much_is_wrong(broken):
    """It is logged; with each of hundreds of containers something can be wrong."""
    verdict = verdict_on(pod(*(container(f"c{n}", gpu=1, **broken) for n in range(250))))

    assert isinstance(verdict, Deny)
    assert "'c0'" in verdict.message
    assert len(verdict.message) < 5_000


def test_memory_without_a_count_is_refused_where_the_operator_gives_no_default():
    strict = Rules(defaults=RequestDefaults(device_count=0))

    verdict = strict.verdict(review(pod(container(limits={"nvidia.com/gpumem": "1"}))))

    assert isinstance(verdict, Deny)


PRIVILEGED = {"securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("item", "setting", "said"),
    [
        pytest.param(
            pod(container("train", gpu=1, **PRIVILEGED)),
            "privileged_user",
            "'train'",
            id="the asking container is privileged",
        ),
        pytest.param(
            pod(container("dbg", **PRIVILEGED), container("train", gpu=1)),
            "privileged_neighbour",
            "'dbg'",
            id="a neighbour before it is privileged",
        ),
        pytest.param(
            pod(container("train", gpu=1), container("dbg", **PRIVILEGED)),
            "privileged_neighbour",
            "'dbg'",
            id="a neighbour after it is privileged",
        ),
        pytest.param(
            pod(container("train", gpu=1), init=[container("setup", **PRIVILEGED)]),
            "privileged_neighbour",
            "'setup'",
            id="an init container is privileged",
        ),
        pytest.param(
            pod(container("train", gpu=1), hostPID=True), "host_pid", "'train'", id="host PID"
        ),
        pytest.param(
            pod(container("train", gpu=1), nodeName="node-7"),
            "preset_node",
            "node-7",
            id="the node is preset",
        ),
    ],
)
@pytest.mark.parametrize("policy", Policy)
def test_what_the_operator_may_not_want_gets_one_verdict_by_his_policy(item, setting, said, policy):
    verdict = verdict_on(item, **{setting: policy})

    match policy:
        case Policy.REFUSE:
            assert isinstance(verdict, Deny)
            assert said in verdict.message
        case Policy.WARN:
            assert said in " ".join(verdict.warnings)
            assert patched(item, verdict)["spec"]["schedulerName"] == names.SCHEDULER_NAME
        case Policy.ALLOW:
            assert verdict.warnings == ()
            assert patched(item, verdict)["spec"]["schedulerName"] == names.SCHEDULER_NAME


def test_a_refusal_gives_all_reasons_at_once():
    item = pod(container("a", gpu=1, **PRIVILEGED), container("b", **PRIVILEGED), nodeName="node-7")

    verdict = verdict_on(item)

    assert all(word in verdict.message for word in ("'a'", "'b'", "node-7"))


def test_warnings_are_short_enough_for_the_api_server_to_show_them():
    item = pod(container("train", gpu=1, **PRIVILEGED), nodeName="node-7", hostPID=True)
    lenient = {
        "privileged_user": Policy.WARN,
        "preset_node": Policy.WARN,
        "host_pid": Policy.WARN,
    }

    verdict = verdict_on(item, **lenient)

    assert len(verdict.warnings) == 3
    assert all(len(warning) <= 256 for warning in verdict.warnings)


# Forged annotations.


@pytest.mark.parametrize("key", names.WRITTEN_BY_US)
@pytest.mark.parametrize("gpu", [None, 1])
def test_annotations_of_ours_on_a_new_pod_are_stripped_with_a_warning(key, gpu):
    item = pod(container(gpu=gpu), annotations={key: "forged", "keep": "me"})

    verdict = verdict_on(item)

    assert patched(item, verdict)["metadata"]["annotations"] == {"keep": "me"}
    assert key in verdict.warnings[0]


def test_annotations_of_ours_are_stripped_even_where_the_pod_opted_out():
    item = pod(
        container(gpu=1),
        labels={"hami.io/webhook": "ignore"},
        annotations={names.POD_ALLOCATION: "forged"},
    )

    after = patched(item, verdict_on(item))

    assert after["metadata"]["annotations"] == {}
    assert "schedulerName" not in after["spec"]


def test_annotations_of_ours_on_a_new_pod_are_refused_by_setting():
    item = pod(container(), annotations={names.POD_NODE: "forged"})

    verdict = verdict_on(item, forged_annotations=ForgeryPolicy.REFUSE)

    assert isinstance(verdict, Deny)
    assert names.POD_NODE in verdict.message


def change(*, old, new, username):
    return rules(own_usernames=(OURS,)).verdict(
        review(
            pod(container(gpu=1), annotations=new),
            old=pod(container(gpu=1), annotations=old),
            operation="UPDATE",
            username=username,
        )
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({}, {names.POD_ALLOCATION: "x"}, id="added"),
        pytest.param({names.POD_ALLOCATION: "x"}, {names.POD_ALLOCATION: "y"}, id="changed"),
        pytest.param({names.POD_ALLOCATION: "x"}, None, id="removed"),
    ],
)
def test_only_we_may_change_an_allocation(old, new):
    refused = change(old=old, new=new, username="alice")

    assert isinstance(refused, Deny)
    assert names.POD_ALLOCATION in refused.message
    assert change(old=old, new=new, username=OURS) == Allow()


def test_other_changes_to_a_pod_pass_untouched():
    kept = {names.POD_ALLOCATION: "x"}

    assert change(old=kept, new={**kept, "note": "new"}, username="alice") == Allow()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("hami.io/gpu-schduler-policy", "write 'hami.io/gpu-scheduler-policy' if that is meant"),
        ("nvidia.com/use-gpu-uuid", "write 'nvidia.com/use-gpuuuid' if that is meant"),
        ("hamid.io/numa-bind", "leave it out"),
    ],
)
@pytest.mark.parametrize("policy", Policy)
def test_a_misspelt_annotation_does_not_pass_in_silence(policy, key, said):
    """Project-HAMi/HAMi#1105: everything went to card 0, for a policy that was misspelt."""
    item = pod(container(gpu=1), annotations={key: "binpack"})

    verdict = verdict_on(item, unknown_annotations=policy)

    told = f"annotation '{key}' is unknown and has no effect; {said}"
    if policy is Policy.REFUSE:
        assert verdict == Deny(message=told)
    else:
        assert verdict.warnings == ((told,) if policy is Policy.WARN else ())


@pytest.mark.parametrize("key", ["prometheus.io/scrape", "nvidia.com/gpu.product", *KNOWN])
def test_annotations_of_others_and_those_that_are_known_are_not_remarked_on(key):
    value = {names.NUMA_BIND: "true", names.CORE_MODE: "lend", names.CORE_WEIGHT: "1"}.get(key, "")

    assert verdict_on(pod(container(gpu=1), annotations={key: value})).warnings == ()


def test_of_thousands_of_annotations_only_the_first_are_looked_at():
    """A second for each such pod, of the replica that may lead."""
    annotations = {f"nvidia.com/use-gputyp{number}": "x" for number in range(5_000)}

    verdict = verdict_on(pod(container(gpu=1), annotations=annotations))

    assert len(verdict.warnings) == 100


def test_a_pod_that_asks_for_no_card_may_be_annotated_as_it_likes():
    assert verdict_on(pod(container(), annotations={"hamid.io/typo": "x"})) == Allow()


GARBAGE = {
    names.NODE_POLICY: ("best", "binpack,best"),
    names.DEVICE_POLICY: ("best", "binpack,best", "-1"),
    names.VGPU_MODE: ("warp", ",", "-1"),
    "hami.io/vgpu-mode": ("warp",),
    names.NUMA_BIND: ("yes", "-1", "true,false"),
    names.USE_INDEX: ("a", "-1", "0,x", "1.5"),
    names.LOAD_WEIGHTS: ("1", "slot=-1", "slots=1", "slot=0,core=0,memory=0", "cpu=1"),
    names.NODE_WEIGHTS: ("1", "cpu=-1", "host=1", "cpu=0"),
    names.CORE_MODE: ("", "soft"),
    names.CORE_WEIGHT: ("", "0", "1001", "1.5"),
    names.USE_MODEL: ("*", "A100,-"),
    names.AVOID_MODEL: ("*",),
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, vs in GARBAGE.items() for v in vs])
def test_a_value_that_is_not_known_is_refused_by_the_name_of_its_annotation(key, value):
    verdict = verdict_on(pod(container(gpu=1), annotations={key: value}))

    assert isinstance(verdict, Deny)
    assert verdict.message.startswith(f"annotation {key}: ")


def test_only_lists_of_uuids_take_any_value():
    lists_of_uuids = {names.USE_UUID, names.AVOID_UUID}

    assert set(GARBAGE) == set(names.ASKED_BY_AUTHOR) - lists_of_uuids


# Quotas.


def limited(hard, *, scopes=(), resource=QuotaResource.MEMORY_MIB, name="cards"):
    limit = Limit(key="limits.nvidia.com/gpumem", resource=resource, hard=hard)
    return Quota(
        namespace="default",
        name=name,
        limits=(limit,),
        scopes=tuple(ScopeRule(scope=scope) for scope in scopes),
    )


BIG = pod(container(gpu=2, limits={"nvidia.com/gpumem": "2048"}))


def test_a_pod_that_asks_for_more_than_its_quota_allows_in_all_is_refused_with_numbers():
    verdict = rules().verdict(review(BIG), [limited(4_095)])

    assert verdict == Deny(
        message="the pod asks for 4096 MiB of card memory in all, but limits.nvidia.com/gpumem in "
        "ResourceQuota cards allows namespace default 4095, so that it would never run; ask for "
        "less, or have the quota raised"
    )


def test_a_pod_that_fits_its_quota_is_admitted_however_much_is_used():
    assert isinstance(rules().verdict(review(BIG), [limited(4_096)]), Allow)


def test_the_operator_may_have_over_quota_pods_wait():
    warned = rules(over_quota=Policy.WARN).verdict(review(BIG), [limited(0)])
    allowed = rules(over_quota=Policy.ALLOW).verdict(review(BIG), [limited(0)])

    assert "would never run" in warned.warnings[0]
    assert allowed.warnings == ()


def test_the_least_of_several_quotas_counts():
    verdict = rules().verdict(review(BIG), [limited(9_000), limited(5, name="small")])

    assert "ResourceQuota small allows namespace default 5" in verdict.message


def test_a_quota_that_does_not_bind_the_pod_says_nothing():
    quota = limited(0, scopes=[ScopeName.TERMINATING])

    assert isinstance(rules().verdict(review(BIG), [quota]), Allow)
    short = {**BIG, "spec": {**BIG["spec"], "activeDeadlineSeconds": 5}}
    assert isinstance(rules().verdict(review(short), [quota]), Deny)


def test_a_percentage_may_fit_any_quota_but_an_empty_one():
    half = pod(container(gpu=1, limits={"nvidia.com/gpumem-percentage": "50"}))

    assert isinstance(rules().verdict(review(half), [limited(1)]), Allow)
    assert "at least 1 MiB" in rules().verdict(review(half), [limited(0)]).message


def test_a_pod_that_asks_in_its_init_container_alone_is_held_to_the_quota():
    item = pod(container(), init=[container("prep", gpu=1, limits={"nvidia.com/gpumem": "2000"})])

    assert isinstance(rules().verdict(review(item), [limited(1_999)]), Deny)


@pytest.mark.parametrize(
    ("asked", "settings", "asks"),
    [
        (review(BIG), {}, True),
        (review(BIG), {"over_quota": Policy.ALLOW}, False),
        (review(pod(container())), {}, False),
        (review(BIG, operation="UPDATE"), {}, False),
        (review(None), {}, False),
        (review({"spec": {"containers": 5}}), {}, False),
    ],
)
def test_quotas_are_asked_for_where_they_matter(asked, settings, asks):
    assert rules(**settings).asks_for_quotas(asked) is asks


def test_no_refusal_has_a_full_stop_before_its_brackets():
    wrong = {"nvidia.com/gpumem": "3Ki", "nvidia.com/gpucores": "200"}
    item = pod(container("main", gpu=1, limits=wrong), container("x", gpu=1, limits=wrong))

    message = rules().verdict(review(item)).message

    assert message.count("container 'main'") == message.count("container 'x'") == 2
    assert ". container 'x'" in message
    assert ". (" not in message
    assert ".." not in message


# Whatever is sent: whoever reaches the webhook's port may send anything.


TERM = {"namespaces": ["a"], "namespaceSelector": {}}
RICH = pod(
    container(
        gpu=1, limits={"nvidia.com/gpumem": "1"}, env=[{"name": "GPU_CORE_UTILIZATION_POLICY"}]
    ),
    init=[container("prep", gpu=1, securityContext={"privileged": False})],
    annotations={
        names.POD_ALLOCATION: "x",
        names.USE_MODEL: "A100",
        names.DEVICE_POLICY: "binpack",
        names.CORE_MODE: "lend",
        names.CORE_WEIGHT: "5",
        names.NUMA_BIND: "true",
        names.LOAD_WEIGHTS: "slot=1",
        names.NODE_WEIGHTS: "slot=1,cpu=1",
    },
    labels={names.WEBHOOK_LABEL: "no"},
    resources={"limits": {"cpu": "1"}},
    overhead={"cpu": "1"},
    priorityClassName="high",
    affinity={
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": TERM}],
        }
    },
)


def places(value, place=()):
    yield place
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*place, key))


@given(place=st.sampled_from([place for place in places(RICH) if place]), value=json_values)
def test_a_pod_with_anything_in_any_place_is_judged(place, value):
    item = copy.deepcopy(RICH)
    parent = item
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value

    asked = review(item)

    assert isinstance(rules().verdict(asked), Allow | Deny)
    assert isinstance(Rules(spells_out=True).verdict(asked), Allow | Deny)
    assert rules().asks_for_quotas(asked) in (True, False)
