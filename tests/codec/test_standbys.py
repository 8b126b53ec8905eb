import pytest

from hamid.codec.lease import format_micro_time
from hamid.codec.standbys import (
    decode_served,
    decode_standbys,
    encode_candidate,
    encode_served,
    encode_standbys,
    parse_micro_time,
)
from hamid.errors import AnnotationError
from hamid.model.names import LEASE_CANDIDATE, LEASE_CERTIFICATE, LEASE_STANDBYS

LEASE = {
    "metadata": {"name": "l", "annotations": {"other": "kept"}},
    "spec": {"holderIdentity": "a"},
}


def test_standbys_are_read_as_written_and_nothing_else_changes():
    lease = encode_standbys(("b", "c,d"), base=LEASE)

    assert decode_standbys(lease) == ("b", "c,d")
    assert lease["spec"] == LEASE["spec"]
    assert lease["metadata"]["annotations"]["other"] == "kept"
    assert LEASE["metadata"]["annotations"] == {"other": "kept"}


def test_no_standbys_means_no_annotation():
    lease = encode_standbys((), base=encode_standbys(("b",), base=LEASE))

    assert lease == LEASE
    assert decode_standbys({}) == ()


@pytest.mark.parametrize("text", ["b,c", "{}", "[1]", '[""]'])
def test_an_annotation_that_is_no_list_of_names_is_refused(text):
    lease = {"metadata": {"annotations": {LEASE_STANDBYS: text}}}

    with pytest.raises(AnnotationError, match=LEASE_STANDBYS):
        decode_standbys(lease)


def test_what_the_leader_serves_with_is_read_as_written_and_nothing_else_changes():
    lease = encode_served("12ab", base=encode_standbys(("b",), base=LEASE))

    assert decode_served(lease) == "12ab"
    assert decode_standbys(lease) == ("b",)
    assert lease["spec"] == LEASE["spec"]
    assert lease["metadata"]["annotations"]["other"] == "kept"
    assert LEASE["metadata"]["annotations"] == {"other": "kept"}


def test_nothing_is_said_of_what_nobody_serves_with():
    assert encode_served("", base=encode_served("12ab", base=LEASE)) == LEASE
    assert decode_served(LEASE) == decode_served({}) == ""
    assert decode_served({"metadata": {"annotations": {LEASE_CERTIFICATE: 5}}}) == ""


def test_a_micro_time_is_read_as_written():
    assert parse_micro_time(format_micro_time(1_800_000_000.25)) == 1_800_000_000.25
    assert parse_micro_time("2026-11-30T07:12:44Z") == parse_micro_time(
        "2026-11-30T08:12:44.000000+01:00"
    )
    assert parse_micro_time("yesterday") is None
    assert parse_micro_time("") is None


def test_only_a_candidate_labels_the_lease_and_other_labels_stay():
    lease = {"metadata": {"labels": {"a": "b"}}}

    wanted = encode_candidate(is_candidate=True, base=lease)

    assert wanted["metadata"]["labels"] == {"a": "b", LEASE_CANDIDATE: ""}
    assert encode_candidate(is_candidate=False, base=wanted) == lease
