"""What credentials of a worker cluster are accepted: rules and messages as Kueue's.

A kubeconfig comes from a Secret or a file that others may write, so it must not make this process read files,
run programs or skip the verification of certificates.  Access plugins of ClusterProfiles are programs that
the Configuration names.
"""

import ipaddress
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from quorate.api.configuration.multikueue import AccessPlugin
from quorate.api.kueue.multikueue import AccessProvider, ClusterProfile
from quorate.api.syntax import is_dns_subdomain
from quorate.kube.rest.kubeconfig import (
    ClusterFields,
    ExecFields,
    InvalidKubeconfig,
    KubeconfigContext,
    UserFields,
    context_of,
    parse_kubeconfig,
)

KUBECONFIG_FOLDER: Final = Path("/etc/multikueue/kubeconfigs")
MAX_KUBECONFIG_BYTES: Final = 2**20  # of a file, as of a Secret

_PLACE: Final = Path("/kubeconfig")  # shown in messages; no file is read


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why there is no connection: the reason and the end of the message of condition Active."""

    reason: str
    problem: str


def kubeconfig_context(content: bytes, *, allow_insecure: bool) -> KubeconfigContext | Unusable:
    """Return the current context of a kubeconfig, or which rule it breaks."""
    try:
        config = parse_kubeconfig(content, _PLACE)
        clusters = [(named.name, named.cluster) for named in config.clusters]
        problem = "" if allow_insecure else _insecure([named.user for named in config.users], clusters)
        if not problem:
            context = context_of(config, _PLACE)
            problem = "" if allow_insecure else _insecure_context(context)
    except InvalidKubeconfig as error:
        problem = f"failed to parse kubeconfig(apiconfig): {error}"
    return Unusable("InsecureKubeConfig", problem) if problem else context


def _insecure(users: Sequence[UserFields], clusters: Sequence[tuple[str, ClusterFields]]) -> str:
    """Return the first problem of any context; empty: none."""
    for user in users:
        if user.token_file:
            return "tokenFile is not allowed"
        for name in ("client-certificate", "client-key"):
            if getattr(user, name.replace("-", "_")):
                return f"{name} file paths are not allowed, use {name}-data"
    for name, cluster in clusters:
        if cluster.insecure_skip_tls_verify:
            return f"insecure TLS verification is not allowed for cluster {name}"
        if cluster.certificate_authority:
            return (
                "certificate-authority file paths are not allowed, use certificate-authority-data "
                f"for cluster {name}"
            )
        if not cluster.server:
            return f"server URL is required for cluster {name}"
    return ""


def _insecure_context(context: KubeconfigContext) -> str:
    """Return the problem of the context that would be used; empty: none."""
    if not _is_server_url(context.cluster.server):
        return "untrusted server endpoint"
    if context.user.username or context.user.password:
        return "basic auth is not allowed"
    if context.user.exec is not None:
        return "exec plugins are not allowed"
    return "auth providers are not allowed" if context.user.auth_provider is not None else ""


def _is_server_url(server: str) -> bool:
    try:
        host, user = urlsplit(server).hostname or "", urlsplit(server).username
    except ValueError:
        return False
    if user is not None:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return is_dns_subdomain(host)
    return True


def profile_context(profile: ClusterProfile, plugins: Sequence[AccessPlugin]) -> KubeconfigContext | Unusable:
    """Return how to reach the cluster of ``profile``, with the first of ``plugins`` that it supports.

    Source: ``pkg/access`` of cluster-inventory-api, without extensions that add arguments or variables.
    """
    if not plugins:
        return Unusable("BadClusterProfile", "no access provider configured")
    status = profile.status
    providers = {
        provider.name: provider for provider in (*status.credential_providers, *status.access_providers)
    }
    for plugin in plugins:
        if (provider := providers.get(plugin.name)) is not None:
            return _plugin_context(provider, plugin)
    name = profile.metadata.name
    problem = f'no matching cluster accessor found for cluster profile "{name}"'
    return Unusable("BadClusterProfile", problem)


def _plugin_context(provider: AccessProvider, plugin: AccessPlugin) -> KubeconfigContext | Unusable:
    try:
        cluster = msgspec.convert(provider.cluster, ClusterFields)
        exec_ = msgspec.convert({**plugin.exec, "interactiveMode": "Never"}, ExecFields)
    except msgspec.ValidationError as error:
        return Unusable("BadClusterProfile", f"access provider {provider.name}: {error}")
    if not _is_server_url(cluster.server):
        return Unusable("BadRestConfig", "untrusted server endpoint")
    # Only these are used, as in Kueue: a ClusterProfile cannot switch off the verification of certificates.
    reached = ClusterFields(
        server=cluster.server,
        certificate_authority_data=cluster.certificate_authority_data,
        proxy_url=cluster.proxy_url,
        extensions=cluster.extensions,
    )
    return KubeconfigContext(Path("/"), provider.name, "default", reached, UserFields(exec=exec_))


def read_kubeconfig_file(
    location: str, *, validate: bool, folder: Path = KUBECONFIG_FOLDER
) -> bytes | Unusable:
    """Return the content of a kubeconfig file; ``validate``: it must be in ``folder``, links followed."""
    path: Path | str = Path(location)
    if validate:
        path = _in_folder(location, folder)
    if isinstance(path, str):
        return Unusable("BadKubeConfig", path)
    try:
        if path.exists() and not path.is_file():
            return Unusable("BadKubeConfig", f"read {path}: is not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_KUBECONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        return Unusable("BadKubeConfig", f"open {path}: {_text_of(error)}")
    if len(content) > MAX_KUBECONFIG_BYTES:
        return Unusable("BadKubeConfig", f"read {path}: is larger than {MAX_KUBECONFIG_BYTES} bytes")
    return content


def _in_folder(location: str, folder: Path) -> Path | str:
    """Return the path without symbolic links, or the problem with it."""
    if not location:
        return "kubeconfig path must not be empty"
    refused: Callable[[str], str] = "kubeconfig path is not under the allowed prefix: {}".format
    cleaned = Path(os.path.normpath(location))
    if ".." in cleaned.parts:
        return refused('path contains ".."')
    if not cleaned.is_absolute():
        return refused("path must be absolute")
    try:
        allowed = folder.resolve(strict=True)
    except OSError:
        return refused(f'"{cleaned}" is not under "{folder}"')
    try:
        resolved = cleaned.resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        return f"cannot resolve kubeconfig path symlinks: lstat {cleaned}: {_text_of(error)}"
    if not resolved.is_relative_to(allowed):
        return refused(f'"{resolved}" is not under "{allowed}"')
    return resolved


def _text_of(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return (text or str(error)).lower()
