"""The kubeconfig file as ``kubectl config`` writes it: its fields, and the resolution of one context."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

F = TypeVar("F")


class InvalidKubeconfig(Exception):
    """``place`` is the file and the field in it."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place, self.problem = place, problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class _Fields(msgspec.Struct, frozen=True, rename="kebab"):
    """Unknown fields are ignored."""


class _NamedExtension(_Fields, frozen=True):
    name: str
    extension: Any = None


class ClusterFields(_Fields, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[_NamedExtension, ...] | None = None


class _ExecVariable(_Fields, frozen=True):
    name: str
    value: str = ""


class ExecFields(msgspec.Struct, frozen=True, rename="camel"):
    """The program that prints the credentials of a user."""

    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[_ExecVariable, ...] | None = None
    install_hint: str = ""
    interactive_mode: str = ""
    provide_cluster_info: bool = False


class UserFields(_Fields, frozen=True):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecFields | None = None
    auth_provider: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return "UserFields(...)"  # every field may be a secret


class ContextFields(_Fields, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Fields, frozen=True):
    name: str
    cluster: ClusterFields = ClusterFields()


class _NamedUser(_Fields, frozen=True):
    name: str
    user: UserFields = UserFields()


class _NamedContext(_Fields, frozen=True):
    name: str
    context: ContextFields = ContextFields()


class Kubeconfig(_Fields, frozen=True):
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    current_context: str = ""


# At its first use msgspec reads the annotations of a type; threads that do so at once crash the process.
msgspec.convert({}, Kubeconfig)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """The cluster and user of one context; file names are relative to the directory of the kubeconfig."""

    path: Path
    name: str
    namespace: str
    cluster: ClusterFields
    user: UserFields

    def authority(self) -> bytes | None:
        """Return the CA certificates of the server, PEM; None for the authorities of the system."""
        return self._pem(
            "certificate-authority",
            self.cluster.certificate_authority,
            self.cluster.certificate_authority_data,
        )

    def certificate(self) -> Certificate | None:
        user = self.user
        certificate = self._pem("client-certificate", user.client_certificate, user.client_certificate_data)
        key = self._pem("client-key", user.client_key, user.client_key_data)
        if certificate is None:
            return None
        if key is None:
            raise InvalidKubeconfig(f"{self.path}: user", "has a client-certificate but no client-key")
        return Certificate(certificate, key)

    def files(self, *, of_user: bool) -> list[Path]:
        """Return the files with certificates of the server and, with ``of_user``, of the user."""
        cluster, user = self.cluster, self.user
        names = ["" if cluster.certificate_authority_data else cluster.certificate_authority]
        if of_user:
            names.append("" if user.client_certificate_data else user.client_certificate)
            names.append("" if user.client_key_data else user.client_key)
        return [self.path.parent / name for name in names if name]

    def cluster_info(self, extension: str) -> dict[str, Any]:
        """Return the fields of the cluster as an exec plugin receives them, without empty ones.

        Their ``config`` is the ``extension`` of the cluster.
        """
        cluster, authority = self.cluster, self.authority()
        extensions = {named.name: named.extension for named in cluster.extensions or ()}
        fields = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
            "certificate-authority-data": base64.b64encode(authority).decode() if authority else "",
            "config": extensions.get(extension),
        }
        return {name: value for name, value in fields.items() if value}

    def _pem(self, name: str, file: str, data: str) -> bytes | None:
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise InvalidKubeconfig(f"{self.path}: {name}-data", f"is not base64: {error}") from error
        if file:
            try:
                return (self.path.parent / file).read_bytes()
            except OSError as error:
                raise InvalidKubeconfig(f"{self.path}: {name}", str(error)) from error
        return None


def read_kubeconfigs(paths: Sequence[Path], context: str = "") -> KubeconfigContext:
    """Resolve ``context`` in the first of the files that has it.  Raises ``InvalidKubeconfig``.

    The default is the current one of the first file that names one.
    """
    configs = [(_read(path), path) for path in paths]
    name = context or next((config.current_context for config, _ in configs if config.current_context), "")
    for config, path in configs:
        if any(entry.name == name for entry in config.contexts):
            return context_of(config, path, name)
    contexts = tuple(entry for config, _ in configs for entry in config.contexts)
    return context_of(Kubeconfig(contexts=contexts), paths[0], name)


def _read(path: Path) -> Kubeconfig:
    try:
        return parse_kubeconfig(path.read_bytes(), path)
    except OSError as error:
        raise InvalidKubeconfig(str(path), (error.strerror or str(error)).lower()) from error


def context_of(config: Kubeconfig, path: Path, context: str = "") -> KubeconfigContext:
    """Resolve ``context``, by default the current one.  Raises ``InvalidKubeconfig`` about ``path``."""
    name = context or config.current_context
    contexts = {entry.name: entry.context for entry in config.contexts}
    chosen = _named(path, "context", contexts, name)
    clusters = {entry.name: entry.cluster for entry in config.clusters}
    users = {entry.name: entry.user for entry in config.users}
    return KubeconfigContext(
        path=path,
        name=name,
        namespace=chosen.namespace or "default",
        cluster=_named(path, "cluster", clusters, chosen.cluster),
        user=_named(path, "user", users, chosen.user) if chosen.user else UserFields(),
    )


MAX_DEPTH: Final = 64  # the composer of the YAML library overflows the stack of the process at 100,000
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_kubeconfig(content: bytes, path: Path) -> Kubeconfig:
    """Return the fields of a kubeconfig.  Raises ``InvalidKubeconfig`` about ``path``, whatever is in it."""
    try:
        _check_shape(content, path)
        document = yaml.load(content, Loader=_LOADER)
    except InvalidKubeconfig:
        raise
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise InvalidKubeconfig(f"{path}{line}", f"is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:  # bytes that are not text
        raise InvalidKubeconfig(str(path), f"is not YAML: {error}") from error
    except Exception as error:  # such as ValueError for a date that does not exist
        raise InvalidKubeconfig(str(path), f"is not YAML: {type(error).__name__}") from error
    if not isinstance(document, dict):
        raise InvalidKubeconfig(
            str(path), "is not a kubeconfig: expected a mapping with clusters, users and contexts"
        )
    # kubectl writes null for an empty section.
    present = {name: value for name, value in document.items() if value is not None}
    try:
        return msgspec.convert(present, Kubeconfig)
    except msgspec.ValidationError as error:
        raise InvalidKubeconfig(str(path), str(error)) from error


def _check_shape(content: bytes, path: Path) -> None:
    """Refuse deep nesting, and aliases: a document with nested ones takes years to merge or to compare."""
    depth = 0
    for event in yaml.parse(content, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidKubeconfig(str(path), f"has an alias, *{event.anchor}: write its value instead")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InvalidKubeconfig(str(path), f"is nested more than {MAX_DEPTH} levels deep")


def _named(path: Path, what: str, entries: dict[str, F], name: str) -> F:
    if name in entries:
        return entries[name]
    names = ", ".join(entries) or "none"
    raise InvalidKubeconfig(f"{path}: {what}s", f"there is no {what} {name!r} (there are: {names})")
