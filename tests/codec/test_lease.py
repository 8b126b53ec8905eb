from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.lease import decode_lease, encode_lease, format_micro_time
from hamid.errors import WireError
from hamid.model.lease import LeaseRecord
from tests.codec.golden_files import golden_json
from tests.codec.strategies import objects_with

HELD = LeaseRecord(
    holder_identity="node-1_7c2f",
    lease_duration_s=15.0,
    renewed_at="2026-11-30T07:12:44.250000Z",
    transitions=3,
)


def test_a_held_lease_is_read():
    assert decode_lease(golden_json("lease/held.json")) == HELD


def test_an_unchanged_record_writes_the_object_as_it_was():
    lease = golden_json("lease/held.json")

    assert encode_lease(HELD, base=lease) == lease


def test_a_renewal_changes_the_time_only_and_leaves_the_base_alone():
    lease = golden_json("lease/held.json")

    written = encode_lease(replace(HELD, renewed_at="2026-11-30T07:12:46.250000Z"), base=lease)

    assert lease == golden_json("lease/held.json")
    assert written["spec"] == lease["spec"] | {"renewTime": "2026-11-30T07:12:46.250000Z"}
    assert written["metadata"] == lease["metadata"]


def test_a_new_holder_has_acquired_it_when_it_was_renewed():
    taken = replace(
        HELD, holder_identity="node-2", renewed_at="2026-11-30T07:13:00.000000Z", transitions=4
    )

    spec = encode_lease(taken, base=golden_json("lease/held.json"))["spec"]

    assert spec["acquireTime"] == "2026-11-30T07:13:00.000000Z"
    assert spec["leaseTransitions"] == 4
    assert spec["strategy"] == "OldestEmulationVersion"


def test_a_released_lease_lasts_one_second_for_zero_is_not_allowed():
    released = replace(HELD, holder_identity="", lease_duration_s=0.0)

    spec = encode_lease(released, base=golden_json("lease/held.json"))["spec"]

    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)


def test_part_of_a_second_counts_as_a_whole_one():
    record = replace(HELD, lease_duration_s=1.5)

    assert encode_lease(record, base={})["spec"]["leaseDurationSeconds"] == 2


@pytest.mark.parametrize("lease", [{}, {"spec": None}, {"spec": {"holderIdentity": None}}])
def test_a_lease_that_says_nothing_is_held_by_nobody(lease):
    assert decode_lease(lease) == LeaseRecord(
        holder_identity="", lease_duration_s=0.0, renewed_at="", transitions=0
    )


@given(
    st.builds(
        LeaseRecord,
        holder_identity=st.text(max_size=10),
        lease_duration_s=st.integers(1, 1_000).map(float),
        renewed_at=st.floats(0, 2**32).map(format_micro_time),
        transitions=st.integers(0, 1_000),
    )
)
def test_a_record_survives_writing_and_reading(record):
    assert decode_lease(encode_lease(record, base={})) == record


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([], "spec is a list"),
        ({"holderIdentity": 1}, "spec.holderIdentity is a number"),
        ({"leaseDurationSeconds": "15"}, "spec.leaseDurationSeconds is a string"),
        ({"leaseDurationSeconds": -1}, "spec.leaseDurationSeconds is -1"),
        ({"leaseTransitions": 1.5}, "spec.leaseTransitions is a number"),
        ({"renewTime": {}}, "spec.renewTime is an object"),
    ],
)
def test_a_malformed_lease_is_refused_with_the_reason(spec, message):
    with pytest.raises(WireError, match=f"the Lease cannot be read: {message}"):
        decode_lease({"spec": spec})


def test_a_record_is_not_written_over_what_cannot_be_read():
    with pytest.raises(WireError):
        encode_lease(HELD, base={"spec": []})


@pytest.mark.slow
@given(objects_with("spec", "holderIdentity", "leaseDurationSeconds", "renewTime"))
def test_any_object_is_read_or_refused(lease):
    with suppress(WireError):
        decode_lease(lease)


@pytest.mark.parametrize(
    ("at_s", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1796022764.25, "2026-11-30T07:12:44.250000Z"),
    ],
)
def test_a_time_has_six_digits_after_the_point(at_s, text):
    assert format_micro_time(at_s) == text
