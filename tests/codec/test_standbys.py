import pytest

from hamid.codec.lease import format_micro_time
from hamid.codec.standbys import decode_standbys, encode_standbys, parse_micro_time
from hamid.errors import AnnotationError
from hamid.model.names import LEASE_STANDBYS

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


def test_a_micro_time_is_read_as_written():
    assert parse_micro_time(format_micro_time(1_800_000_000.25)) == 1_800_000_000.25
    assert parse_micro_time("2026-11-30T07:12:44Z") == parse_micro_time(
        "2026-11-30T08:12:44.000000+01:00"
    )
    assert parse_micro_time("yesterday") is None
    assert parse_micro_time("") is None
