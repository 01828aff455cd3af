"""Where the API server is and how to be let in: kubeconfig files, or the files every pod has.

Tokens, certificates and passwords are read here.  A user that needs a plugin (``exec``, ``auth-provider``)
is left to kubernetes_asyncio, imported only then: it costs a third of a second and 38 MB.
"""

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from quorate.kube.credentials import Anonymous, BasicAuth, Credentials, Token, TokenFile

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One API server and our way in; ``tls`` is None for plain http."""

    server: str  # scheme, host and port, perhaps a path; no slash at the end
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    credentials: Credentials = field(default_factory=Anonymous)
    tls_server_name: str = ""  # the name the certificate must carry; "" is the host of ``server``
    proxy: str = ""
    namespace: str = "default"


class InvalidKubeconfig(Exception):
    """``place`` is the file and the field in it."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place, self.problem = place, problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


async def load_cluster(kubeconfig: Path | None = None, context: str = "") -> Cluster:
    """The cluster of ``context`` (by default the current one) in ``kubeconfig``.

    Without a file: the first of $KUBECONFIG's files that exists, then ~/.kube/config, then, in a pod, the
    service account.  Raises ``InvalidKubeconfig``.
    """
    path = kubeconfig if kubeconfig is not None else _default_kubeconfig()
    if path is None:
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            return in_cluster()
        raise InvalidKubeconfig(
            "kubeconfig", "none found in $KUBECONFIG or ~/.kube/config; name one with --kubeconfig"
        )
    entry = _read_kubeconfig(path, context)
    credentials, certificate = _credentials(entry)
    if credentials is None:
        from quorate.kube.plugins import load_plugin  # imports kubernetes_asyncio

        credentials, certificate = await load_plugin(path, entry.context)
    cluster = entry.cluster
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise InvalidKubeconfig(f"{path}: cluster server", f"{server!r} is no http:// or https:// URL")
    return Cluster(
        server=server,
        tls=_tls(entry, certificate) if server.startswith("https://") else None,
        credentials=credentials,
        tls_server_name=cluster.get("tls-server-name", ""),
        proxy=cluster.get("proxy-url", ""),
        namespace=entry.namespace,
    )


def in_cluster(directory: Path = SERVICE_ACCOUNT) -> Cluster:
    """The cluster whose pod this process runs in, as its service account."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:  # an IPv6 address
        host = f"[{host}]"
    try:
        return Cluster(
            server=f"https://{host}:{port}",
            tls=ssl.create_default_context(cafile=directory / "ca.crt"),
            credentials=TokenFile(directory / "token"),
            namespace=(directory / "namespace").read_text().strip(),
        )
    except OSError as error:
        raise InvalidKubeconfig(str(directory), f"{error}; does the pod mount its token?") from error


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM texts of a client certificate and its key."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The parts of one kubeconfig that one context picks."""

    path: Path
    context: str
    namespace: str
    cluster: dict[str, Any]
    user: dict[str, Any] = field(repr=False)


def _default_kubeconfig() -> Path | None:
    listed = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return next((path for path in listed or [Path.home() / ".kube" / "config"] if path.exists()), None)


def _read_kubeconfig(path: Path, context: str) -> _Entry:
    try:
        document = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise InvalidKubeconfig(str(path), error.strerror or str(error)) from error
    except yaml.YAMLError as error:
        raise InvalidKubeconfig(str(path), f"is no YAML: {error}") from error
    if not isinstance(document, dict):
        raise InvalidKubeconfig(
            str(path), "is no kubeconfig: expected a mapping with clusters, users, contexts"
        )
    name = context or document.get("current-context") or ""
    chosen = _named(path, document, "contexts", "context", name)
    return _Entry(
        path=path,
        context=name,
        namespace=chosen.get("namespace") or "default",
        cluster=_named(path, document, "clusters", "cluster", chosen.get("cluster", "")),
        user=_named(path, document, "users", "user", chosen["user"]) if chosen.get("user") else {},
    )


def _named(path: Path, document: dict[str, Any], section: str, field_: str, name: str) -> dict[str, Any]:
    entries = document.get(section) or []
    for entry in entries:
        if entry.get("name") == name:
            return entry.get(field_) or {}
    names = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise InvalidKubeconfig(f"{path}: {section}", f"there is no {field_} {name!r} (there are: {names})")


def _credentials(entry: _Entry) -> tuple[Credentials | None, Certificate | None]:
    """What the user's fields say; None for credentials when only a plugin can tell."""
    user = entry.user
    certificate = None
    if pem := _pem(entry, user, "client-certificate"):
        key = _pem(entry, user, "client-key")
        if key is None:
            raise InvalidKubeconfig(f"{entry.path}: user", "has client-certificate but no client-key")
        certificate = Certificate(pem, key)
    if "exec" in user or "auth-provider" in user:
        return None, certificate
    if user.get("tokenFile"):
        return TokenFile(entry.path.parent / user["tokenFile"]), certificate
    if user.get("token"):
        return Token(str(user["token"])), certificate
    if user.get("username"):
        return BasicAuth(str(user["username"]), str(user.get("password", ""))), certificate
    return Anonymous(), certificate


def _pem(entry: _Entry, fields: dict[str, Any], name: str) -> bytes | None:
    """``name-data`` in base64, or the file called ``name``, relative to the kubeconfig."""
    place = f"{entry.path}: {name}"
    if data := fields.get(f"{name}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidKubeconfig(f"{place}-data", f"is no base64: {error}") from error
    if file := fields.get(name):
        try:
            return (entry.path.parent / str(file)).read_bytes()
        except OSError as error:
            raise InvalidKubeconfig(place, str(error)) from error
    return None


def _tls(entry: _Entry, certificate: Certificate | None) -> ssl.SSLContext:
    try:
        authority = _pem(entry, entry.cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if entry.cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            _load_certificate(context, certificate)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise InvalidKubeconfig(f"{entry.path}: certificates", str(error)) from error
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Certificate) -> None:
    # The ssl module reads chains from files only; this one is readable by us alone and lives for one call.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate.certificate + b"\n" + certificate.key)
        file.flush()
        context.load_cert_chain(file.name)
