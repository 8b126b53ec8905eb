"""Where the API server is and how we say who we are: kubeconfig, in a pod, or a bare URL.

The one module that imports kubernetes_asyncio, and it does so only when a kubeconfig's user runs a
credential program or an auth provider. Measured with Python 3.11 on x86-64: importing any part of
kubernetes_asyncio (36.1) runs its package's `__init__`, which loads the 970 modules of the
generated client: 38 MiB of memory and a third of a second, of which configuration loading is a
hundredth. aiohttp alone is 25 MiB. A daemon in a pod has no use for it.

Token files are read again after a minute and when the server answers 401: the kubelet renews
them. Certificates are read once; a client whose certificate is renewed has to be opened anew.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import yaml

from hamid.aiokit.memory_file import memory_file
from hamid.errors import SettingsError
from hamid.kube.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable

IN_POD_DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_MAX_AGE_S: Final = 60.0


class Authenticator(Protocol):
    """Who we say we are, as the Authorization header."""

    async def header(self) -> str | None:
        """The header's value, or None to send none."""
        ...

    def expire(self) -> bool:
        """The server refused the last value; returns whether the next may be another."""
        ...


@dataclass(slots=True, kw_only=True)
class FixedHeader:
    """The same header for ever; None when a client certificate, or nothing, says who we are."""

    value: str | None = field(default=None, repr=False)

    async def header(self) -> str | None:
        """The value."""
        return self.value

    def expire(self) -> bool:
        """There is no other value."""
        return False


@dataclass(slots=True, kw_only=True)
class TokenFile:
    """A token that somebody renews in a file.

    Attributes:
        path: read at first use, when older than `max_age_s`, and after a refusal.
        clock: monotonic seconds.
        max_age_s: the kubelet renews at 80 % of the lifetime, so a minute is early enough.
    """

    path: Path
    clock: Callable[[], float]
    max_age_s: float = TOKEN_MAX_AGE_S
    _header: str | None = field(default=None, repr=False)
    _read_at: float = 0.0

    async def header(self) -> str | None:
        """The bearer token of the file; the last good one while the file cannot be read."""
        if self._header is None or self.clock() - self._read_at >= self.max_age_s:
            try:
                self._header = f"Bearer {_text(self.path, what='token').strip()}"
            except SettingsError:
                if self._header is None:
                    raise
            self._read_at = self.clock()
        return self._header

    def expire(self) -> bool:
        """Read the file again at the next use."""
        self._read_at = float("-inf")
        return True


@dataclass(slots=True, kw_only=True)
class CredentialProgram:
    """The user of a kubeconfig who needs a program or an auth provider (see the module)."""

    kubeconfig: dict[str, Any] = field(repr=False)
    context: str
    directory: str
    _header: str | None = field(default=None, repr=False)
    _is_renewal: bool = False

    async def header(self) -> str | None:
        """The token that the program gave, asked for once and after each refusal."""
        if self._header is None:
            try:
                self._header = await self._ask()
            except SettingsError as error:
                if not self._is_renewal:
                    raise
                # It has worked before: no reason to end, but one to try again later.
                raise Unauthorized(error.message, hint=error.hint) from error
        return self._header

    def expire(self) -> bool:
        """Ask again at the next use."""
        self._header, self._is_renewal = None, True
        return True

    async def _ask(self) -> str | None:
        # Imported here for what it costs; see the module.
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
        from kubernetes_asyncio.config import ConfigException  # noqa: PLC0415
        from kubernetes_asyncio.config.kube_config import KubeConfigLoader  # noqa: PLC0415

        loader = KubeConfigLoader(
            self.kubeconfig, active_context=self.context, config_base_path=self.directory
        )
        configuration = Configuration()
        try:
            await loader.load_and_set(configuration)
        except (ConfigException, OSError, RuntimeError) as error:
            raise SettingsError(
                f"the credentials of kubeconfig context {self.context!r} cannot be had: {error}",
                hint="run the credential program by hand, or use a token or client certificate",
            ) from error
        token = configuration.api_key.get("BearerToken")
        return str(token) if token else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the server is, how to know it, and how it knows us.

    Attributes:
        server: base URL without a final slash.
        tls: None for plain HTTP.
        server_hostname: the name its certificate has, where that is not the URL's.
        proxy: the HTTP proxy through which to go there, if any.
        authenticator: what the Authorization header says.
    """

    server: str
    tls: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None
    authenticator: Authenticator


def access_to_url(server: str, *, token: str | None = None) -> Access:
    """Access to a server that needs no more than a token, if that."""
    header = None if token is None else f"Bearer {token}"
    tls = _tls_context(None, where=server) if server.startswith("https:") else None
    return Access(server=server.rstrip("/"), tls=tls, authenticator=FixedHeader(value=header))


def access_in_pod(
    *, host: str, port: int, clock: Callable[[], float], directory: Path = IN_POD_DIRECTORY
) -> Access:
    """Access as a pod's ServiceAccount; host and port are what the kubelet puts into its env."""
    authority = _text(directory / "ca.crt", what="certificate authority")
    address = f"[{host}]" if ":" in host else host
    return Access(
        server=f"https://{address}:{port}",
        tls=_tls_context(authority, where=str(directory / "ca.crt")),
        authenticator=TokenFile(path=directory / "token", clock=clock),
    )


