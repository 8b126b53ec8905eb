from hamid.errors import HamidError
from hamid.web.errors import CertificateError, Refusal


def test_a_refusal_says_in_which_way_and_keeps_the_connection_unless_told():
    refusal = Refusal("not here", hint="there", status=503)

    assert isinstance(refusal, HamidError)
    assert (refusal.status, refusal.closes_connection) == (503, False)


def test_a_certificate_error_has_a_hint_like_any_other():
    assert str(CertificateError("bad", hint="mend it")) == "bad (mend it)"
