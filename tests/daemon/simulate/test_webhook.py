from __future__ import annotations

import base64

from hamid.daemon.simulate.webhook import HOST, make_tls, webhook_configuration


def test_the_api_server_is_told_where_and_by_whose_word():
    authority, tls = make_tls(now_s=1_700_000_000.0)

    configuration = webhook_configuration(name="hamid", port=1234, authority=authority)

    (webhook,) = configuration["webhooks"]
    assert tls.is_loaded
    assert webhook["clientConfig"]["url"] == f"https://{HOST}:1234/webhook"
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == authority.certificate_pem
    assert webhook["failurePolicy"] == "Fail"
