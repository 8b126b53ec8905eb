import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.admission import limits_patch
from hamid.codec.pod_request import asked_resources, decode_pod_request, required_limits
from hamid.errors import RequestError
from hamid.model.names import ResourceNames
from hamid.model.quantities import MAX_DEVICE_COUNT, MemoryMib, MemoryPercent
from hamid.model.request import ContainerKind, DeviceSelection, LoadWeights, RequestDefaults
from tests.builders import container_object, pod_object
from tests.codec.golden_files import golden_json
from tests.codec.strategies import objects_with

NAMES = ResourceNames()
DEFAULTS = RequestDefaults()

ABSENT = None
WHOLE = MemoryPercent(percent=100)


def decode(pod, names=NAMES, defaults=DEFAULTS):
    return decode_pod_request(pod, names=names, defaults=defaults)


def decode_limits(limits, defaults=DEFAULTS):
    """The request of a container with these limits, or None."""
    pod = decode(pod_object(container_object("train", limits)), defaults=defaults)
    return None if pod is None else pod.requests[0]


def refusal(pod, **settings):
    """The sentences with which the pod is refused."""
    with pytest.raises(RequestError) as caught:
        decode(pod, **settings)
    return caught.value.message


def refusal_of(limits, defaults=DEFAULTS):
    """The sentences with which a pod whose container has these limits is refused."""
    return refusal(pod_object(container_object("train", limits)), defaults=defaults)


# --- the table of defaults (field report 1863) --------------------------------------------------


def amounts(gpu, mem, percent, cores):
    given = {"gpu": gpu, "gpumem": mem, "gpumem-percentage": percent, "gpucores": cores}
    return {key: value for key, value in given.items() if value is not ABSENT}


MATRIX = [
    # count, MiB, percentage, cores → what is booked; None is no request
    ((ABSENT, ABSENT, ABSENT, ABSENT), None),
    ((ABSENT, ABSENT, ABSENT, 50), (1, WHOLE, 50)),
    ((ABSENT, ABSENT, 50, ABSENT), (1, MemoryPercent(percent=50), 0)),
    ((ABSENT, ABSENT, 50, 50), (1, MemoryPercent(percent=50), 50)),
    ((ABSENT, ABSENT, 100, ABSENT), (1, WHOLE, 100)),
    ((ABSENT, ABSENT, 100, 50), (1, WHOLE, 50)),
    ((ABSENT, 20480, ABSENT, ABSENT), (1, MemoryMib(mib=20480), 0)),
    ((ABSENT, 20480, ABSENT, 50), (1, MemoryMib(mib=20480), 50)),
    ((ABSENT, 20480, 50, ABSENT), (1, MemoryMib(mib=20480), 0)),
    ((ABSENT, 20480, 50, 50), (1, MemoryMib(mib=20480), 50)),
    ((ABSENT, 20480, 100, ABSENT), (1, MemoryMib(mib=20480), 0)),
    ((ABSENT, 20480, 100, 50), (1, MemoryMib(mib=20480), 50)),
    ((1, ABSENT, ABSENT, ABSENT), (1, WHOLE, 100)),
    ((1, ABSENT, ABSENT, 50), (1, WHOLE, 50)),
    ((1, ABSENT, 50, ABSENT), (1, MemoryPercent(percent=50), 0)),
    ((1, ABSENT, 50, 50), (1, MemoryPercent(percent=50), 50)),
    ((1, ABSENT, 100, ABSENT), (1, WHOLE, 100)),
    ((1, ABSENT, 100, 50), (1, WHOLE, 50)),
    ((1, 20480, ABSENT, ABSENT), (1, MemoryMib(mib=20480), 0)),
    ((1, 20480, ABSENT, 50), (1, MemoryMib(mib=20480), 50)),
    ((1, 20480, 50, ABSENT), (1, MemoryMib(mib=20480), 0)),
    ((1, 20480, 50, 50), (1, MemoryMib(mib=20480), 50)),
    ((1, 20480, 100, ABSENT), (1, MemoryMib(mib=20480), 0)),
    ((1, 20480, 100, 50), (1, MemoryMib(mib=20480), 50)),
]