def access_by_kubeconfig(
    path: Path, *, clock: Callable[[], float], context: str | None = None
) -> Access:
    """Access as a kubeconfig says, by its current context unless one is named."""
    document = _kubeconfig(path)
    context = context or str(document.get("current-context") or "")
    chosen = _named(document, "context", context, path=path)
    cluster = _named(document, "cluster", str(chosen.get("cluster")), path=path)
    user: dict[str, Any] = {}
    if chosen.get("user"):
        user = _named(document, "user", str(chosen["user"]), path=path)
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise SettingsError(
            f"{path}: cluster of context {context!r} has server {server!r}, not an http(s) URL",
            hint="set `server` to the API server's URL",
        )
    return Access(
        server=server,
        tls=_cluster_tls(cluster, user, path=path) if server.startswith("https:") else None,
        server_hostname=cluster.get("tls-server-name"),
        proxy=_proxy(cluster, path=path),
        authenticator=_authenticator(
            user, document=document, context=context, path=path, clock=clock
        ),
    )


def _proxy(cluster: dict[str, Any], *, path: Path) -> str | None:
    proxy = cluster.get("proxy-url")
    if proxy and not str(proxy).startswith(("http://", "https://")):
        raise SettingsError(
            f"{path}: `proxy-url` is {proxy!r}, not an http(s) URL",
            hint="name an HTTP proxy; others (socks5) are not supported",
        )
    return str(proxy) if proxy else None


def _authenticator(
    user: dict[str, Any],
    *,
    document: dict[str, Any],
    context: str,
    path: Path,
    clock: Callable[[], float],
) -> Authenticator:
    if "exec" in user or "auth-provider" in user:
        return CredentialProgram(kubeconfig=document, context=context, directory=str(path.parent))
    if "tokenFile" in user:
        return TokenFile(path=path.parent / str(user["tokenFile"]), clock=clock)
    if "token" in user:
        return FixedHeader(value=f"Bearer {user['token']}")
    if "username" in user:
        pair = f"{user['username']}:{user.get('password', '')}"
        return FixedHeader(value="Basic " + base64.b64encode(pair.encode()).decode())
    return FixedHeader()


def _cluster_tls(cluster: dict[str, Any], user: dict[str, Any], *, path: Path) -> ssl.SSLContext:
    authority = _pem(cluster, "certificate-authority", path=path)
    tls = _tls_context(authority, where=str(path))
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate = _pem(user, "client-certificate", path=path)
    key = _pem(user, "client-key", path=path)
    if certificate is None:
        return tls
    try:
        with memory_file(f"{certificate}\n{key or ''}\n".encode()) as both:
            # A password that is wrong, so that for a key that has one nobody is asked on the terminal.
            tls.load_cert_chain(both, password="")
    except ssl.SSLError as error:
        raise SettingsError(
            f"{path}: the client certificate and key do not fit or are not PEM: {error}",
            hint="check client-certificate(-data) and client-key(-data); no key may have a password",
        ) from error
    return tls


def _tls_context(authority: str | None, *, where: str) -> ssl.SSLContext:
    """Trust this authority alone, or the machine's if there is none."""
    try:
        # No text at all would be none to `ssl`, so that it trusts the machine's: a blank is no PEM.
        context = ssl.create_default_context(cadata=" " if authority == "" else authority)
    except (ssl.SSLError, TypeError) as error:
        raise SettingsError(
            f"{where}: the certificate authority is not PEM: {error}",
            hint="check the certificate authority",
        ) from error
    # Python 3.13 asks more of certificates than other clients of the API: many a cluster's were
    # made without the key identifiers that it wants.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _pem(section: dict[str, Any], key: str, *, path: Path) -> str | None:
    """The PEM text of KEY-data or of the file KEY, data first, as kubectl has it."""
    if data := section.get(f"{key}-data"):
        try:
            return base64.b64decode(str(data), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{path}: {key}-data is not base64 of PEM: {error}", hint=f"correct {key}-data"
            ) from error
    if file := section.get(key):
        return _text(path.parent / str(file), what=key)
    return None


def _kubeconfig(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(_text(path, what="kubeconfig"))
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not YAML: {error}", hint="correct it") from error
    if not isinstance(document, dict):
        raise SettingsError(
            f"{path} holds {type(document).__name__}, not a kubeconfig", hint="name another file"
        )
    return document


def _named(document: dict[str, Any], kind: str, name: str, *, path: Path) -> dict[str, Any]:
    """The section of a kubeconfig's named list: contexts, clusters or users."""
    entries = document.get(f"{kind}s") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SettingsError(f"{path}: {kind}s is no list of {kind}s", hint="correct it")
    for entry in entries:
        if entry.get("name") == name:
            section = entry.get(kind) or {}
            if not isinstance(section, dict):
                raise SettingsError(f"{path}: {kind} {name!r} says nothing", hint="correct it")
            return section
    names = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise SettingsError(
        f"{path} has no {kind} {name!r}; it has: {names}",
        hint=f"name one of these, or add the {kind}",
    )


def _text(path: Path, *, what: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"the {what} {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="check the path and who may read it",
        ) from error
