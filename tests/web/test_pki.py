import pytest

from hamid.web.errors import CertificateError
from hamid.web.pki import (
    BACKDATED_S,
    DAY_S,
    Credential,
    bundle,
    is_due_for_rotation,
    is_issued_by,
    issue_client,
    issue_server,
    key_matches,
    make_authority,
    names_of,
    split,
    validity_of,
)

NOW_S = 1_800_000_000.0


@pytest.fixture(scope="module")
def authority():
    return make_authority("test CA", now_s=NOW_S, lifetime_s=30 * DAY_S)


def test_a_server_certificate_is_vouched_for_by_its_authority_and_no_other(authority):
    other = make_authority("test CA", now_s=NOW_S, lifetime_s=DAY_S)

    server = issue_server(authority, names=["a.svc"], now_s=NOW_S, lifetime_s=DAY_S)

    assert is_issued_by(server.certificate_pem, authority.certificate_pem)
    assert not is_issued_by(server.certificate_pem, other.certificate_pem)


def test_a_server_certificate_names_hosts_and_addresses(authority):
    server = issue_server(
        authority, names=["b.svc", "a.svc", "127.0.0.1", "::1"], now_s=NOW_S, lifetime_s=DAY_S
    )

    assert names_of(server.certificate_pem) == ("127.0.0.1", "::1", "a.svc", "b.svc")


def test_a_client_certificate_names_no_host(authority):
    client = issue_client(authority, common_name="kube-scheduler", now_s=NOW_S, lifetime_s=DAY_S)

    assert names_of(client.certificate_pem) == ()


def test_a_service_name_longer_than_a_common_name_is_kept_whole(authority):
    long_name = f"{'a' * 60}.{'b' * 60}.svc"

    server = issue_server(authority, names=[long_name], now_s=NOW_S, lifetime_s=DAY_S)

    assert names_of(server.certificate_pem) == (long_name,)


def test_certificates_are_valid_a_little_before_now_because_clocks_differ(authority):
    validity = validity_of(authority.certificate_pem)

    assert validity.not_before_s == NOW_S - BACKDATED_S
    assert validity.not_after_s == NOW_S + 30 * DAY_S


@pytest.mark.parametrize(
    ("age_share", "is_due"),
    [
        pytest.param(0.0, False, id="a new certificate stays"),
        pytest.param(0.65, False, id="one in its second third stays"),
        pytest.param(0.67, True, id="one in its last third is replaced"),
        pytest.param(2.0, True, id="an expired one is replaced"),
        pytest.param(-0.9 / 30, False, id="one that begins within a day is waited for"),
        pytest.param(-1.1 / 30, True, id="one made by a clock far ahead is replaced"),
    ],
)
def test_rotation_is_due_after_two_thirds_of_a_life(authority, age_share, is_due):
    validity = validity_of(authority.certificate_pem)
    life_s = validity.not_after_s - validity.not_before_s

    found = is_due_for_rotation(
        authority.certificate_pem, now_s=validity.not_before_s + age_share * life_s
    )

    assert found is is_due


def test_a_bundle_keeps_the_order_drops_repeats_and_the_expired(authority):
    old = make_authority("old", now_s=NOW_S - 2 * DAY_S, lifetime_s=DAY_S)
    new = make_authority("new", now_s=NOW_S, lifetime_s=DAY_S)

    made = bundle(
        [
            new.certificate_pem,
            old.certificate_pem + authority.certificate_pem,
            new.certificate_pem,
        ],
        now_s=NOW_S,
    )

    assert made == new.certificate_pem + authority.certificate_pem


def test_a_bundle_is_taken_apart_again(authority):
    other = make_authority("other", now_s=NOW_S, lifetime_s=DAY_S)
    made = bundle([b"", authority.certificate_pem, other.certificate_pem], now_s=NOW_S)

    assert split(made) == (authority.certificate_pem, other.certificate_pem)
    assert bundle([b""], now_s=NOW_S) == b""


def test_a_key_is_known_to_fit_its_certificate_or_not(authority):
    other = make_authority("other", now_s=NOW_S, lifetime_s=DAY_S)

    assert key_matches(authority)
    assert not key_matches(
        Credential(certificate_pem=authority.certificate_pem, key_pem=other.key_pem)
    )
    assert not key_matches(Credential(certificate_pem=authority.certificate_pem, key_pem=b"no"))


def test_a_private_key_is_never_shown(authority):
    assert "PRIVATE" not in repr(authority)


def test_text_that_is_no_certificate_is_refused():
    with pytest.raises(CertificateError, match="no certificate in PEM form"):
        validity_of(b"hello")


def test_a_ca_key_that_is_no_key_is_refused(authority):
    broken = Credential(certificate_pem=authority.certificate_pem, key_pem=b"hello")

    with pytest.raises(CertificateError, match="no private key"):
        issue_client(broken, common_name="x", now_s=NOW_S, lifetime_s=DAY_S)
