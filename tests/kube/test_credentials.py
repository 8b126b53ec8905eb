from __future__ import annotations

import base64
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hamid.errors import SettingsError
from hamid.kube.credentials import (
    FixedHeader,
    TokenFile,
    access_by_kubeconfig,
    access_in_pod,
    access_to_url,
)
from hamid.kube.errors import Unauthorized
from tests.kube.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


def clock() -> float:
    return 0.0


def write_kubeconfig(path: Path, *, user: Any = None, cluster: Any = None) -> Path:
    document = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://h:1/"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "t"}, "Bearer t"),
        ({"username": "me", "password": "pw"}, "Basic bWU6cHc="),
    ],
)
async def test_a_kubeconfig_says_who_we_are(
    tmp_path: Path, user: dict[str, str], header: str | None
) -> None:
    access = access_by_kubeconfig(write_kubeconfig(tmp_path / "k", user=user), clock=clock)

    assert access.server == "http://h:1"
    assert access.tls is None
    assert await access.authenticator.header() == header


async def test_a_token_file_is_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t1\n")
    path = write_kubeconfig(tmp_path / "k", user={"tokenFile": "token"})

    access = access_by_kubeconfig(path, clock=clock)

    assert await access.authenticator.header() == "Bearer t1"


async def test_a_credential_program_is_asked_once_and_again_after_a_refusal(
    tmp_path: Path,
) -> None:
    count = tmp_path / "count"
    program = tmp_path / "program"
    program.write_text(
        f"#!/bin/sh\necho x >> {count}\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "from-program"}}\'\n'
    )
    program.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}
    authenticator = access_by_kubeconfig(
        write_kubeconfig(tmp_path / "k", user=user), clock=clock
    ).authenticator

    first = await authenticator.header()
    second = await authenticator.header()
    assert authenticator.expire()
    third = await authenticator.header()

    assert first == second == third == "Bearer from-program"
    assert count.read_text() == "x\nx\n"


async def test_a_credential_program_that_fails_later_is_asked_again_and_ends_nothing(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program"
    works = (
        "#!/bin/sh\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "from-program"}}\'\n'
    )
    program.write_text(works)
    program.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}
    authenticator = access_by_kubeconfig(
        write_kubeconfig(tmp_path / "k", user=user), clock=clock
    ).authenticator
    await authenticator.header()

    authenticator.expire()
    program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(Unauthorized, match="context 'one'"):
        await authenticator.header()
    program.write_text(works)

    assert await authenticator.header() == "Bearer from-program"


async def test_a_credential_program_that_fails_is_a_matter_of_settings(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}}
    access = access_by_kubeconfig(write_kubeconfig(tmp_path / "k", user=user), clock=clock)

    with pytest.raises(SettingsError, match="context 'one'"):
        await access.authenticator.header()


def test_a_proxy_that_speaks_no_http_is_refused(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "k", cluster={"proxy-url": "socks5://p:1"})

    with pytest.raises(SettingsError, match="'socks5://p:1', not an http"):
        access_by_kubeconfig(path, clock=clock)


