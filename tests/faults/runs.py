"""One run: a scene on a local cluster with the controllers behind a proxy that injects faults.

Findings are sentences.  A run without findings kept every promise in every stored state, and
all jobs ended after the faults stopped.
"""

import asyncio
import contextvars
import itertools
import logging
import random
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import LeaderElection
from quorate.api.meta import Key, is_true
from quorate.controllers.process import run_replica
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.log import JsonFormatter
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, COHORTS, JOBS, WORKLOADS
from quorate.kube.rest.config import RestConfig
from quorate.local.nodes import NodePool
from quorate.observe.replica import Replica
from tests.e2e.world import World, running_cluster
from tests.elections import in_this_loop
from tests.faults import processes
from tests.faults.administrator import changes
from tests.faults.cluster_runs import run_clusters
from tests.faults.final_state import final_state_findings, lasting_model_differences
from tests.faults.gang_runs import run_gangs
from tests.faults.history import History, recorded
from tests.faults.promises import Promises
from tests.faults.proxy import ClientEndpoint, Proxy
from tests.faults.scene import CHECK, NAMESPACE, Scene, Submission, generate_scene
from tests.faults.stacks import waiting_tasks
from tests.faults.topology_promises import TopologyPromises
from tests.faults.topology_scene import CPUS, FLEET, generate_topology_scene, lose_nodes
from tests.faults.trials import Report, Trial

FAULTS_S = 1.0  # duration of the faults after the last submission
FAULTS_ON_PROCESSES_S = 4.0  # the same for processes, which start slowly
SETTLE_TIMEOUT_S = 30.0  # the longest time without a stored change before all jobs end
RUN_TIMEOUT_S = 90.0  # the longest duration of a run
STOPS = 10  # how often a run that does not end is cancelled, once a second
DEADLINE_S = 0.5  # of the controllers' requests: short, so that a lost response costs little
DEBOUNCE_S = 0.7
LINES = JsonFormatter()  # they have milliseconds
TERMS = LeaderElection(
    elect=True, name="faults", namespace=NAMESPACE, lease_s=2, renew_deadline_s=1.4, retry_s=0.1
)


class JumpingClock(WallClock):
    """A wall clock with jumps: each of ``jumps`` is a time and the offset from then on."""

    def __init__(self, jumps: tuple[tuple[float, float], ...]) -> None:
        self._begun = super().now()
        self._jumps = jumps

    def now(self) -> float:
        true = super().now()
        off_s = 0.0
        for after_s, by_s in self._jumps:
            if true - self._begun >= after_s:
                off_s = by_s
        return true + off_s


async def run(trial: Trial) -> Report:
    """Execute ``trial`` and return its report; a run beyond the timeout is cancelled and a finding."""
    report = Report(trial)
    began = asyncio.get_running_loop().time()
    scenarios = {"gangs": run_gangs, "clusters": run_clusters}
    scenario = scenarios.get(trial.kind, _run_scene)
    running = asyncio.create_task(_with_logged_errors(scenario, trial, report))
    timeout_s = RUN_TIMEOUT_S * (3 if trial.kind == "clusters" else 1)
    ended, _ = await asyncio.wait({running}, timeout=timeout_s)
    if not ended:
        report.findings.append(f"no end after {timeout_s:g} s; where each task waits:\n{waiting_tasks()}")
    for _ in range(STOPS):  # repeatedly, as a task may ignore a cancellation
        if not ended:
            running.cancel()
            ended, _ = await asyncio.wait({running}, timeout=1.0)
    if not ended:
        report.findings.append(f"cancellation did not end it; where each task waits:\n{waiting_tasks()}")
    elif not running.cancelled() and (error := running.exception()) is not None:
        report.findings.append("".join(traceback.format_exception(error)))
    report.duration_s = asyncio.get_running_loop().time() - began
    return report


async def _with_logged_errors(
    scenario: Callable[[Trial, Report], Awaitable[None]], trial: Trial, report: Report
) -> None:
    with _logged(report):
        await scenario(trial, report)


async def _run_scene(trial: Trial, report: Report) -> None:
    has_places = trial.kind == "topologies"
    scene = generate_topology_scene(trial.seed) if has_places else generate_scene(trial.seed)
    async with (
        running_cluster(FLEET if has_places else NodePool(2, cpu="64")) as world,
        recorded(world.client) as history,
        Proxy(world.client.config, trial.plan(), DEBOUNCE_S) as proxy,
    ):
        report.injected = proxy.injected
        world.witnessed.resources = scene.configuration.resources
        await _Run(trial, scene, world, proxy, history, report).run()


