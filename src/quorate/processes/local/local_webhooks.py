"""Webhooks of the controllers in a local cluster: Service, endpoints and webhook configurations.

The API server of a local cluster calls webhooks as any other does.  What an administrator installs elsewhere
is installed here for the time that the controllers run, since a webhook without a server refuses writes.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import Address
from quorate.api.meta import Key
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.resources import SERVICES, Json, Resource, untyped
from quorate.webhooks.ca_injection import MUTATING, VALIDATING
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.serving_certificate import SECRETS
from quorate.webhooks.webhook_configurations import webhook_configurations

NAMESPACES: Final = untyped("", "v1", "namespaces", "Namespace", False)
ENDPOINTS: Final = untyped("", "v1", "endpoints", "Endpoints", True)
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_LOCAL: Final = "quorate-local"


def check_webhooks(configuration: Configuration) -> None:
    """Raise ``UsageError`` if the configuration asks for webhooks that a local cluster cannot have."""
    if configuration.webhooks.address is not None:
        _reachable_host(configuration.webhooks.address)
        if file := configuration.webhooks.client_ca_file:
            raise UsageError(
                f"webhook.clientCAFile: {file!r} requires a client certificate of the API server, and that "
                "of a local cluster presents none to webhooks (leave it out)"
            )
        if not configuration.certificates.enable:
            _read_authority(configuration)


async def prepare_namespaces(client: Client, configuration: Configuration) -> None:
    """Create the namespaces in which the controllers keep their Lease and their certificates."""
    election = configuration.leader_election
    namespaces = []
    if election.elect:
        namespaces.append(election.namespace or configuration.namespace)
    if configuration.webhooks.address is not None:
        namespaces.append(configuration.namespace)
    for name in dict.fromkeys(namespaces):
        await _apply(client, NAMESPACES, Key("", name), {})


@asynccontextmanager
async def installed_webhooks(client: Client, configuration: Configuration) -> AsyncIterator[None]:
    """Install the webhook configurations while the block lasts, if webhooks are served."""
    address = configuration.webhooks.address
    if address is None:
        yield
        return
    service = Key(configuration.namespace, configuration.certificates.service)
    target = {"addresses": [{"ip": _reachable_host(address)}], "ports": [{"port": address.port}]}
    ports = [{"port": 443, "targetPort": address.port}]
    await _apply(client, SERVICES, service, {"spec": {"ports": ports}})
    await _apply(client, ENDPOINTS, service, {"subsets": [target]})
    bundle = base64.b64encode(await _authority(client, configuration)).decode()
    endpoint = WebhookEndpoint(service.namespace, service.name, ca_bundle=bundle)
    manifests = webhook_configurations(configuration, served_routes(configuration), endpoint)
    for resource, manifest in zip((MUTATING, VALIDATING), manifests, strict=True):
        name = Key("", manifest["metadata"]["name"])
        await _apply(client, resource, name, {"webhooks": manifest["webhooks"]})
    try:
        yield
    finally:
        await remove_webhooks(client)


async def remove_webhooks(client: Client) -> None:
    """Delete the webhook configurations that a local cluster has installed itself."""
    for resource in (MUTATING, VALIDATING):
        listed = await client.list(resource, label_selector=f"{_MANAGED_BY}={_LOCAL}")
        for configuration in listed.items:
            await client.delete(resource, Key("", configuration["metadata"]["name"]))


async def _authority(client: Client, configuration: Configuration) -> bytes:
    """Return the certificate of the authority, in PEM, that signed the serving certificate."""
    if not configuration.certificates.enable:
        return _read_authority(configuration)
    key = Key(configuration.namespace, configuration.certificates.secret)
    return base64.b64decode((await client.get(SECRETS, key))["data"]["ca.crt"])


def _read_authority(configuration: Configuration) -> bytes:
    file = Path(configuration.webhooks.certificate_directory, "ca.crt")
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"internalCertManagement.enable: false: {file}: {(error.strerror or '').lower()}: a local "
            "cluster needs the certificate of the authority that signed tls.crt (put it there, or leave "
            "internalCertManagement out: then the certificates are made)"
        ) from error


def _reachable_host(address: Address) -> str:
    """Return the IP address at which the API server of this machine reaches a listening address."""
    if address.host in ("", "localhost"):
        return "127.0.0.1"
    try:
        ip = ip_address(address.host)
    except ValueError as error:
        raise UsageError(
            f"webhook.host: {address.host!r} is not an IP address: the local cluster calls webhooks at one "
            "(write 127.0.0.1, or leave it out for every interface)"
        ) from error
    if ip.is_unspecified:
        return "::1" if ip.version == 6 else "127.0.0.1"
    return str(ip)


async def _apply(client: Client, resource: Resource[Json], key: Key, content: Json) -> None:
    await client.apply(resource, key, {"metadata": {"labels": {_MANAGED_BY: _LOCAL}}, **content})