def test_the_matrix_has_all_combinations():
    combinations = itertools.product((ABSENT, 1), (ABSENT, 20480), (ABSENT, 50, 100), (ABSENT, 50))

    assert [given for given, _ in MATRIX] == list(combinations)


@pytest.mark.parametrize("sections", [("limits",), ("requests",), ("limits", "requests")])
@pytest.mark.parametrize(("given", "booked"), MATRIX)
def test_each_combination_of_amounts_means_what_the_table_says(given, booked, sections):
    container = container_object("train", **dict.fromkeys(sections, amounts(*given)))

    pod = decode(pod_object(container))

    found = pod and [(r.device_count, r.memory, r.core_percent) for r in pod.requests]
    assert found == (booked and [booked])


@pytest.mark.parametrize("given", [given for given, booked in MATRIX if booked])
def test_limits_and_requests_that_differ_are_refused(given):
    limits = amounts(*given)
    requests = {key: value - 1 or 2 for key, value in limits.items()}

    message = refusal(pod_object(container_object("train", limits, requests=requests)))

    for key, value in limits.items():
        assert f"nvidia.com/{key} is '{value}' in limits but '{requests[key]}' in req" in message


def test_the_same_amount_in_other_words_is_no_difference():
    container = container_object("train", {"gpu": "1"}, requests={"gpu": "1000m"})

    assert decode(pod_object(container)).requests[0].device_count == 1


def test_an_amount_may_stand_in_limits_and_another_in_requests():
    container = container_object("train", {"gpu": 1}, requests={"gpumem": 3000})

    assert decode(pod_object(container)).requests[0].memory == MemoryMib(mib=3000)


def test_the_operators_defaults_fill_what_is_absent():
    defaults = RequestDefaults(device_count=2, memory_mib=4000, core_percent=20)

    asked = decode_limits({"gpumem": 3000}, defaults)
    silent = decode_limits({"gpu": 1}, defaults)

    assert (asked.device_count, asked.memory, asked.core_percent) == (2, MemoryMib(mib=3000), 20)
    assert (silent.memory, silent.core_percent) == (MemoryMib(mib=4000), 20)


def test_memory_without_a_count_is_refused_where_the_default_count_is_zero():
    message = refusal_of({"gpumem": 3000, "gpucores": 10}, RequestDefaults(device_count=0))

    assert message == (
        "container 'train': sets nvidia.com/gpumem and nvidia.com/gpucores but no number of "
        f"devices; set nvidia.com/gpu, 1 to {MAX_DEVICE_COUNT}"
    )


# --- odd amounts (field report 2336) ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mib"), [("16Gi", 16384), ("16.0Gi", 16384), ("4k", 4000), ("3000", 3000)]
)
def test_memory_is_converted_exactly(text, mib):
    assert decode_limits({"gpu": 1, "gpumem": text}).memory == MemoryMib(mib=mib)


