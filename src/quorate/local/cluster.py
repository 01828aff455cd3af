"""A cluster on one machine: API server, controllers and simulated nodes in one event loop.

All parts access the API server over HTTP with the administrator's token, like any client, but through
socket pairs: TLS would take a third of the processor time of a start.
"""

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from quorate.api.native_groups import GENERIC_WORKLOAD, WORKLOAD_WITH_JOB
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.rest.config import RestConfig, load_rest_config
from quorate.local.controllers.start import run_controllers
from quorate.local.directory import LockedDirectory
from quorate.local.nodes import NodePool, run_nodes
from quorate.local.runtime.node import wait_registered
from quorate.local.runtime.streaming.server import SOCKET
from quorate.local.runtime.supervisor import DIRECTORY, ProcessRuntime, run_kubelet
from quorate.local.server.apiserver import NO_CHECKS, ApiServer
from quorate.local.server.auth.authentication import User
from quorate.local.server.discovery.nonresource import Check
from quorate.local.server.registry.feature_gates import OFF_BY_DEFAULT
from quorate.local.server.registry.version_conversion import Converter
from quorate.local.server.storage.store import Key, Store

HOST: Final = "127.0.0.1"
DEFAULT_OBJECTS: Final = (Key("serviceaccounts", "default", "default"),)
ADMINISTRATOR: Final = User("quorate-local-admin", ("system:masters",))


@dataclass(frozen=True, slots=True)
class Settings:
    pools: Sequence[NodePool]
    port: int = 0  # 0: any free port
    speed: float = 1.0  # how much faster than real time simulated pods run
    plain_scheduler: bool = True  # run a scheduler for pods of "default-scheduler"
    runtime: ProcessRuntime | None = None  # the node of this machine, on which pods run as processes
    disabled_gates: frozenset[str] = OFF_BY_DEFAULT  # feature gates of Kubernetes that are off


class LocalCluster(NamedTuple):
    """A running cluster."""

    rest_config: RestConfig  # of the administrator, for clients in this process
    nodes_registered: Callable[[], Awaitable[None]]  # returns once the kubelets of all nodes registered them


class AddressUnusable(Exception):
    """The server cannot listen on the requested port."""

    def __init__(self, port: int, reason: str) -> None:
        super().__init__(port, reason)
        self.port, self.reason = port, reason

    def __str__(self) -> str:
        return f"port {self.port}: {self.reason} (choose another with --port; 0 takes any that is free)"


@asynccontextmanager
async def run_cluster(
    directory: LockedDirectory,
    settings: Settings,
    clock: Clock,
    rng: random.Random,
    new_uid: Callable[[], str],
    converters: Mapping[str, Converter],
    ready_checks: Mapping[str, Check] = NO_CHECKS,
) -> AsyncIterator[LocalCluster]:
    """Run a cluster with the nodes of ``settings`` until the block ends; store its state in ``directory``.

    ``converters`` converts custom resources between versions, by API group. ``ready_checks`` must hold before
    /readyz answers with 200, besides the default objects of the controllers. A part that fails ends the block
    with an ``ExceptionGroup``. Raises ``AddressUnusable``.
    """
    simulated, this_machine = asyncio.Event(), asyncio.Event()

    async def nodes_registered() -> None:
        await simulated.wait()
        if settings.runtime is not None:
            await this_machine.wait()

    async with (
        run_server(
            directory,
            settings.port,
            clock,
            new_uid,
            converters,
            ready_checks,
            DEFAULT_OBJECTS,
            settings.disabled_gates,
        ) as rest_config,
        Client(rest_config, rng, streams_lists=True) as client,
        asyncio.TaskGroup() as parts,
    ):
        volumes = directory.path / DIRECTORY / "volumes"
        controllers = run_controllers(
            client, clock, rng, volumes,
            with_scheduler=settings.plain_scheduler,
            with_job_pod_groups=not {GENERIC_WORKLOAD, WORKLOAD_WITH_JOB} & settings.disabled_gates,
            authority=directory.credentials(clock.now()).authority,
        )  # fmt: skip
        tasks = [
            parts.create_task(controllers),
            parts.create_task(run_nodes(client, clock, settings.pools, settings.speed, simulated)),
        ]
        if settings.runtime is not None:
            name = settings.runtime.node_name
            tasks += (
                parts.create_task(wait_registered(client, clock, name, this_machine)),
                parts.create_task(run_kubelet(directory.path, settings.runtime, clock, this_machine)),
            )
        yield LocalCluster(rest_config, nodes_registered)
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def run_server(
    directory: LockedDirectory,
    port: int,
    clock: Clock,
    new_uid: Callable[[], str],
    converters: Mapping[str, Converter],
    ready_checks: Mapping[str, Check] = NO_CHECKS,
    required_objects: Sequence[Key] = (),
    disabled_gates: frozenset[str] = frozenset(),
) -> AsyncIterator[RestConfig]:
    """Run only the API server, and publish its address in ``directory``.

    Yield the configuration of the administrator, for clients in this process.

    /readyz answers with 200 once the ``ready_checks`` hold and the ``required_objects`` exist.

    Raises ``AddressUnusable``.
    """
    credentials = directory.credentials(clock.now())
    tokens = {credentials.token: ADMINISTRATOR}
    keys = directory.server_keys(clock.now())
    kubelet = directory.path / DIRECTORY / SOCKET
    store = Store(directory.database)
    required = {"default-objects": lambda: all(store.get(key) is not None for key in required_objects)}
    checks = {**required, **ready_checks}
    server = ApiServer(
        store, tokens, clock, new_uid, converters, keys, checks, kubelet, disabled_gates=disabled_gates
    )
    try:
        try:
            await server.start(HOST, port, credentials.tls)
        except OSError as error:
            raise AddressUnusable(port, _reason(error)) from error
        directory.publish_address(f"https://{HOST}:{server.port}", credentials)
        yield replace(await load_rest_config(directory.kubeconfig), connect=server.connect)
    finally:
        await server.stop()


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another process listens there"
    return (error.strerror or str(error)).lower()
