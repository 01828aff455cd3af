"""The table of controllers: when each of them runs, and how it is made."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from quorate.api.configuration import Configuration
from quorate.api.core.pod import Pod
from quorate.controllers.admission.auditor import Auditor
from quorate.controllers.admission.driver import AdmissionDriver
from quorate.controllers.context import ControllerContext, event_recorder
from quorate.controllers.core.outside_quota import OutsideQuotaController
from quorate.controllers.core.queues import CohortController, QueueController
from quorate.controllers.core.resource_in_use import (
    ResourceInUseController,
    checks_of,
    flavors_of,
    topologies_of,
)
from quorate.controllers.core.workloads import PriorityController, WorkloadController
from quorate.controllers.integrations import (
    BATCH_JOB,
    enabled_integrations,
    intermediate_kinds,
    queues_pods,
    run_kind,
)
from quorate.controllers.jobframework.ancestors import AncestorFinder
from quorate.controllers.jobframework.interface import J, JobKind
from quorate.controllers.jobframework.reconciler import JobController
from quorate.controllers.jobs.unstructured import UnstructuredJobKind
from quorate.controllers.multikueue.manager import run_multikueue
from quorate.controllers.native_groups import NativeGroups
from quorate.controllers.pods.failure_recovery import RecoveryController
from quorate.controllers.pods.reconciler import PodController
from quorate.controllers.provisioning.provisioning_controller import run_provisioning
from quorate.controllers.reservations import ReservationController
from quorate.controllers.serving.kinds import SETS
from quorate.controllers.serving.reconciler import run_sets
from quorate.controllers.topology.placed_pods import WorkloadPods
from quorate.controllers.topology.placed_workloads import run_placed_workloads
from quorate.controllers.unserved import run_unserved
from quorate.controllers.volcano.manager import GangPods, run_volcano
from quorate.controllers.volcano.pod_groups.batch_job_group_controller import BatchJobMemberships
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.informer import Informer
from quorate.kube.resources import JOBS, NODES, Resource, T
from quorate.kube.selection import Selection, Watched
from quorate.observe.replica import Replica

# The name of a controller, and what runs it until it is cancelled.
Controller = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


async def _as_stored(job: J) -> J:
    return job


class ControllerRun:
    """The informers and services that the queueing controllers share, from a start of them to their stop.

    A controller is run once all ``informers`` have synced.
    """

    def __init__(self, context: ControllerContext, replica: Replica) -> None:
        configuration = context.configuration
        self.context, self.replica = context, replica
        events = event_recorder(context.client, context.clock, distinct_messages=True)
        self.gang_context = replace(context, events=events)
        self.integrations = enabled_integrations(configuration.integrations)
        self.driver = AdmissionDriver(context, replica.recorder)
        self.memberships = BatchJobMemberships(configuration.gang)
        self.native_groups = NativeGroups(context.client, context.clock)
        self.ancestors = AncestorFinder(
            context.client,
            queued=[row.resource for row in self.integrations if row.kind is not None or row.name in SETS],
            intermediate_kinds=intermediate_kinds(configuration.integrations),
            external=configuration.integrations.external,
            manage_jobs_without_queue_name=configuration.manage_jobs_without_queue_name,
        )
        self._informers: dict[Resource[Any], Informer[Any]] = {}

    def pods(self, name: str) -> Selection[Pod]:
        """Return all pods as the controller ``name`` watches them."""
        return self.context.informers.pods.all(name)

    @property
    def informers(self) -> list[Watched]:
        return [*self.context.informers.watched, *self._informers.values()]

    def informer(self, resource: Resource[T]) -> Informer[T]:
        """Return the informer of all objects of a kind that every cluster serves."""
        if resource not in self._informers:
            self._informers[resource] = Informer(self.context.client, resource)
        return self._informers[resource]

    def queue(
        self, kind: JobKind[J], jobs: Informer[J], completed: Callable[[J], Awaitable[J]] = _as_stored
    ) -> JobController[J]:
        """Return the controller that queues the jobs of a kind."""
        self.ancestors.add(kind.resource, jobs.get)
        return JobController(
            self.context, kind, jobs, self.ancestors, self.native_groups, completed, self.memberships
        )

    def enabled_controllers(self) -> list[Controller]:
        """Make the controllers that the configuration enables."""
        configuration = self.context.configuration
        rows = (row for row in CONTROLLERS if row.is_enabled(configuration))
        return [controller for row in rows for controller in row.make(self)]


@dataclass(frozen=True, slots=True)
class ControllerRow:
    """Controllers with one condition."""

    make: Callable[[ControllerRun], Iterable[Controller]]
    is_enabled: Callable[[Configuration], bool] = lambda _: True


def _of(*reconcilers: Reconciler) -> list[Controller]:
    return [(reconciler.name, reconciler.run) for reconciler in reconcilers]


def _queues(run: ControllerRun) -> list[Controller]:
    queues = QueueController(run.context, run.driver.state)
    run.driver.sample_listeners.append(queues.consumed_usage_sampled)
    return _of(queues.reconciler)


def _objects_in_use(run: ControllerRun) -> list[Controller]:
    context, informers = run.context, run.context.informers
    flavors, queues = informers.flavors, informers.cluster_queues
    return _of(
        ResourceInUseController(context, flavors, queues, flavors_of).reconciler,
        ResourceInUseController(context, informers.checks, queues, checks_of).reconciler,
        ResourceInUseController(context, informers.topologies, flavors, topologies_of).reconciler,
    )


def _outside_quota(run: ControllerRun) -> list[Controller]:
    driver = run.driver
    controller = OutsideQuotaController(run.context, driver.state, driver.node_feeds.pods, run.ancestors)
    return _of(*controller.reconcilers)


def _batch_jobs(run: ControllerRun) -> list[Controller]:
    kinds = (row.kind for row in run.integrations if row.name == BATCH_JOB and row.kind is not None)
    return _of(*(run.queue(kind, run.informer(JOBS)).reconciler for kind in kinds))


def _other_jobs(run: ControllerRun) -> Iterator[Controller]:
    for row in run.integrations:
        if isinstance(row.kind, UnstructuredJobKind):
            yield row.resource.plural, partial(run_kind, run.context, row.kind, run.queue)


def _pods(run: ControllerRun) -> list[Controller]:
    pods = run.pods("plain")
    controller = PodController(run.context, pods, run.ancestors, run.native_groups)
    return _of(*controller.reconcilers)


def _sets(run: ControllerRun) -> Iterator[Controller]:
    for row in run.integrations:
        if (framework := SETS.get(row.name)) is not None:
            pods = run.pods(row.name)
            run_framework = partial(run_sets, run.context, framework, pods, run.ancestors)
            yield f"sets {row.resource.plural}", run_framework


def _recovery(run: ControllerRun) -> list[Controller]:
    pods = run.pods("recovered")
    return _of(RecoveryController(run.context, pods, run.informer(NODES)).reconciler)


def _placed_workloads(run: ControllerRun) -> Iterator[Controller]:
    feeds = run.driver.node_feeds
    if run.context.configuration.topology_gates is not None:
        pods = WorkloadPods(run.context.informers.pods, feeds.pods)
        yield "placed workloads", partial(run_placed_workloads, run.context, feeds, pods)


def _volcano(run: ControllerRun) -> Iterator[Controller]:
    kinds = [row.kind for row in run.integrations if row.kind is not None]
    queueing = {kind.resource: partial(run.queue, kind) for kind in kinds}
    jobs = run.informer(JOBS) if JOBS in queueing else None
    pods = GangPods(run.context)
    yield "volcano", partial(run_volcano, run.gang_context, run.memberships, queueing, jobs, pods)


CONTROLLERS: Final = (
    ControllerRow(lambda run: [("admission", run.driver.run)]),
    ControllerRow(lambda run: _of(WorkloadController(run.context, run.driver.state).reconciler)),
    ControllerRow(_queues),
    ControllerRow(lambda run: _of(CohortController(run.context, run.driver.state).reconciler)),
    ControllerRow(_objects_in_use),
    ControllerRow(lambda run: _of(PriorityController(run.context).reconciler)),
    ControllerRow(lambda run: _of(ReservationController(run.context, run.driver.state).reconciler)),
    ControllerRow(_outside_quota, lambda configuration: configuration.outside_quota.mode != "Off"),
    ControllerRow(_batch_jobs),
    ControllerRow(_pods, lambda configuration: queues_pods(configuration.integrations)),
    ControllerRow(_recovery, lambda configuration: configuration.gates.failure_recovery_policy),
    ControllerRow(_other_jobs),
    ControllerRow(lambda run: [("native pod groups", run.native_groups.run)]),
    ControllerRow(_sets),
    ControllerRow(lambda run: [("unserved kinds", partial(run_unserved, run.context))]),
    ControllerRow(_placed_workloads),
    ControllerRow(lambda run: [("provisioning", partial(run_provisioning, run.context))]),
    ControllerRow(
        lambda run: [("multikueue", partial(run_multikueue, run.context, run.replica))],
        lambda configuration: configuration.multikueue_gates.multi_kueue,
    ),
    ControllerRow(_volcano),
    ControllerRow(lambda run: [("auditor", Auditor(run.context, run.driver, run.replica).run)]),
)
