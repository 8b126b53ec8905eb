from dataclasses import replace

import pytest

from hamid.sched import tls_state as tls
from hamid.sched.certificate_settings import DAY_S, YEAR_S, CertificateSettings
from hamid.web import pki

NOW_S = 1_800_000_000.0
SETTINGS = CertificateSettings(
    server_names=("hamid-webhook.hamid.svc", "hamid-scheduler.hamid.svc")
)


def servers_due(state, *, now_s, settings=SETTINGS):
    return tls.with_servers_due(state, settings=settings, now_s=now_s)


@pytest.fixture(scope="module")
def first():
    """A state with everything in it."""
    state = servers_due(tls.TlsState(), now_s=NOW_S)
    client = tls.make_client(settings=SETTINGS, now_s=NOW_S)
    return tls.with_client_delivered(tls.with_client_announced(state, client, now_s=NOW_S), client)


def test_from_nothing_an_authority_and_a_server_certificate_are_made(first):
    server, authority = first.server, first.authority

    assert pki.names_of(server.certificate_pem) == tuple(sorted(SETTINGS.server_names))
    assert pki.is_issued_by(server.certificate_pem, authority.certificate_pem)
    assert first.server_bundle_pem == authority.certificate_pem
    assert first.successor is None


def test_there_is_nothing_to_serve_with_before_there_is_a_server_and_a_client_authority(first):
    assert tls.TlsState().material is None
    assert replace(first, client_bundle_pem=b"").material is None
    assert first.material.client_ca_pem == first.client_bundle_pem


def test_the_state_is_read_as_written(first):
    values = tls.encode_state(first)

    assert tls.decode_state(values) == first
    assert tls.decode_state({}) == tls.TlsState()
    assert tls.encode_state(tls.TlsState()) == {}


def test_what_is_damaged_counts_as_missing(first):
    other = pki.make_authority("other", now_s=NOW_S, lifetime_s=DAY_S)
    values = tls.encode_state(first) | {
        "tls.key": other.key_pem,
        "authority.crt": b"hello",
        "client.crt": b"",
    }

    state = tls.decode_state(values)

    assert state.server is None
    assert state.authority is None
    assert state.client_pem == b""
    assert state.client_bundle_pem == first.client_bundle_pem


def test_a_state_that_is_right_stays_as_it_is(first):
    assert servers_due(first, now_s=NOW_S + 50 * DAY_S) == replace(first, client_bundle_pem=b"")
    assert servers_due(first, now_s=NOW_S + DAY_S) == first


def test_the_server_certificate_is_replaced_after_two_thirds_of_its_life(first):
    later = servers_due(first, now_s=NOW_S + 61 * DAY_S)

    assert later.server != first.server
    assert later.authority == first.authority
    assert later.server_bundle_pem == first.server_bundle_pem


def test_the_server_certificate_is_replaced_when_its_names_change(first):
    settings = CertificateSettings(server_names=("other.svc",))

    later = servers_due(first, now_s=NOW_S, settings=settings)

    assert pki.names_of(later.server.certificate_pem) == ("other.svc",)


def test_a_successor_is_made_known_long_before_it_signs(first):
    announced = servers_due(first, now_s=NOW_S + 7 * YEAR_S)
    assert announced.authority == first.authority
    assert pki.split(announced.server_bundle_pem) == (
        first.authority.certificate_pem,
        announced.successor.certificate_pem,
    )
    assert pki.is_issued_by(announced.server.certificate_pem, first.authority.certificate_pem)

    handed_over = servers_due(announced, now_s=NOW_S + 8.5 * YEAR_S)
    assert handed_over.authority == announced.successor
    assert handed_over.successor is None
    assert pki.is_issued_by(handed_over.server.certificate_pem, announced.successor.certificate_pem)
    assert first.authority.certificate_pem in handed_over.server_bundle_pem

    settled = servers_due(handed_over, now_s=NOW_S + 10.1 * YEAR_S)
    assert first.authority.certificate_pem not in settled.server_bundle_pem


def test_everything_expired_is_made_anew(first):
    later = servers_due(first, now_s=NOW_S + 30 * YEAR_S)

    assert later.authority != first.authority
    assert later.successor is None
    assert later.server_bundle_pem == later.authority.certificate_pem
    assert later.client_bundle_pem == b""


def test_what_a_clock_that_was_years_ahead_has_made_is_made_anew(first):
    before_s = NOW_S - 3 * YEAR_S

    later = servers_due(first, now_s=before_s)

    for made in (later.authority, later.server):
        assert pki.validity_of(made.certificate_pem).not_before_s < before_s
    assert later.successor is None
    assert tls.is_client_due(later, now_s=before_s)


def test_a_server_certificate_never_outlives_its_authority():
    settings = CertificateSettings(authority_lifetime_s=181 * DAY_S, server_lifetime_s=400 * DAY_S)

    state = servers_due(tls.TlsState(), now_s=NOW_S, settings=settings)

    assert (
        pki.validity_of(state.server.certificate_pem).not_after_s
        == pki.validity_of(state.authority.certificate_pem).not_after_s
    )


def test_a_client_is_due_when_it_is_old_unknown_or_has_not_heard_of_an_authority(first):
    other = tls.make_client(settings=SETTINGS, now_s=NOW_S)

    assert not tls.is_client_due(first, now_s=NOW_S + 19 * DAY_S)
    assert tls.is_client_due(first, now_s=NOW_S + 21 * DAY_S)
    assert tls.is_client_due(replace(first, client_pem=b""), now_s=NOW_S)
    assert tls.is_client_due(replace(first, client_bundle_pem=other.authority_pem), now_s=NOW_S)
    assert tls.is_client_due(replace(first, successor=first.server), now_s=NOW_S)
    assert tls.is_client_due(replace(first, delivered_bundle_pem=b""), now_s=NOW_S)


def test_a_new_client_is_accepted_beside_the_old(first):
    client = tls.make_client(settings=SETTINGS, now_s=NOW_S)

    state = tls.with_client_announced(first, client, now_s=NOW_S)

    assert pki.split(state.client_bundle_pem) == (
        client.authority_pem,
        *pki.split(first.client_bundle_pem),
    )
    assert state.client_pem == first.client_pem


def test_no_key_of_a_client_or_its_authority_is_in_the_secret_that_all_replicas_read(first):
    values = tls.encode_state(first)

    assert {key for key in values if key.endswith(".key")} == {"authority.key", "tls.key"}