@pytest.mark.parametrize("text", ["1500m", "-1", "0", "999999999999", "3Ki", "", "big"])
def test_memory_that_cannot_be_is_refused_naming_container_field_value_and_what_is_allowed(text):
    message = refusal_of({"gpu": 1, "gpumem": text})

    assert message.startswith(f"container 'train': nvidia.com/gpumem: {text!r} is ")
    assert message.endswith("; allowed are 1 to 16777216 MiB, such as 3000 or 16Gi")


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("gpumem-percentage", "0", "1 to 100"),
        ("gpumem-percentage", "101", "1 to 100"),
        ("gpumem-percentage", "-5", "1 to 100"),
        ("gpumem-percentage", "33.3", "1 to 100"),
        ("gpucores", "150", "0 to 100"),
        ("gpucores", "-1", "0 to 100"),
        ("gpu", "1.5", f"0 to {MAX_DEVICE_COUNT}"),
        ("gpu", "-1", f"0 to {MAX_DEVICE_COUNT}"),
        ("gpu", str(MAX_DEVICE_COUNT + 1), f"0 to {MAX_DEVICE_COUNT}"),
        ("gpu", "one", f"0 to {MAX_DEVICE_COUNT}"),
        ("priority", "2", "0 to 1"),
    ],
)
def test_other_amounts_that_cannot_be_are_refused_likewise(key, text, allowed):
    message = refusal_of({"gpu": 1} | {key: text})

    assert message.startswith(f"container 'train': nvidia.com/{key}: {text!r} is ")
    assert message.endswith(f"; allowed are whole numbers from {allowed}")


@pytest.mark.parametrize("percent", [1, 33, 100])
def test_percentages_within_bounds_are_taken(percent):
    asked = decode_limits({"gpu": 1, "gpumem-percentage": percent})

    assert asked.memory == MemoryPercent(percent=percent)


@pytest.mark.parametrize("cores", [0, 100])
def test_cores_within_bounds_are_taken(cores):
    assert decode_limits({"gpu": 1, "gpucores": cores}).core_percent == cores


@pytest.mark.parametrize(("limits", "priority"), [({}, None), ({"priority": 0}, 0)])
def test_a_priority_is_what_was_said(limits, priority):
    assert decode_limits({"gpu": 1} | limits).priority == priority


def test_numbers_are_taken_as_json_has_them():
    container = {
        "name": "c",
        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3e3}},
    }

    assert decode(pod_object(container)).requests[0].memory == MemoryMib(mib=3000)


@pytest.mark.parametrize(
    ("value", "found"), [(True, "a boolean"), ([], "a list"), ({"a": 1}, "an object")]
)
def test_what_is_no_amount_at_all_is_refused(value, found):
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": value}}}

    assert f"nvidia.com/gpu: {found} is no quantity" in refusal(pod_object(container))


def test_an_amount_of_null_is_absent():
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": None}}}

    assert decode(pod_object(container)) is None


def test_a_request_that_is_no_amount_differs_from_any_limit():
    container = container_object("c", {"gpu": 1}, requests={"gpu": "one"})

    assert "is '1' in limits but 'one' in requests" in refusal(pod_object(container))


def test_a_count_of_zero_alone_asks_for_nothing():
    assert decode_limits({"gpu": 0}) is None
    assert decode_limits({"gpu": 0}, RequestDefaults(device_count=0)) is None


@pytest.mark.parametrize(
    "others", [{"gpumem": 1}, {"gpumem-percentage": 1}, {"gpucores": 0}, {"priority": 0}]
)
def test_a_count_of_zero_with_anything_else_contradicts_itself(others):
    (key,) = others

    message = refusal_of({"gpu": 0} | others)

    assert message == (
        f"container 'train': asks for 0 nvidia.com/gpu, but sets nvidia.com/{key}; "
        f"leave these out, or ask for 1 to {MAX_DEVICE_COUNT} nvidia.com/gpu"
    )


def test_a_priority_alone_is_refused():
    assert refusal_of({"priority": 1}) == (
        "container 'train': sets nvidia.com/priority but asks for no device; set nvidia.com/gpu too"
    )


def test_all_problems_of_a_pod_are_said_at_once():
    message = refusal(
        pod_object(
            container_object("a", {"gpu": "1.5", "gpumem": "0"}),
            container_object("b", {"gpu": 1, "gpucores": 150}),
            container_object("c", {"gpu": 1}),
            annotations={"hami.io/node-scheduler-policy": "best", "nvidia.com/vgpu-mode": "warp"},
        )
    )

    for start in (
        "container 'a': nvidia.com/gpu:",
        "container 'a': nvidia.com/gpumem:",
        "container 'b': nvidia.com/gpucores:",
        "annotation hami.io/node-scheduler-policy:",
        "annotation nvidia.com/vgpu-mode:",
    ):
        assert message.count(start) == 1
    assert message.count(". ") == 4
    assert "container 'c'" not in message


