"""The REST configuration: server address and credentials, from a kubeconfig or the service account of a pod.

Tokens, certificates and passwords are read here; ``credentials`` runs the program of a user with ``exec``.
"""

import os
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import structs

from quorate.kube.rest.credentials import (
    Anonymous,
    BasicAuth,
    CertificateFiles,
    Credentials,
    PluginCredentials,
    Token,
    TokenFile,
)
from quorate.kube.rest.kubeconfig import (
    Certificate,
    ClusterFields,
    InvalidKubeconfig,
    KubeconfigContext,
    UserFields,
    read_kubeconfigs,
)

# Returns one end of a socket pair (AF_UNIX); the server has the other one.  Raises OSError.
Connect = Callable[[], Awaitable[socket.socket]]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Overrides:
    """What replaces the values of every kubeconfig that is loaded; an empty value replaces nothing."""

    server: str = ""
    token: str = field(default="", repr=False)
    user: str = ""  # for which requests are made, with ``groups``
    groups: tuple[str, ...] = ()


OVERRIDES: Final = ContextVar("OVERRIDES", default=Overrides())  # noqa: B039  it is frozen


@dataclass(frozen=True, slots=True)
class RestConfig:
    """Address and credentials of one API server; ``tls`` is None for plain HTTP."""

    server: str  # scheme, host, port and optional path, without a trailing slash
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    credentials: Credentials = field(default_factory=Anonymous)
    tls_server_name: str = ""  # the expected name in the certificate; "" is the host of ``server``
    proxy: str = ""
    namespace: str = "default"
    connect: Connect | None = field(default=None, repr=False)  # of a server in the same process
    impersonated: tuple[tuple[str, str], ...] = ()  # names and values of headers


async def load_rest_config(kubeconfig: Path | None = None, context: str = "") -> RestConfig:
    """Load ``context`` (by default the current one) of ``kubeconfig``.

    Without a file: the existing files of $KUBECONFIG, then ~/.kube/config, then the server of ``OVERRIDES``
    or, in a pod, the service account.  ``OVERRIDES`` replace the values of a file.

    Raises ``InvalidKubeconfig``.
    """
    resolved = _found(kubeconfig, context)
    overrides = OVERRIDES.get()
    config = in_cluster_config() if resolved is None else await config_of(resolved)
    if resolved is None and overrides.token:
        config = replace(config, credentials=Token(overrides.token))
    if not overrides.user:
        return config
    groups = (("Impersonate-Group", group) for group in overrides.groups)
    return replace(config, impersonated=(("Impersonate-User", overrides.user), *groups))


def load_anonymous_config(kubeconfig: Path | None = None, context: str = "") -> RestConfig:
    """Load the same without credentials, for requests with the credentials of another user.

    The TLS context has no client certificate: an API server prefers it to a token.
    """
    resolved = _found(kubeconfig, context)
    if resolved is None:
        return replace(in_cluster_config(), credentials=Anonymous())
    return _config(resolved, Anonymous(), has_certificate=False)


def is_in_cluster(kubeconfig: Path | None = None) -> bool:
    """Return True if the service account of the pod is used."""
    return kubeconfig is None and not _default_kubeconfigs() and "KUBERNETES_SERVICE_HOST" in os.environ


def _found(kubeconfig: Path | None, context: str) -> KubeconfigContext | None:
    """Return the context of a kubeconfig; None: the service account of the pod is to be used."""
    overrides = OVERRIDES.get()
    paths = [kubeconfig] if kubeconfig is not None else _default_kubeconfigs()
    if paths:
        resolved = read_kubeconfigs(paths, context)
    elif overrides.server:
        resolved = KubeconfigContext(Path(), "", "default", ClusterFields(), UserFields())
    elif "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    else:
        raise InvalidKubeconfig(
            "kubeconfig", "none found in $KUBECONFIG or ~/.kube/config; name one with --kubeconfig"
        )
    if overrides.server:
        _check_server("--server", overrides.server)
        resolved = replace(resolved, cluster=structs.replace(resolved.cluster, server=overrides.server))
    if overrides.token:
        resolved = replace(resolved, user=UserFields(token=overrides.token))
    return resolved


