"""The webhook server as a part of a process: certificate first, then serving, then keeping both good."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import Address
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.integrations import BATCH_JOB, enabled_kinds
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.kube.resources import JOBS, Resource
from quorate.kube.serving.certificates import KeyPair, UnusableCertificate
from quorate.kube.serving.tls import server_context, show
from quorate.observe.serving import serving
from quorate.webhooks.admission_review import Handler
from quorate.webhooks.certificate_source import (
    CertificateFiles,
    CertificateSecret,
    CertificateSource,
    NoCertificate,
)
from quorate.webhooks.cluster_reader import CachedClusterReader, ClusterReader
from quorate.webhooks.job_webhook import JobWebhook
from quorate.webhooks.pod_webhooks import pod_resources, pod_webhooks
from quorate.webhooks.queueing_webhooks import AdmissionWebhook, queueing_webhooks
from quorate.webhooks.routes import ROUTES, Route, route_of
from quorate.webhooks.volcano.volcano_reader import CachedVolcanoReader
from quorate.webhooks.volcano.volcano_webhooks import VolcanoWebhooks
from quorate.webhooks.webhook_server import webhook_server

DEFAULT_ADDRESS: Final = Address("127.0.0.1", 9443)
FILES_EVERY_S: Final = 10.0
SECRET_EVERY_S: Final = 30.0  # ten small requests; a configuration applied anew is mended by then
AGAIN_S: Final = 2.0  # while there is no certificate at all


async def run_webhooks(
    client: Client, clock: Clock, configuration: Configuration, serves: asyncio.Event
) -> None:
    """Serve until cancelled; ``serves`` is set once clients are answered.  Raises ``CannotListen``.

    While no certificate can be had this says so and tries again: what it takes may be installed later.
    """
    source, every_s = _certificate_source(client, clock, configuration)
    context = server_context(configuration.tls)
    shown = await _first_shown(source, clock, context)
    reader = CachedClusterReader(client, configuration, _queued(configuration))
    known: list[Callable[[], Coroutine[Any, Any, None]]] = [reader.run]
    answers: Mapping[str, Handler] = {}
    rules = configuration.pod_group_webhooks
    if rules is not None:
        names = configuration.gang.scheduler_names
        facts = CachedVolcanoReader(client, clock, names, reader.namespace)
        answers = VolcanoWebhooks(facts, rules, names).answers()
        known.append(facts.run)
    server = webhook_server(webhooks_by_route(configuration, reader), answers)
    async with (
        serving("webhook", configuration.webhooks.address, server, context),
        asyncio.TaskGroup() as tasks,
    ):
        serves.set()
        for keep_true in known:
            tasks.create_task(keep_true(), name="surroundings of reviews")
        tasks.create_task(_keep_shown(source, clock, context, shown, every_s), name="certificate")


def with_webhooks(configuration: Configuration, asked: bool | None) -> Configuration:
    """``configuration`` with webhooks served or not as ``asked``; ``None`` leaves it as it is.

    Asked for without an address they are served on loopback: to listen further takes a configuration.
    """
    webhooks = configuration.webhooks
    if asked is None or asked is (webhooks.address is not None):
        return configuration
    changed = msgspec.structs.replace(webhooks, address=DEFAULT_ADDRESS if asked else None)
    return msgspec.structs.replace(configuration, webhooks=changed)


def webhooks_by_route(
    configuration: Configuration, reader: ClusterReader
) -> dict[Route, AdmissionWebhook | None]:
    """Who reviews what, for every route there is and for the kinds that the configuration declares."""
    jobs: dict[Route, AdmissionWebhook] = {
        route_of(kind.resource): JobWebhook(kind, reader, configuration)
        for kind in enabled_kinds(configuration.integrations)
    }
    if BATCH_JOB in configuration.integrations.frameworks:
        batch = BatchJob()
        jobs[route_of(batch.resource)] = JobWebhook(batch, reader, configuration)
    jobs |= {route_of(resource): each for resource, each in pod_webhooks(reader, configuration).items()}
    queueing = queueing_webhooks(configuration)
    known = {route: jobs.get(route) if route.is_job else queueing[route.kind] for route in ROUTES}
    return known | jobs


def served_routes(configuration: Configuration) -> list[Route]:
    """The routes of the kinds that ``configuration`` queues, and of those that say how."""
    jobs = {route_of(resource) for resource in _queued(configuration)}
    known = [route for route in ROUTES if not route.is_job or route in jobs]
    return [*known, *sorted(jobs.difference(ROUTES), key=lambda route: route.path("mutate"))]


def _queued(configuration: Configuration) -> Iterator[Resource[Any]]:
    if BATCH_JOB in configuration.integrations.frameworks:
        yield JOBS
    for kind in enabled_kinds(configuration.integrations):
        yield kind.resource
    yield from pod_resources(configuration.integrations.frameworks)


def _certificate_source(
    client: Client, clock: Clock, configuration: Configuration
) -> tuple[CertificateSource, float]:
    if configuration.certificates.enable:
        return CertificateSecret(client, clock, configuration), SECRET_EVERY_S
    return CertificateFiles(Path(configuration.webhooks.certificate_directory)), FILES_EVERY_S


async def _first_shown(source: CertificateSource, clock: Clock, context: ssl.SSLContext) -> KeyPair:
    said = ""
    while True:
        try:
            pair = await source.current()
            show(context, pair)
            return pair
        except (NoCertificate, UnusableCertificate, ApiError, Unreachable, Unreadable) as error:
            if str(error) != said:
                logger(__name__).warning("webhooks cannot be served yet", problem=str(error))
                said = str(error)
        await clock.sleep_until(clock.now() + AGAIN_S)


async def _keep_shown(
    source: CertificateSource, clock: Clock, context: ssl.SSLContext, shown: KeyPair, every_s: float
) -> None:
    """A certificate that cannot be renewed now is good for a month yet; the old one is shown until then."""
    log = logger(__name__)
    while True:
        await clock.sleep_until(clock.now() + every_s)
        try:
            current = await source.current()
            if current != shown:
                show(context, current)
                shown = current
                log.info("certificate replaced")
        except (NoCertificate, UnusableCertificate, ApiError, Unreachable, Unreadable) as error:
            log.warning("certificate not looked after", problem=str(error))