class _Run:
    def __init__(
        self, trial: Trial, scene: Scene, world: World, proxy: Proxy, history: History, report: Report
    ) -> None:
        self._trial = trial
        self._scene = scene
        self._world = world
        self._proxy = proxy
        self._history = history
        self._report = report
        self._rng = random.Random(f"play {trial.seed}")
        self._clocks_jump = self._rng.random() < 0.5  # whether the clocks of a pair of replicas jump
        self._replicas: dict[int, Replica] = {}  # the latest replica by number
        self._lost_pods: set[Key] = set()  # of nodes that died
        self._outside: list[int] = []  # the newest version at each restart and each quota change

    async def run(self) -> None:
        tasks: list[asyncio.Task[None]] = []
        try:
            if self._scene.has_check:
                tasks.append(asyncio.create_task(_answer_checks(self._world.client, self._trial.seed)))
            replicas = range(2 if self._trial.kind == "pairs" else 1)
            tasks += [asyncio.create_task(self._keep_running(number)) for number in replicas]
            await self._submit_all()
            # sleeps: a storm of faults lasts for a time
            await asyncio.sleep(FAULTS_ON_PROCESSES_S if self._trial.kind == "crashes" else FAULTS_S)
            self._proxy.stop_faults()
            await self._until_settled(tasks)
            await self._history.complete(self._world.client)
            await self._check_history()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # The controllers and their restarts.

    async def _keep_running(self, number: int) -> None:
        """Restart the controllers whenever they end, as a supervisor does."""
        for incarnation in itertools.count():
            endpoint = self._proxy.endpoint()
            try:
                if self._trial.kind == "crashes":
                    await self._run_process(endpoint)
                else:
                    await self._run_controllers(endpoint, number, incarnation)
            finally:
                endpoint.close()
            # A process takes longer to start than the last requests of the previous one take to arrive.
            await endpoint.idle.wait()
            self._report.restarts += 1
            self._record_outside_event()

    def _record_outside_event(self) -> None:
        self._outside.append(max(self._history.seen.values(), default=0))

    async def _run_process(self, endpoint: ClientEndpoint) -> None:
        token = self._world.client.config.credentials.authorization().removeprefix("Bearer ")
        with TemporaryDirectory() as directory:
            if error := await processes.run_until_exit(
                endpoint, token, self._scene.configuration, Path(directory)
            ):
                self._report.findings.append(error)

    async def _run_controllers(self, endpoint: ClientEndpoint, number: int, incarnation: int) -> None:
        rng = random.Random(f"controllers {self._trial.seed} {number} {incarnation}")
        replica = self._replicas[number] = Replica("standalone")
        identities = (f"{number}-{incarnation}-{turn}" for turn in itertools.count())
        direct = self._world.client.config
        async with Client(
            RestConfig(endpoint.url, credentials=direct.credentials), rng, deadline_s=DEADLINE_S
        ) as client:
            running = asyncio.create_task(
                run_replica(
                    client,
                    self._clock(),
                    DynamicConfiguration(self._configuration()),
                    rng,
                    replica,
                    in_this_loop(client, self._clock(), lambda: next(identities)),
                )
            )
            endpoint.on_kill = partial(_cancel, running)
            try:
                (outcome,) = await asyncio.gather(running, return_exceptions=True)
            finally:
                running.cancel()
                endpoint.close()
        if not isinstance(outcome, asyncio.CancelledError):
            error = "".join(traceback.format_exception(outcome)) if outcome else ""
            self._report.findings.append(f"the controllers ended by themselves: {error}")

    def _clock(self) -> WallClock:
        jumping = self._trial.kind == "clocks" or (self._trial.kind == "pairs" and self._clocks_jump)
        if not jumping:
            return WallClock()
        far = 3600.0 if self._scene.configuration.wait_for_pods_ready is None else 1.0
        return JumpingClock(
            tuple((self._rng.uniform(0.1, 2.0), self._rng.choice((far, -far, 0.0))) for _ in range(3))
        )

    def _configuration(self) -> Configuration:
        configuration = self._scene.configuration
        if self._trial.kind == "pairs":
            return msgspec.structs.replace(configuration, leader_election=TERMS)
        return configuration

    # The users.

    async def _submit_all(self) -> None:
        for resource, body in self._scene.objects:
            await self._world.client.create(resource, body, NAMESPACE if resource.namespaced else "")
        if self._scene.has_check:
            await _activate_check(self._world.client)
        async with asyncio.TaskGroup() as users:
            for submission in self._scene.submissions:
                users.create_task(self._submit(submission))
            if self._trial.kind == "quotas":
                users.create_task(self._change_queues())
            if self._trial.kind == "topologies":
                users.create_task(lose_nodes(self._world.client, self._trial.seed, self._lost_pods))

    async def _change_queues(self) -> None:
        for change in changes(self._trial.seed, self._scene):
            await asyncio.sleep(change.after_s)
            await self._world.client.patch(CLUSTER_QUEUES, Key("", change.queue), {"spec": change.spec})
            self._record_outside_event()

    async def _submit(self, submission: Submission) -> None:
        await asyncio.sleep(submission.at_s)  # sleeps: the schedule of a trial
        await self._world.client.create(JOBS, submission.body, NAMESPACE)
        if submission.delete_at_s is not None:
            await asyncio.sleep(submission.delete_at_s - submission.at_s)  # sleeps: the schedule of a trial
            await self._world.client.delete(JOBS, Key(NAMESPACE, submission.name), propagation="Background")

    # The final state.

    async def _until_settled(self, tasks: list[asyncio.Task[None]]) -> None:
        clock = asyncio.get_running_loop().time
        known, deadline = 0, 0.0
        while findings := await final_state_findings(self._world.client, self._scene):
            for task in tasks:
                if task.done():
                    task.result()
            if len(self._history.steps) > known:  # progress, even if slow on a busy machine
                known, deadline = len(self._history.steps), clock() + SETTLE_TIMEOUT_S
            if clock() > deadline:
                self._report.findings += [f"not settled: {each}" for each in findings]
                roles = [replica.role for _, replica in sorted(self._replicas.items())]
                self._report.findings.append(f"not settled: the replicas are {', '.join(roles)}")
                return
            await asyncio.sleep(0.05)

    async def _check_history(self) -> None:
        client = self._world.client
        promises = Promises(
            (await client.list(CLUSTER_QUEUES)).items, (await client.list(COHORTS)).items, self._lost_pods
        )
        outside = sorted(self._outside)
        places = TopologyPromises(dict.fromkeys(FLEET.node_names, CPUS))
        for step in self._history.in_order():
            self._report.states += 1
            while outside and outside[0] < step.version:
                outside.pop(0)
                promises.outside_event()
            self._report.findings += promises.step(step)
            if self._trial.kind == "topologies":
                self._report.findings += places.step(step)
        self._report.replacements = places.replacements
        self._report.findings += await lasting_model_differences(
            client, self._replicas.values(), SETTLE_TIMEOUT_S
        )


