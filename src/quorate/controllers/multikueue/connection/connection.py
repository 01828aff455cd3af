"""The connection to one worker cluster, in a task of its own: no other cluster waits for it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.context import ControllerContext
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.controllers.multikueue.workload_copy import WORKLOAD_COPIES, WorkloadCopy
from quorate.kube.cancellation import end_tasks
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, RequestFailed, Unauthorized
from quorate.kube.flowcontrol import Backoff, TokenBucketRateLimiter
from quorate.kube.informer import Change, Informer
from quorate.kube.limits import STABLE_WATCH_S
from quorate.kube.log import logger
from quorate.kube.rest.config import RestConfig, config_of
from quorate.kube.rest.kubeconfig import InvalidKubeconfig, KubeconfigContext

# Kueue's initialEstablishTimeout and maxEstablishTimeout.
ESTABLISH: Final = Backoff(first_s=60.0, cap_s=600.0)

REQUEST_S: Final = 10.0  # the deadline of a request to a worker cluster
PROBE_S: Final = 30.0  # between two probes; a watch does not show that a server hangs, or refuses a token
CONCURRENCY: Final = 16  # requests to one worker cluster at the same time
ANSWER_BYTES: Final = 64 * 2**20  # of one response; a small page of the largest objects has less


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the last attempt failed, how many failed in a row, and when the next is due (epoch seconds)."""

    problem: str
    attempts: int
    next_attempt: float


def worker_client(config: RestConfig, configuration: Configuration, local: Client) -> Client:
    """Return a client that may write as long as the client of this cluster may: while this process leads.

    The limits of ``clientConnection`` hold for each worker cluster too, unless a gate is off.
    """
    limits = configuration.client_connection
    if not configuration.multikueue_gates.reuse_client_connection:
        limits = None
    return Client(
        config,
        local.rng,
        concurrency=CONCURRENCY,
        deadline_s=REQUEST_S,
        rate_limiter=None if limits is None else TokenBucketRateLimiter(limits.qps, limits.burst),
        permit=local.permit,
        answer_bytes=ANSWER_BYTES,
    )


class Connection:
    """Connects to one worker cluster with the latest credentials; ``on_change`` tells that it has news.

    The steady clock decides when an attempt is due, the wall clock is shown.
    """

    def __init__(
        self, name: str, workers: Workers, context: ControllerContext, on_change: Callable[[], None]
    ) -> None:
        self.name = name
        self.failure: Failure | None = None  # of the last attempt; None: it succeeded, or there was none
        self._workers, self._context, self._clock = workers, context, context.clock
        self._on_change = on_change
        rules = context.configuration.multikueue
        self._retry = Backoff(rules.first_retry_s, rules.longest_retry_s)
        self._credentials: KubeconfigContext | None = None
        self._attempts = 0  # that failed in a row
        self._due = self._clock.steady.now()  # of the next attempt
        self._connected_at = 0.0  # of the last successful attempt, steady time
        self._task: asyncio.Task[None] | None = None
        self._log = logger(__name__).bind(cluster=name)
        workers.lost(name, self._clock.now())

    @property
    def is_connected(self) -> bool:
        return self._workers.get(self.name) is not None

    async def use(self, credentials: KubeconfigContext) -> None:
        """Connect with ``credentials`` unless that is done already, or not due yet after a failure."""
        if credentials != self._credentials:
            await self.disconnect()
            self._credentials, self.failure = credentials, None
            self._attempts, self._due = 0, self._clock.steady.now()
        if self._task is None and self._clock.steady.now() >= self._due:
            self._task = asyncio.create_task(self._run(credentials), name=f"worker cluster {self.name}")

    async def disconnect(self) -> None:
        """End the connection, because the credentials are not usable or have changed."""
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None
        self._credentials = None
        self._workers.lost(self.name, self._clock.now())

    async def _run(self, credentials: KubeconfigContext) -> None:
        """Connect, and stay connected until a list or watch fails."""
        try:
            async with asyncio.timeout(ESTABLISH.delay_s(self._attempts + 1)) as establishing:
                config = await config_of(credentials)
                async with (
                    worker_client(config, self._context.configuration, self._context.client) as client,
                    asyncio.TaskGroup() as tasks,
                ):
                    selector = f"{ORIGIN}={self._context.configuration.multikueue.origin}"
                    workloads = Informer(client, WORKLOAD_COPIES, label_selector=selector)
                    following = tasks.create_task(workloads.run_until_failure())
                    watched = tasks.create_task(workloads.watching.wait())
                    await asyncio.wait((following, watched), return_when=asyncio.FIRST_COMPLETED)
                    if watched.done():
                        establishing.reschedule(None)
                        await self._connected(Worker(self.name, client, workloads))
                        await self._probe(client)
        except Exception as error:
            self._ended(error)

    async def _connected(self, worker: Worker) -> None:
        self.failure, self._connected_at = None, self._clock.steady.now()
        self._log.info("worker cluster connected", workloads=len(worker.workloads))
        self._workers.connected(worker)
        self._on_change()
        await worker.workloads.subscribe_in_slices(self._workload_changed)

    async def _probe(self, client: Client) -> None:
        """Send a small request from time to time; raise its error if the connection is of no use."""
        steady = self._clock.steady
        while True:
            await steady.sleep_until(steady.now() + PROBE_S)
            try:
                # An overloaded API server answers it, too: priority and fairness exempts it.
                await client.request("GET", "/livez")
            except Unauthorized:
                raise
            except ApiError:
                continue  # an answer all the same

    def _workload_changed(self, change: Change[WorkloadCopy]) -> None:
        self._workers.workload_changed(change.key)

    def _ended(self, error: Exception) -> None:
        """Record a lost connection, which is established again at once, or a failed attempt.

        A connection that was lost soon is a failed attempt, such as to a server that refuses watches.
        """
        problem, now, self._task = _problem_of(error), self._clock.steady.now(), None
        if self.is_connected:
            self._log.warning("worker cluster lost", problem=problem)
            self._workers.lost(self.name, self._clock.now())
            if now - self._connected_at >= STABLE_WATCH_S:
                self._attempts = 0
                self._due = now
                self._on_change()
                return
        self._attempts += 1
        delay_s = self._retry.delay_s(self._attempts)
        self._due = now + delay_s
        self.failure = Failure(problem, self._attempts, self._clock.now() + delay_s)
        self._log.warning("worker cluster not connected", problem=problem, retry_in_s=delay_s)
        self._on_change()


def _problem_of(error: Exception) -> str:
    """Return the message of the first error in a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "watch establishment timed out"
    if isinstance(error, RequestFailed | InvalidKubeconfig):
        return str(error)
    return f"{type(error).__name__}: {error}"
