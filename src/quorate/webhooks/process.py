"""The webhook server in a process: read the certificate, serve, renew the certificate."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from quorate.api.configuration import Configuration
from quorate.controllers.integrations import enabled_kinds
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import RequestFailed
from quorate.kube.log import logger
from quorate.kube.manager.restart import run_restarting
from quorate.kube.resources import Resource
from quorate.kube.serving.bounded_server import ServerLimits
from quorate.kube.serving.tls import KeyPair, UnusableCertificate, load_certificate, server_context
from quorate.observe.serving import require_free, serving
from quorate.webhooks.admission_review import AdmissionWebhook, Handler
from quorate.webhooks.cluster_reader import CachedClusterReader, ClusterReader
from quorate.webhooks.job_webhook import JobWebhook
from quorate.webhooks.limits import (
    CERTIFICATE_FILES_INTERVAL_S,
    CERTIFICATE_RETRY_S,
    CERTIFICATE_SECRET_INTERVAL_S,
)
from quorate.webhooks.pod_webhooks import pod_resources, pod_webhooks
from quorate.webhooks.queueing_webhooks import queueing_webhooks
from quorate.webhooks.routes import ROUTES, Route, route_of
from quorate.webhooks.serving_certificate import (
    CertificateFiles,
    CertificateSecret,
    CertificateSource,
    ClientAuthority,
    NoCertificate,
)
from quorate.webhooks.volcano.volcano_reader import CachedVolcanoReader
from quorate.webhooks.volcano.volcano_webhooks import VolcanoWebhooks
from quorate.webhooks.webhook_server import webhook_server

_FIELD: Final = "webhook.port"
LIMITS: Final = ServerLimits(connections=1000)  # each concurrent request of each API server needs one


async def run_webhooks(
    client: Client, clock: Clock, configuration: Configuration, serves: asyncio.Event
) -> None:
    """Serve until cancelled; set ``serves`` at the start.  Raises ``CannotListen``.

    While there is no certificate, log the reason and retry: it may be installed later.
    """
    address = configuration.webhooks.address
    if address is not None:
        await require_free(_FIELD, address)
    source, interval_s = _certificate_source(client, clock, configuration)
    context = server_context(configuration.tls)
    client_ca_file = configuration.webhooks.client_ca_file
    clients = ClientAuthority(Path(client_ca_file), context) if client_ca_file else None
    served = await _first_certificate(source, clock, context, clients)
    reader = CachedClusterReader(client, configuration, _queued(configuration))
    readers: list[Callable[[], Coroutine[Any, Any, None]]] = [reader.run]
    handlers: Mapping[str, Handler] = {}
    rules = configuration.pod_group_webhooks
    if rules is not None:
        names = configuration.gang.scheduler_names
        volcano_reader = CachedVolcanoReader(client, clock, names, reader.namespace)
        handlers = VolcanoWebhooks(volcano_reader, rules, names).handlers()
        readers.append(volcano_reader.run)
    routes = webhooks_by_route(configuration, reader)
    server = webhook_server(routes, handlers, verify_clients=clients is not None)
    async with (
        serving(_FIELD, address, server, context, LIMITS),
        asyncio.TaskGroup() as tasks,
    ):
        serves.set()
        for run_reader in readers:
            caches = run_restarting("caches of the webhooks", run_reader, clock)
            tasks.create_task(caches, name="caches of the webhooks")
        renewal = run_restarting(
            "certificate", lambda: _renew(source, clock, context, served, interval_s, clients), clock
        )
        tasks.create_task(renewal, name="certificate")


def webhooks_by_route(
    configuration: Configuration, reader: ClusterReader
) -> dict[Route, AdmissionWebhook | None]:
    """Return the webhook of each route, and of each kind that the configuration declares."""
    jobs: dict[Route, AdmissionWebhook] = {
        route_of(kind.resource): JobWebhook(kind, reader, configuration)
        for kind in enabled_kinds(configuration.integrations)
    }
    jobs |= {route_of(resource): webhook for resource, webhook in pod_webhooks(reader, configuration).items()}
    queueing = queueing_webhooks(configuration)
    served = {route: jobs.get(route) if route.is_job else queueing[route.kind] for route in ROUTES}
    return served | jobs


def served_routes(configuration: Configuration) -> list[Route]:
    """Return the routes of the queueing kinds and of the kinds that are queued."""
    jobs = {route_of(resource) for resource in _queued(configuration)}
    of_kueue = [route for route in ROUTES if not route.is_job or route in jobs]
    return [*of_kueue, *sorted(jobs.difference(ROUTES), key=lambda route: route.path("mutate"))]


def _queued(configuration: Configuration) -> Iterator[Resource[Any]]:
    for kind in enabled_kinds(configuration.integrations):
        yield kind.resource
    yield from pod_resources(configuration.integrations.frameworks)


def _certificate_source(
    client: Client, clock: Clock, configuration: Configuration
) -> tuple[CertificateSource, float]:
    if configuration.certificates.enable:
        return CertificateSecret(client, clock, configuration), CERTIFICATE_SECRET_INTERVAL_S
    return CertificateFiles(Path(configuration.webhooks.certificate_directory)), CERTIFICATE_FILES_INTERVAL_S


async def _first_certificate(
    source: CertificateSource, clock: Clock, context: ssl.SSLContext, clients: ClientAuthority | None
) -> KeyPair:
    logged = ""
    while True:
        try:
            if clients is not None:
                clients.load()
            pair = await source.current()
            load_certificate(context, pair)
            return pair
        except (NoCertificate, UnusableCertificate, RequestFailed) as error:
            if str(error) != logged:
                logger(__name__).warning("webhooks cannot be served yet", error=str(error))
                logged = str(error)
        await clock.sleep_until(clock.now() + CERTIFICATE_RETRY_S)


async def _renew(
    source: CertificateSource,
    clock: Clock,
    context: ssl.SSLContext,
    served: KeyPair,
    interval_s: float,
    clients: ClientAuthority | None,
) -> None:
    """Renew the certificate regularly; the old one stays valid for a month after a failure."""
    log = logger(__name__)
    while True:
        await clock.sleep_until(clock.now() + interval_s)
        try:
            if clients is not None:
                clients.load()
            current = await source.current()
            if current != served:
                load_certificate(context, current)
                served = current
                log.info("certificate replaced")
        except (NoCertificate, UnusableCertificate, RequestFailed) as error:
            log.warning("certificate not renewed", error=str(error))
