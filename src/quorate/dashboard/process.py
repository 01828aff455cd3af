"""The dashboard of one cluster: its model, sessions, forecasts and server, wired together."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import Address, Health
from quorate.api.meta import Key
from quorate.dashboard.history.history import History, default_file, open_history, recording
from quorate.dashboard.limits import MAX_REVIEWS, SessionLimits
from quorate.dashboard.login.authorization import Authorization
from quorate.dashboard.login.login import Login, LoginOptions
from quorate.dashboard.login.oidc import OidcLogins, OidcSettings
from quorate.dashboard.login.sessions import Caller, OneTimeLinks, Sessions
from quorate.dashboard.model.changes import Changed
from quorate.dashboard.model.explanation_feed import ExplanationFeed
from quorate.dashboard.model.model import DashboardModel, run_model
from quorate.dashboard.serving.app import Dashboard
from quorate.dashboard.serving.event_stream import EventStreams
from quorate.dashboard.serving.reads import Reads
from quorate.dashboard.serving.server_tls import CertificateFiles
from quorate.dashboard.serving.static_files import StaticFiles
from quorate.dashboard.serving.submissions import Submissions
from quorate.dashboard.simulation.forecasts import Forecasts
from quorate.dashboard.simulation.simulation_process import Cluster
from quorate.dashboard.simulation.what_if import WhatIf
from quorate.inspect.cluster_model import effective_configuration
from quorate.kube.cancellation import end_tasks
from quorate.kube.client import Client
from quorate.kube.clock import Clock, WallClock
from quorate.kube.log import logger
from quorate.kube.rest.config import RestConfig, is_in_cluster, load_anonymous_config, load_rest_config
from quorate.kube.serving.bounded_server import ServerLimits
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.serving import health_checks, serving

# Every event stream is a connection.  A header may have the cookies of other sites on the same host.
LIMITS: Final = ServerLimits(
    connections=2000, buffered_bytes=128 * 2**20, transfer_s=10.0, idle_s=75.0, header_bytes=32 * 1024
)


@dataclass(frozen=True, slots=True)
class Options:
    address: Address
    cluster: Cluster  # for the processes of simulations
    tls: ssl.SSLContext | None = None
    oidc: OidcSettings | None = None
    external_url: str = ""
    has_links: bool = False  # one-time links log in with the credentials of this process
    has_forecasts: bool = True
    history: Path | None = None  # the file; None: no history is kept
    limits: ServerLimits = LIMITS
    session_limits: SessionLimits = field(default_factory=SessionLimits)


@asynccontextmanager
async def run_dashboard(
    client: Client,
    anonymous: RestConfig,
    configuration: Configuration,
    options: Options,
    clock: Clock,
    rng: random.Random,
    announce: Callable[[str], None],
) -> AsyncIterator[tuple[DashboardModel, Address]]:
    """Serve the dashboard while the block lasts; ``announce`` gets the address of each one-time link.

    Yield the model, and the address that is bound.

    ``client`` has the credentials of the dashboard, ``anonymous`` none.  Raises ``CannotListen``,
    ``OidcError`` or ``UnusableHistory``.
    """
    at: list[Address] = []  # once it is bound

    def announce_link(code: str) -> None:
        scheme = "http" if options.tls is None else "https"
        announce(f"{scheme}://{at[0]}/login/once?code={code}")

    links = OneTimeLinks(clock, announce_link) if options.has_links and options.address.is_loopback else None
    sessions = Sessions(clock, rng, options.session_limits)
    async with _model(client, clock, configuration, options.history) as (model, history):
        forecasts = _forecasts(model, sessions, options, client, clock)
        auth = DelegatedAuth(client, clock, MAX_REVIEWS, options.session_limits.access_s)
        authorization = Authorization(auth, lambda: _namespaces(model))
        login = Login(
            LoginOptions(
                anonymous=anonymous,
                own=client.config,
                oidc=None if options.oidc is None else OidcLogins(options.oidc, clock),
                links=links,
                external_url=options.external_url,
            ),
            sessions,
            authorization,
            clock,
        )

        async def recheck(caller: Caller) -> Caller | None:
            if not await sessions.is_valid(caller.session):
                return None
            return Caller(caller.session, await authorization.viewer(caller.session.user))

        what_if = WhatIf(options.cluster, options.session_limits.comparisons)
        dashboard = Dashboard(
            login,
            authorization,
            Reads(model, history, authorization, forecasts, clock),
            what_if,
            Submissions(model, authorization, what_if),
            EventStreams(model.changes.subscribe, recheck, clock, options.session_limits),
            StaticFiles(),
        )
        app = dashboard.application(over_tls=options.tls is not None, on_loopback=options.address.is_loopback)
        explanations = ExplanationFeed(model, client, clock, lambda: len(sessions) > 0)
        tasks = [asyncio.create_task(explanations.run(), name="explanations")]
        if options.has_forecasts:
            tasks.append(asyncio.create_task(forecasts.run(), name="forecasts"))
        try:
            async with serving("--address", options.address, app, options.tls, options.limits) as bound:
                assert bound is not None
                at.append(bound)
                if links is not None:
                    links.renew()
                yield model, bound
        finally:
            await end_tasks(tasks)
            await sessions.close()


@asynccontextmanager
async def _model(
    client: Client, clock: Clock, configuration: Configuration, file: Path | None
) -> AsyncIterator[tuple[DashboardModel, History | None]]:
    """Yield the model and its history, which is recorded in ``file``; None: no history is kept."""
    if file is None:
        async with run_model(client, clock, configuration) as model:
            yield model, None
        return
    async with (
        open_history(file, clock) as history,
        run_model(client, clock, configuration, history.follow) as model,
        recording(history, model, clock),
    ):
        yield model, history


def _forecasts(
    model: DashboardModel, sessions: Sessions, options: Options, client: Client, clock: Clock
) -> Forecasts:
    def local_queue_of(workload: Key) -> str:
        workloads = model.data.workloads.by_key
        listed = workloads.get(workload)
        return listed.group.local_queue.name if listed is not None else ""

    def cluster_queue_of(local_queue: Key) -> str:
        return model.data.cluster_queue_of_local_queue(local_queue)

    return Forecasts(
        options.cluster,
        client,
        clock,
        lambda: len(sessions) > 0,
        local_queue_of,
        cluster_queue_of,
        lambda: model.changes.note(Changed("forecast")),
    )


def _namespaces(model: DashboardModel) -> set[str]:
    """Return the namespaces that have objects to show."""
    data = model.data
    return {
        *(key.namespace for key in data.ledger.local_queues),
        *(group.local_queue.namespace for group in data.workloads.groups),
        *(key.namespace for key in data.pod_groups),
    }


async def serve_dashboard(
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    options: Options,
    certificate: CertificateFiles | None,
    health_address: Address | None,
    announce: Callable[[str], None],
) -> None:
    """Serve the dashboard of the cluster that the kubeconfig selects until cancelled."""
    clock, rng = WallClock(), random.Random()
    own = await load_rest_config(kubeconfig, context)
    anonymous = load_anonymous_config(kubeconfig, context)
    # A link would lend the service account of a pod to each user that may read its log.
    in_cluster = is_in_cluster(kubeconfig)
    options = replace(options, has_links=not in_cluster)
    if options.history is None and not in_cluster:
        options = replace(options, history=default_file(own.server))
    async with Client(own, rng, field_manager="quorate-dashboard") as client:
        effective = await effective_configuration(client, config)
        async with run_dashboard(
            client, anonymous, effective.configuration, options, clock, rng, announce
        ) as (model, bound):
            logger(__name__).info("serving", address=bound, server=own.server)
            probes = health_checks(Health(), model.ready, {})
            async with serving("--health-address", health_address, probes):
                await _follow(certificate, clock)


async def _follow(certificate: CertificateFiles | None, clock: Clock) -> None:
    """Wait until cancelled."""
    if certificate is None:
        await asyncio.Event().wait()
    else:
        await certificate.follow(clock)