# --- whose requests (field reports 2558, 991, 654) ----------------------------------------------


def test_a_pod_that_names_no_resource_of_ours_asks_for_nothing():
    pod = pod_object(container_object("web", {"cpu": 1}), annotations={"nvidia.com/vgpu-mode": "x"})

    assert decode(pod) is None
    assert not asked_resources(pod, NAMES)


def test_init_sidecar_and_app_containers_ask_alike():
    pod = decode(
        pod_object(
            container_object("web"),
            container_object("train", {"gpu": 1, "gpumem": 3}),
            init_containers=[
                container_object("prepare", {"gpu": 1, "gpumem": 1}),
                container_object("proxy", requests={"gpumem": 2}, restartPolicy="Always"),
            ],
        )
    )

    assert pod.container_names == ("prepare", "proxy", "web", "train")
    assert [(r.container_name, r.kind, r.memory.mib) for r in pod.requests] == [
        ("prepare", ContainerKind.INIT, 1),
        ("proxy", ContainerKind.SIDECAR, 2),
        ("train", ContainerKind.APP, 3),
    ]


def test_an_ephemeral_container_that_asks_is_refused():
    pod = pod_object(
        container_object("web"), ephemeralContainers=[container_object("debug", {"gpu": 1})]
    )

    assert asked_resources(pod, NAMES)
    assert refusal(pod) == (
        "container 'debug': is an ephemeral container; only init and app containers get devices"
    )


def test_an_ephemeral_container_that_does_not_ask_is_none_of_our_business():
    pod = decode(pod_object(ephemeralContainers=[container_object("debug")]))

    assert pod.container_names == ("train",)


def test_a_container_that_was_inserted_before_ours_changes_nothing_but_the_names():
    before = decode(pod_object(container_object("app", {"gpu": 1})))
    after = decode(pod_object(container_object("proxy"), container_object("app", {"gpu": 1})))

    assert after.requests == before.requests
    assert after.container_names == ("proxy", "app")


def test_the_pod_is_named_with_its_uid():
    pod = decode(pod_object(uid="u", namespace="s", name="n"))

    assert (pod.pod_uid, pod.pod_key) == ("u", "s/n")


def test_a_recorded_pod_of_the_scheduler_asks_for_a_whole_card():
    pod = decode(golden_json("extender/filter-names.json")["Pod"])

    assert pod.pod_key == "default/xtrue-0"
    assert [(r.device_count, r.memory, r.core_percent) for r in pod.requests] == [(1, WHOLE, 100)]


def test_renamed_resources_are_the_ones_that_count():
    names = ResourceNames(count="example.com/vgpu", memory="example.com/vmem")
    pod = pod_object(container_object("a", {"example.com/vgpu": 2, "example.com/vmem": 3000}))

    (request,) = decode(pod, names=names).requests

    assert (request.device_count, request.memory) == (2, MemoryMib(mib=3000))
    assert decode(pod_object(container_object("a", {"gpu": 1})), names=names) is None


# --- wishes by annotation -----------------------------------------------------------------------


def wishes(**annotations):
    keys = {
        "node": "hami.io/node-scheduler-policy",
        "device": "hami.io/gpu-scheduler-policy",
        "mode": "nvidia.com/vgpu-mode",
        "use": "nvidia.com/use-gputype",
        "avoid": "nvidia.com/nouse-gputype",
        "use_uuid": "nvidia.com/use-gpuuuid",
        "avoid_uuid": "nvidia.com/nouse-gpuuuid",
    }
    return pod_object(annotations={keys.get(key, key): value for key, value in annotations.items()})


