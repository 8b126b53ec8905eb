import pytest

from hamid.codec.quota import decode_payer, decode_quota
from hamid.errors import RequestError
from hamid.model.names import ResourceNames
from hamid.model.quota import Operator, Payer, QuotaResource, ScopeName
from tests.builders import container_object, pod_object

NAMES = ResourceNames()
DURING = "DuringSchedulingIgnoredDuringExecution"


def quota_object(hard, **spec):
    meta = {"name": "cards", "namespace": "team"}
    return {"kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard, **spec}}


def read(hard, **spec):
    return decode_quota(quota_object(hard, **spec), names=NAMES)


def amounts(hard, names=NAMES):
    note = decode_quota(quota_object(hard), names=names)
    return {limit.resource: limit.hard for limit in note.quota.limits} if note.quota else {}


def test_the_three_keys_are_read_with_whose_they_are():
    note = read(
        {"limits.nvidia.com/gpu": "2", "limits.nvidia.com/gpumem": "20k", "pods": "7"}
        | {"limits.nvidia.com/gpucores": 50}
    )

    assert (note.quota.namespace, note.quota.name) == ("team", "cards")
    assert {limit.key: limit.hard for limit in note.quota.limits} == {
        "limits.nvidia.com/gpu": 2,
        "limits.nvidia.com/gpumem": 20_000,
        "limits.nvidia.com/gpucores": 50,
    }
    assert note.remarks == ()


@pytest.mark.parametrize(
    ("text", "mib"),
    [("4096", 4_096), ("32Gi", 32_768), ("1536Mi", 1_536), ("0", 0), ("1Ki", 0), ("2500m", 2)],
)
def test_memory_counts_mib_or_bytes_with_a_binary_suffix(text, mib):
    assert amounts({"limits.nvidia.com/gpumem": text}) == {QuotaResource.MEMORY_MIB: mib}


def test_renamed_resources_have_renamed_keys():
    names = ResourceNames(memory="example.com/vram")

    assert amounts({"limits.example.com/vram": "5"}, names) == {QuotaResource.MEMORY_MIB: 5}
    assert amounts({"limits.nvidia.com/gpumem": "5"}, names) == {}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("nvidia.com/gpumem", "limits nothing"),
        ("limits.nvidia.com/gpumem-percentage", "limits nothing"),
        ("requests.nvidia.com/gpumem", "counted by the API server"),
    ],
)
def test_a_key_that_does_not_do_what_it_seems_to_is_told_of(key, said):
    note = read({key: "5"})

    assert note.quota is None
    assert len(note.remarks) == 1
    assert key in note.remarks[0]
    assert said in note.remarks[0]


def test_a_number_of_cards_by_requests_is_the_api_servers_business():
    assert read({"requests.nvidia.com/gpu": "5"}).remarks == ()


def test_an_amount_that_is_none_limits_nothing_and_is_told_of():
    note = read({"limits.nvidia.com/gpu": "many"})

    assert note.quota is None
    assert "'many'" in note.remarks[0]


def test_scopes_come_from_both_places():
    note = read(
        {"limits.nvidia.com/gpu": 1},
        scopes=["NotTerminating", "PriorityClass"],
        scopeSelector={
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
                {"scopeName": "VolumeAttributesClass", "operator": "Exists"},
            ]
        },
    )

    assert [(s.scope, s.operator, s.values) for s in note.quota.scopes] == [
        (ScopeName.NOT_TERMINATING, Operator.EXISTS, ()),
        (ScopeName.PRIORITY_CLASS, Operator.EXISTS, ()),
        (ScopeName.PRIORITY_CLASS, Operator.IN, ("high",)),
        (None, Operator.EXISTS, ()),
    ]


def payer(**spec):
    pod = pod_object(container_object("main", {"gpu": 1}), namespace="team")
    pod["spec"] |= spec
    return decode_payer(pod)


def test_a_plain_pod_is_of_no_scope_but_best_effort():
    assert payer() == Payer(namespace="team", is_best_effort=True)


def test_a_pod_that_is_yet_to_be_created_has_the_namespace_of_the_review():
    pod = pod_object(container_object("main"))
    del pod["metadata"]["namespace"]

    assert decode_payer(pod, namespace="team").namespace == "team"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"affinity": []}, "spec.affinity is a list"),
        ({"affinity": {"podAffinity": 1}}, "spec.affinity.podAffinity is a number"),
        (
            {"affinity": {"podAffinity": {f"required{DURING}": {"a": 1}}}},
            f"spec.affinity.podAffinity.required{DURING} is an object, not a list",
        ),
        (
            {"affinity": {"podAffinity": {f"preferred{DURING}": ["x"]}}},
            "a term of spec.affinity.podAffinity is a string",
        ),
        ({"resources": "x"}, "spec.resources is a string"),
        ({"priorityClassName": 1}, "spec.priorityClassName is a number"),
    ],
)
def test_a_pod_that_cannot_be_read_is_its_authors_error(spec, said):
    with pytest.raises(RequestError, match=said):
        payer(**spec)


def test_what_a_pod_says_for_scopes_is_read():
    found = payer(activeDeadlineSeconds=5, priorityClassName="high")

    assert found.is_terminating
    assert found.priority_class == "high"


@pytest.mark.parametrize(
    ("spec", "is_best_effort"),
    [
        ({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1m"}}}]}, False),
        ({"containers": [{"name": "a", "resources": {"limits": {"memory": "1Gi"}}}]}, False),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "0"}}}]}, True),
        ({"containers": [{"name": "a"}], "resources": {"requests": {"cpu": 1}}}, False),
        (
            {
                "containers": [{"name": "a"}],
                "initContainers": [{"name": "i", "resources": {"requests": {"memory": "1"}}}],
            },
            False,
        ),
    ],
)
def test_best_effort_asks_for_no_host_resources(spec, is_best_effort):
    assert payer(**spec).is_best_effort is is_best_effort


TERM = {"topologyKey": "zone", "labelSelector": {}}


@pytest.mark.parametrize(
    ("affinity", "is_cross"),
    [
        ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}, False),
        (
            {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {**TERM, "namespaces": ["other"]}
                    ]
                }
            },
            True,
        ),
        (
            {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {**TERM, "namespaceSelector": {}}}
                    ]
                }
            },
            True,
        ),
    ],
)
def test_an_affinity_may_speak_of_other_namespaces(affinity, is_cross):
    assert payer(affinity=affinity).is_cross_namespace is is_cross


def test_an_amount_that_cannot_be_read_is_none_of_it():
    assert payer(resources={"requests": {"cpu": "many"}}).is_best_effort