async def config_of(context: KubeconfigContext) -> RestConfig:
    """Return the configuration for one context; run its exec plugin.  Raises ``InvalidKubeconfig``."""
    if context.user.auth_provider is not None:
        raise InvalidKubeconfig(
            f"{context.path}: user", "has an auth-provider; use an exec plugin, such as kubelogin"
        )
    if context.user.exec is None:
        return _config(context, _credentials(context))
    plugin = PluginCredentials(context, lambda certificate: _tls(context, certificate))
    await plugin.run()
    return _config(context, plugin)


def _config(
    context: KubeconfigContext, credentials: Credentials, *, has_certificate: bool = True
) -> RestConfig:
    server = context.cluster.server.rstrip("/")
    _check_server(f"{context.path}: cluster server", server)
    if not _has_valid_port(context.cluster.proxy_url):
        raise InvalidKubeconfig(
            f"{context.path}: cluster proxy-url", f"{context.cluster.proxy_url!r} is no URL"
        )

    def new_tls() -> ssl.SSLContext:
        return _tls(context, context.certificate() if has_certificate else None)

    is_https, files = server.startswith("https://"), context.files(of_user=has_certificate)
    if is_https and files and not isinstance(credentials, PluginCredentials):
        credentials = CertificateFiles(credentials, files, new_tls)
    return RestConfig(
        server=server,
        tls=(credentials.tls or new_tls()) if is_https else None,
        credentials=credentials,
        tls_server_name=context.cluster.tls_server_name,
        proxy=context.cluster.proxy_url,
        namespace=context.namespace,
    )


def _check_server(place: str, url: str) -> None:
    if not url.startswith(("http://", "https://")) or not _has_valid_port(url):
        raise InvalidKubeconfig(place, f"{url!r} is no http:// or https:// URL")


def _has_valid_port(url: str) -> bool:
    """Return True if the port of a URL is absent or a number that exists."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def in_cluster_config(directory: Path = SERVICE_ACCOUNT) -> RestConfig:
    """Return the configuration of the service account of the pod that runs this process."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:  # an IPv6 address
        host = f"[{host}]"
    authority = directory / "ca.crt"
    try:
        credentials = CertificateFiles(
            TokenFile(directory / "token"), [authority], lambda: ssl.create_default_context(cafile=authority)
        )
        return RestConfig(
            server=f"https://{host}:{port}",
            tls=credentials.tls,
            credentials=credentials,
            namespace=(directory / "namespace").read_text().strip(),
        )
    except OSError as error:
        raise InvalidKubeconfig(str(directory), f"{error}; does the pod mount its token?") from error


def _default_kubeconfigs() -> list[Path]:
    listed = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return [path for path in listed or [Path.home() / ".kube" / "config"] if path.exists()]


def _credentials(context: KubeconfigContext) -> Credentials:
    user = context.user
    if user.token_file:
        try:
            return TokenFile(context.path.parent / user.token_file)
        except OSError as error:
            raise InvalidKubeconfig(f"{context.path}: tokenFile", str(error)) from error
    if user.token:
        return Token(user.token)
    if user.username:
        return BasicAuth(user.username, user.password)
    return Anonymous()


def _tls(context: KubeconfigContext, certificate: Certificate | None) -> ssl.SSLContext:
    try:
        authority = context.authority()
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if context.cluster.insecure_skip_tls_verify:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            _load_certificate(tls, certificate)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise InvalidKubeconfig(f"{context.path}: certificates", str(error)) from error
    return tls


def _load_certificate(tls: ssl.SSLContext, certificate: Certificate) -> None:
    # The ssl module loads chains from files only; this one is private and exists during one call.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate.certificate + b"\n" + certificate.key)
        file.flush()
        tls.load_cert_chain(file.name)