@pytest.mark.parametrize(
    ("annotations", "modes"),
    [
        ({"nvidia.com/vgpu-mode": "mig"}, ("mig",)),
        ({"hami.io/vgpu-mode": "mig"}, ("mig",)),
        ({"hami.io/vgpu-mode": "mps", "nvidia.com/vgpu-mode": "mig"}, ("mig",)),
    ],
)
def test_modes_are_asked_for_by_either_name(annotations, modes):
    assert decode(wishes(**annotations)).allowed_modes == modes


def test_no_wish_leaves_everything_to_the_cluster():
    pod = decode(wishes())

    assert pod.selection == DeviceSelection()
    assert (pod.node_policies, pod.device_policies, pod.allowed_modes) == ((), (), ())


@pytest.mark.parametrize(
    "key",
    [
        "nvidia.com/use-gputype",
        "nvidia.com/nouse-gputype",
        "nvidia.com/use-gpuuuid",
        "nvidia.com/nouse-gpuuuid",
        "hamid.io/use-gpuindex",
        "hami.io/node-scheduler-policy",
        "hami.io/gpu-scheduler-policy",
        "hami.io/device-scoring-weights",
        "hamid.io/node-scoring-weights",
    ],
)
def test_a_list_of_more_entries_than_anybody_needs_is_refused(key):
    text = ",".join(f"A{n}" for n in range(257))

    assert refusal(wishes(**{key: text})) == (f"annotation {key} has 257 entries; allowed are 256")


def test_a_pod_whose_annotations_leave_no_room_for_the_decision_is_refused():
    pod = pod_object(container_object("train", {"gpu": 1}), annotations={"a": "x" * 262_000})

    assert "what is decided about it may take" in refusal(pod)


def test_a_pod_of_which_too_many_containers_ask_is_refused():
    asking = [container_object(f"c{n}", {"gpu": 1}) for n in range(257)]

    assert refusal(pod_object(*asking)) == "257 containers ask for devices; allowed are 256"


def test_lists_of_models_and_uuids_are_trimmed_and_empty_entries_do_not_count():
    pod = decode(wishes(use=" A100 ,, V100,", avoid="T4", use_uuid="GPU-a, GPU-b", avoid_uuid=","))

    assert pod.selection == DeviceSelection(
        use_models=("A100", "V100"),
        avoid_models=("T4",),
        use_uuids=("GPU-a", "GPU-b"),
        avoid_uuids=(),
    )


def test_a_model_without_a_letter_or_digit_is_refused():
    assert refusal(wishes(use="A100, --")) == (
        "annotation nvidia.com/use-gputype: '--' names no model"
    )


@pytest.mark.parametrize(
    ("text", "policies"),
    [
        ("binpack", ("binpack",)),
        ("spread", ("spread",)),
        (" spread ", ("spread",)),
        ("fragmentation", ("fragmentation",)),
        ("binpack,spread", ("binpack", "spread")),
        ("topology-aware, numa", ("topology-aware", "numa")),
        ("numa,numa", ("numa",)),
        ("", ()),
    ],
)
def test_policies_are_read_in_order(text, policies):
    pod = decode(wishes(node=text, device=text))

    assert (pod.node_policies, pod.device_policies) == (policies, policies)


def test_devices_can_be_asked_for_alone():
    assert decode(wishes(device="mutex,numa")).device_policies == ("mutex", "numa")


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("", LoadWeights()),
        ("slot=1,core=1,memory=3", LoadWeights(memory=3)),
        (" core = 2 ", LoadWeights(slots=0, cores=2, memory=0)),
    ],
)
def test_weights_are_read(text, weights):
    pod = decode(wishes(**{"hami.io/device-scoring-weights": text}))

    assert pod.load_weights == weights


@pytest.mark.parametrize("text", ["slots=1", "slot=-1", "slot", "slot=1.5", "slot=0", "slot=1001"])
@pytest.mark.parametrize("key", ["hami.io/device-scoring-weights", "hamid.io/node-scoring-weights"])
def test_weights_that_make_no_sense_are_refused(key, text):
    assert key in refusal(wishes(**{key: text}))