def test_the_generated_client_is_not_loaded_for_ordinary_credentials() -> None:
    code = (
        "import sys, hamid.kube.client, hamid.kube.settings\n"
        "sys.exit(any(name.startswith('kubernetes_asyncio') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_certificates_come_from_data_or_files(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.sign("me")
    (tmp_path / "ca.crt").write_text(authority.pem)
    data = {
        "client-certificate-data": base64.b64encode(pair.certificate.encode()).decode(),
        "client-key-data": base64.b64encode(pair.key.encode()).decode(),
    }
    cluster = {"server": "https://h:1", "certificate-authority": "ca.crt"}
    path = write_kubeconfig(tmp_path / "k", user=data, cluster=cluster)

    access = access_by_kubeconfig(path, clock=clock)

    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(access.tls.get_ca_certs()) == 1


def test_verification_can_be_switched_off(tmp_path: Path) -> None:
    cluster = {"server": "https://h:1", "insecure-skip-tls-verify": True}

    access = access_by_kubeconfig(write_kubeconfig(tmp_path / "k", cluster=cluster), clock=clock)

    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not a kubeconfig"),
        ("{", "is not YAML"),
        ("current-context: x", "has no context 'x'; it has: none"),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: b}}], clusters:"
                " [{name: b, cluster: {server: 'unix:x'}}]}"
            ),
            "not an http",
        ),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: b}}], clusters:"
                " [{name: b, cluster: {server: 'https://h', certificate-authority-data: '*'}}]}"
            ),
            "certificate-authority-data is not base64",
        ),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: b}}], clusters:"
                " [{name: b, cluster: {server: 'https://h', certificate-authority-data: 'eA=='}}]}"
            ),
            "certificate authority is not PEM",
        ),
        ("{current-context: a, contexts: a}", "contexts is no list of contexts"),
        ("{current-context: a, contexts: {name: a}}", "contexts is no list of contexts"),
        ("{current-context: a, contexts: [a]}", "contexts is no list of contexts"),
        ("{current-context: a, contexts: [{name: a, context: [b]}]}", "context 'a' says nothing"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_a_matter_of_settings(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "k"
    path.write_text(text)

    with pytest.raises(SettingsError, match=said) as caught:
        access_by_kubeconfig(path, clock=clock)

    assert caught.value.hint


def test_a_kubeconfig_that_is_not_there_is_a_matter_of_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        access_by_kubeconfig(tmp_path / "none", clock=clock)


async def test_a_pod_finds_token_and_authority_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(Authority().pem)
    (tmp_path / "token").write_text("t")

    access = access_in_pod(host="fd00::1", port=443, directory=tmp_path, clock=clock)

    assert access.server == "https://[fd00::1]:443"
    assert await access.authenticator.header() == "Bearer t"


@pytest.mark.parametrize("authority", ["", " ", "x", "\u00fc"])
def test_an_authority_that_is_none_does_not_make_the_machines_one_trusted(
    tmp_path: Path, authority: str
) -> None:
    (tmp_path / "ca.crt").write_text(authority)

    with pytest.raises(SettingsError, match="certificate authority is not PEM"):
        access_in_pod(host="h", port=443, directory=tmp_path, clock=clock)


def test_a_key_with_a_password_is_refused(tmp_path: Path) -> None:
    pair = Authority().sign("me", password=b"secret")
    data = {
        "client-certificate-data": base64.b64encode(pair.certificate.encode()).decode(),
        "client-key-data": base64.b64encode(pair.key.encode()).decode(),
    }
    path = write_kubeconfig(tmp_path / "k", user=data, cluster={"server": "https://h:1"})

    with pytest.raises(SettingsError, match="client certificate and key") as caught:
        access_by_kubeconfig(path, clock=clock)

    assert "password" in caught.value.hint


async def test_a_token_file_is_read_again_when_it_is_old_or_was_refused(tmp_path: Path) -> None:
    path, now_s = tmp_path / "token", 0.0
    token = TokenFile(path=path, clock=lambda: now_s, max_age_s=60)
    path.write_text("one")
    assert await token.header() == "Bearer one"

    path.write_text("two")
    assert await token.header() == "Bearer one"
    now_s = 60.0
    assert await token.header() == "Bearer two"

    path.write_text("three")
    assert token.expire()
    assert await token.header() == "Bearer three"


async def test_a_token_file_that_vanishes_leaves_the_last_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = TokenFile(path=path, clock=clock)
    with pytest.raises(SettingsError):
        await token.header()

    path.write_text("one")
    await token.header()
    path.unlink()
    token.expire()

    assert await token.header() == "Bearer one"


async def test_a_url_needs_no_more_than_a_token() -> None:
    assert await access_to_url("http://h/").authenticator.header() is None
    assert await access_to_url("http://h/", token="t").authenticator.header() == "Bearer t"
    assert access_to_url("https://h").tls is not None


def test_secrets_are_not_in_representations(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "k", user={"token": "s3cret"})

    assert "s3cret" not in repr(access_by_kubeconfig(path, clock=clock))
    assert not FixedHeader(value="x").expire()
