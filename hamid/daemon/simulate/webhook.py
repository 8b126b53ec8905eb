"""The admission webhook of a simulated cluster: a throw-away CA, and how the API server finds it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from hamid.web.certs import ServerTls, TlsMaterial
from hamid.web.pki import DAY_S, issue_server, make_authority

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject
    from hamid.web.pki import Credential

HOST: Final = "127.0.0.1"
LIFETIME_S: Final = 365 * DAY_S


def make_tls(*, now_s: float) -> tuple[Credential, ServerTls]:
    """A new CA, and the TLS of a server on this machine that it vouches for."""
    authority = make_authority("hamid simulation", now_s=now_s, lifetime_s=LIFETIME_S)
    server = issue_server(authority, names=(HOST,), now_s=now_s, lifetime_s=LIFETIME_S)
    tls = ServerTls()
    tls.load(TlsMaterial(certificate_pem=server.certificate_pem, key_pem=server.key_pem))
    return authority, tls


def webhook_configuration(*, name: str, port: int, authority: Credential) -> JsonObject:
    """What the chart would create, with a URL in place of a service.

    No `matchConditions`: the API double would not read them.
    """

    def rule(operation: str, resource: str) -> JsonObject:
        return {
            "operations": [operation],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": [resource],
        }

    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "pods.hamid.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "rules": [rule("CREATE", "pods"), rule("UPDATE", "pods")],
                "clientConfig": {
                    "url": f"https://{HOST}:{port}/webhook",
                    "caBundle": base64.b64encode(authority.certificate_pem).decode(),
                },
            }
        ],
    }