def test_the_host_has_a_weight_among_nodes_alone():
    nodes, devices = "hamid.io/node-scoring-weights", "hami.io/device-scoring-weights"

    weighed = decode(wishes(**{nodes: "memory=2,cpu=1,host-memory=3"})).node_weights

    assert weighed == LoadWeights(slots=0, memory=2, cores=0, cpu=1, host_memory=3)
    assert refusal(wishes(**{devices: "cpu=1"})) == (
        "annotation hami.io/device-scoring-weights: 'cpu=1' is not one of slot, core and memory, =, "
        "and a whole number from 0 to 1000"
    )


@pytest.mark.parametrize(
    ("text", "is_bound"), [("", False), ("true", True), ("True", True), ("1", True), ("f", False)]
)
def test_a_bind_to_one_numa_node_is_read(text, is_bound):
    assert decode(wishes(**{"nvidia.com/numa-bind": text})).is_numa_bound is is_bound


def test_a_numa_bind_that_is_neither_true_nor_false_is_refused():
    message = refusal(wishes(**{"nvidia.com/numa-bind": "yes"}))

    assert message == "annotation nvidia.com/numa-bind: 'yes' is neither true nor false"


def test_indices_are_read():
    pod = decode(wishes(**{"hamid.io/use-gpuindex": "0, 3"}))

    assert pod.selection.use_indices == (0, 3)


def test_an_index_that_is_no_number_is_refused():
    assert "'-1' is no whole number" in refusal(wishes(**{"hamid.io/use-gpuindex": "1,-1"}))


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (
            "node",
            "best",
            (
                "node-scheduler-policy: 'best' is unknown; allowed are "
                "binpack, spread, fragmentation, mutex, numa, topology-aware"
            ),
        ),
        (
            "device",
            "binpack,Best",
            (
                "gpu-scheduler-policy: 'Best' is unknown; allowed are "
                "binpack, spread, fragmentation, mutex, numa, topology-aware"
            ),
        ),
    ],
)
def test_an_unknown_policy_is_refused_with_what_is_allowed(key, text, message):
    assert refusal(wishes(**{key: text})) == f"annotation hami.io/{message}"


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("", ()),
        (" ", ()),
        ("mig", ("mig",)),
        ("hami-core", ("hami-core",)),
        ("mps,hami-core", ("hami-core", "mps")),
    ],
)
def test_modes_are_those_that_the_text_contains(text, modes):
    assert decode(wishes(mode=text)).allowed_modes == modes


def test_an_unknown_mode_is_refused_with_what_is_allowed():
    assert refusal(wishes(mode="warp")) == (
        "annotation nvidia.com/vgpu-mode: 'warp' names no mode; allowed are hami-core, mig, mps"
    )


def test_a_way_to_share_time_that_there_is_not_is_refused():
    pod = pod_object(
        container_object("web", {"gpu": 1}),
        annotations={"hamid.io/core-mode": "steal", "hamid.io/core-weight": "0"},
    )

    assert refusal(pod) == (
        "annotation hamid.io/core-mode: 'steal' is no way to share; allowed are hard, lend, "
        "priority. annotation hamid.io/core-weight: '0' is not a whole number from 1 to 1000"
    )


# --- what the webhook must write ----------------------------------------------------------------


def fixes(pod, defaults=DEFAULTS):
    return [
        (f.list_name, f.index, f.container_name, f.section, f.resource, f.value)
        for f in required_limits(pod, NAMES, defaults)
    ]


def test_a_pod_that_says_all_plainly_is_left_alone():
    same = {"gpu": 1, "gpumem": 3000}

    assert fixes(pod_object(container_object("a", same, requests=same))) == []
    assert fixes(pod_object(container_object("a", {"cpu": 1}))) == []