def _cancel(running: asyncio.Task[None]) -> None:
    running.cancel()


# The controller of the admission check: a foreign client without faults.


async def _activate_check(client: Client) -> None:
    condition = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await client.patch(
        ADMISSION_CHECKS, Key("", CHECK), {"status": {"conditions": [condition]}}, subresource="status"
    )


async def _answer_checks(client: Client, seed: int) -> None:
    """Set each pending check to Ready, some after one Retry."""
    retried: set[str] = set()
    while True:
        for workload in (await client.list(WORKLOADS)).items:
            pending = [each for each in workload.status.admission_checks if each.state == "Pending"]
            if not pending or not is_true(workload.status.conditions, "QuotaReserved"):
                continue
            key = workload.metadata.key
            retry = random.Random(f"{seed} {key}").random() < 0.3 and str(key) not in retried
            state = {
                "name": CHECK,
                "state": "Retry" if retry else "Ready",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            version = {"resourceVersion": workload.metadata.resource_version}
            try:
                await client.patch(
                    WORKLOADS,
                    key,
                    {"metadata": version, "status": {"admissionChecks": [state]}},
                    subresource="status",
                )
            except (Conflict, NotFound):
                continue
            if retry:
                retried.add(str(key))
        await asyncio.sleep(0.03)


# What the controllers logged.

_report: contextvars.ContextVar[Report | None] = contextvars.ContextVar("report", default=None)


class _Lines(logging.Handler):
    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        report = _report.get()
        if report is not self._report:
            return  # of another run in this process
        report.log.append(LINES.format(record))
        if record.exc_info and record.levelno >= logging.ERROR:
            report.findings.append(f"logged: {logging.Formatter().format(record)}")


@contextmanager
def _logged(report: Report) -> Iterator[None]:
    """Add what is logged in the block, or by tasks started in it, and a finding for each traceback."""
    token = _report.set(report)
    handler = _Lines(report)
    loggers = [logging.getLogger(name) for name in ("quorate", "aiohttp.server", "asyncio")]
    for each in loggers:
        each.addHandler(handler)
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(handler)
        _report.reset(token)
