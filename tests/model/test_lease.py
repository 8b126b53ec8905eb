import pytest

from hamid.errors import SettingsError
from hamid.model.lease import LeaseRecord, LeaseStep, LeaseTerms, Observation, next_step, observe


def record(holder="other", renewed_at="t0", **fields):
    return LeaseRecord(
        holder_identity=holder,
        lease_duration_s=fields.get("lease_duration_s", 15.0),
        renewed_at=renewed_at,
        transitions=0,
    )


@pytest.mark.parametrize(
    ("seen", "now_s", "step"),
    [
        pytest.param(None, 0, LeaseStep.CREATE, id="no lease exists"),
        pytest.param(record("me"), 0, LeaseStep.RENEW, id="we hold it"),
        pytest.param(record("me"), 99, LeaseStep.RENEW, id="we hold it, though it has expired"),
        pytest.param(record(""), 0, LeaseStep.ACQUIRE, id="it was released"),
        pytest.param(record(), 14.9, LeaseStep.WAIT, id="another holds it"),
        pytest.param(record(), 15, LeaseStep.ACQUIRE, id="another's has expired"),
        pytest.param(record("me-too"), 0, LeaseStep.WAIT, id="our name is only a part of theirs"),
        pytest.param(
            record(lease_duration_s=60.0), 15, LeaseStep.WAIT, id="their duration counts, not ours"
        ),
    ],
)
def test_the_next_step_about_the_lease(seen, now_s, step):
    observation = Observation(record=seen, observed_at_s=0)

    assert next_step(observation, identity="me", now_s=now_s) is step


def test_an_unchanged_record_keeps_the_time_when_it_was_first_seen():
    first = observe(None, record(), now_s=1)

    assert observe(first, record(), now_s=9) is first


def test_a_renewed_record_counts_from_now():
    first = observe(None, record(renewed_at="t0"), now_s=1)

    again = observe(first, record(renewed_at="t1"), now_s=9)

    assert again == Observation(record=record(renewed_at="t1"), observed_at_s=9)


def test_a_lease_that_vanished_counts_from_now():
    first = observe(None, record(), now_s=1)

    assert observe(first, None, now_s=9) == Observation(record=None, observed_at_s=9)


def test_the_default_terms_are_sound():
    terms = LeaseTerms()

    assert terms.lease_duration_s > terms.renew_deadline_s > terms.retry_period_s


def test_a_lease_must_outlast_the_renew_deadline():
    with pytest.raises(SettingsError, match=r"lease_duration_s .* must exceed"):
        LeaseTerms(lease_duration_s=10.0, renew_deadline_s=10.0)


def test_the_renew_deadline_must_leave_time_for_two_tries():
    with pytest.raises(SettingsError, match=r"renew_deadline_s .* must exceed"):
        LeaseTerms(renew_deadline_s=2.4, retry_period_s=2.0)