def test_the_same_amount_in_other_words_is_left_alone():
    assert fixes(pod_object(container_object("a", {"gpu": "1"}, requests={"gpu": "1000m"}))) == []


def test_what_stands_in_one_section_only_is_copied_to_the_other():
    pod = pod_object(
        container_object("a", {"gpu": 1}),
        init_containers=[container_object("i"), container_object("j", requests={"gpu": 2})],
    )

    assert fixes(pod) == [
        ("initContainers", 1, "j", "limits", "nvidia.com/gpu", "2"),
        ("containers", 0, "a", "requests", "nvidia.com/gpu", "1"),
    ]


def test_a_count_that_is_missing_is_written_to_both():
    same = {"gpumem": "16Gi"}
    pod = pod_object(container_object("a", same, requests=same))

    assert fixes(pod, RequestDefaults(device_count=2)) == [
        ("containers", 0, "a", "limits", "nvidia.com/gpu", "2"),
        ("containers", 0, "a", "requests", "nvidia.com/gpu", "2"),
    ]


def test_no_count_is_made_up_where_the_default_is_zero():
    same = {"gpucores": 10}
    pod = pod_object(container_object("a", same, requests=same))

    assert fixes(pod, RequestDefaults(device_count=0)) == []


def test_ephemeral_containers_are_not_written_to():
    pod = pod_object(container_object("a"), ephemeralContainers=[container_object("d", {"gpu": 1})])

    assert fixes(pod) == []


def apply(pod, patch):
    """The pod with the patch applied, as far as `add` to objects goes."""
    for op in patch:
        *path, key = [p.replace("~1", "/").replace("~0", "~") for p in op.path.split("/")[1:]]
        node = pod
        for part in path:
            node = node[int(part)] if isinstance(node, list) else node[part]
        node[key] = op.value
    return pod


sections = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "gpu": st.integers(0, 3),
        "gpumem": st.sampled_from(["3000", "16Gi", "4k"]),
        "gpumem-percentage": st.integers(1, 100),
        "gpucores": st.integers(0, 100),
        "priority": st.integers(0, 1),
        "cpu": st.just("1"),
    },
)
container_objects = st.builds(
    container_object, st.sampled_from(["a", "b"]), sections, requests=sections
)


@pytest.mark.slow
@given(st.lists(container_objects, min_size=1, max_size=3), st.lists(container_objects, max_size=2))
def test_after_the_webhook_a_pod_means_the_same_and_needs_nothing_more(apps, inits):
    pod = pod_object(*apps, init_containers=inits)
    try:
        before = decode(pod)
    except RequestError:
        return

    pod = apply(pod, limits_patch(pod, required_limits(pod, NAMES, DEFAULTS)))

    assert decode(pod) == before
    assert required_limits(pod, NAMES, DEFAULTS) == ()
    for request in before.requests if before else ():
        assert request.device_count >= 1


KEYS = ("spec", "metadata", "containers", "initContainers", "name", "resources", "limits")


@pytest.mark.slow
@given(objects_with(*KEYS, "requests", "annotations", "nvidia.com/gpu", "nvidia.com/gpumem"))
def test_any_object_is_read_or_refused(pod):
    with suppress(RequestError):
        asked_resources(pod, NAMES)
    with suppress(RequestError):
        decode(pod)
    with suppress(RequestError):
        required_limits(pod, NAMES, DEFAULTS)


@given(st.dictionaries(st.sampled_from(NAMES.all()), st.text() | st.floats() | st.integers()))
def test_any_amount_is_taken_or_refused_and_never_booked_as_nothing(limits):
    pod = pod_object({"name": "c", "resources": {"limits": limits}})
    try:
        found = decode(pod)
    except RequestError:
        return

    for request in found.requests if found else ():
        assert request.device_count >= 1
        assert request.memory != MemoryMib(mib=0)
        assert 0 <= request.core_percent <= 100
