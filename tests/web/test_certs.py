import ssl
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from hamid.web.certs import ServerTls, TlsMaterial
from hamid.web.errors import CertificateError
from tests.web.sites import Pki, client, client_context, serving


async def hello(_request):
    return web.Response(text="hello")


HELLO = web.get("/", hello)


@pytest.fixture(scope="module")
def old():
    return Pki("old CA")


@pytest.fixture(scope="module")
def new():
    return Pki("new CA")


async def get(port, context, *, host="localhost"):
    async with (
        client(context) as session,
        session.get(f"https://{host}:{port}/") as response,
    ):
        return await response.text()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_site_answers_with_and_without_a_server_name_in_the_handshake(old, host):
    tls = ServerTls()
    tls.load(old.server_material())

    async with serving(HELLO, tls=tls) as port:
        assert await get(port, client_context(ca_pem=old.ca_pem), host=host) == "hello"


async def test_a_new_certificate_serves_new_connections_and_drops_no_old_one(old, new):
    async def peer_port(request):
        return web.Response(text=str(request.transport.get_extra_info("peername")[1]))

    tls = ServerTls()
    tls.load(old.server_material())
    async with (
        serving(HELLO, web.get("/peer", peer_port), tls=tls) as port,
        client(client_context(ca_pem=old.ca_pem)) as kept,
    ):
        ports = []
        for _ in range(2):
            async with kept.get(f"https://localhost:{port}/peer") as response:
                ports.append(await response.text())
            tls.load(new.server_material())

        assert ports[0] == ports[1]
        assert await get(port, client_context(ca_pem=new.ca_pem)) == "hello"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await get(port, client_context(ca_pem=old.ca_pem))


async def test_before_any_certificate_is_loaded_a_handshake_fails(old):
    async with serving(HELLO, tls=ServerTls()) as port:
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(port, client_context(ca_pem=old.ca_pem))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_client_is_let_in_by_its_certificate_alone(old, new, version, host):
    tls = ServerTls(wants_client_certificate=True)
    tls.load(old.server_material(client_ca_pem=old.ca_pem))

    def context(material):
        made = client_context(ca_pem=old.ca_pem, material=material)
        made.maximum_version = version
        return made

    async with serving(HELLO, tls=tls) as port:
        assert await get(port, context(old.client_material()), host=host) == "hello"
        for wrong in (None, new.client_material(), old.server_material()):
            with pytest.raises(aiohttp.ClientError):
                await get(port, context(wrong), host=host)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_ca_that_is_taken_away_lets_nobody_in_any_more(old, new, version):
    tls = ServerTls(wants_client_certificate=True)
    tls.load(old.server_material(client_ca_pem=old.ca_pem + new.ca_pem))
    context = client_context(ca_pem=old.ca_pem, material=new.client_material())
    context.maximum_version = version

    async with serving(HELLO, tls=tls) as port:
        assert await get(port, context) == "hello"

        tls.load(old.server_material(client_ca_pem=old.ca_pem))

        with pytest.raises(aiohttp.ClientError):
            await get(port, context)


def test_loading_the_same_material_again_changes_nothing(old):
    tls = ServerTls()
    material = old.server_material()

    assert tls.load(material)
    assert not tls.load(material)


def test_material_that_does_not_fit_together_is_refused_and_the_old_kept(old, new):
    tls = ServerTls()
    tls.load(old.server_material())
    mixed = TlsMaterial(
        certificate_pem=old.server_material().certificate_pem,
        key_pem=new.server_material().key_pem,
    )

    with pytest.raises(CertificateError, match="KEY_VALUES_MISMATCH"):
        tls.load(mixed)
    assert tls.is_loaded


def test_a_key_with_a_password_is_refused(old):
    made = old.server_material()
    locked = load_pem_private_key(made.key_pem, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )

    with pytest.raises(CertificateError) as caught:
        ServerTls().load(replace(made, key_pem=locked))

    assert "without a password" in caught.value.hint


def test_asking_for_client_certificates_needs_a_ca(old):
    tls = ServerTls(wants_client_certificate=True)

    with pytest.raises(CertificateError, match="no CA"):
        tls.load(old.server_material())


def test_a_private_key_is_never_shown(old):
    assert "PRIVATE" not in repr(old.server_material())


def test_a_fingerprint_tells_materials_apart_but_not_their_keys(old, new):
    target = ServerTls()
    assert target.fingerprint == ""
    material = old.server_material(client_ca_pem=old.ca_pem)

    target.load(material)

    assert target.fingerprint == material.fingerprint
    others = (replace(material, client_ca_pem=b""), new.server_material())
    assert material.fingerprint not in {other.fingerprint for other in others}
    assert replace(material, key_pem=b"").fingerprint == material.fingerprint
