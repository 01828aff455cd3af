"""The queueing controllers as one process, started when the caches are synced.

Only the leader of several replicas decides.  Followers keep the same caches and model to answer queries.  A
new leader lists everything again after the old one has stopped, so that it never decides on a cache that is
older than the old leader's writes.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quorate.api.batch import Job
from quorate.api.configuration import Configuration
from quorate.api.configuration.metric_labels import LabelSource
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup as PodGroupObject
from quorate.api.volcano.job import Job as VolcanoJobObject
from quorate.controllers.admission.auditor import Auditor
from quorate.controllers.admission.driver import AdmissionDriver
from quorate.controllers.context import ControllerContext
from quorate.controllers.core.outside_quota import OutsideQuotaController
from quorate.controllers.core.queues import CohortController, QueueController
from quorate.controllers.core.resource_in_use import (
    ResourceInUseController,
    checks_of,
    flavors_of,
    topologies_of,
)
from quorate.controllers.core.workloads import PriorityController, WorkloadController
from quorate.controllers.feeds import counts_devices, queueing_feeds
from quorate.controllers.informers import CacheSyncTimeout, Informers, synced
from quorate.controllers.jobframework.ancestors import AncestorFinder
from quorate.controllers.jobframework.interface import J, JobKind
from quorate.controllers.jobframework.reconciler import JobController, as_stored
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.integrations import (
    BATCH_JOB,
    VOLCANO_JOB,
    VOLCANO_POD_GROUP,
    enabled_kinds,
    intermediate_kinds,
    queues_pods,
    run_kind,
    wait_until_served,
)
from quorate.controllers.jobs.unserved import run_unserved
from quorate.controllers.pods.failure_recovery import RecoveryController
from quorate.controllers.pods.queued_pod import PODS
from quorate.controllers.pods.reconciler import PodController
from quorate.controllers.provisioning.provisioning_controller import run_provisioning
from quorate.controllers.serving.kinds import SETS
from quorate.controllers.serving.reconciler import run_sets
from quorate.controllers.topology.node_feeds import NodeFeeds
from quorate.controllers.topology.placed_workloads import run_placed_workloads
from quorate.controllers.volcano.job.queued_job import VolcanoJob
from quorate.controllers.volcano.manager import QueuedKinds, run_volcano
from quorate.controllers.volcano.pod_groups.batch_job_group_controller import BatchJobMemberships
from quorate.controllers.volcano.pod_groups.queued_group import VolcanoPodGroup
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.events import EventRecorder
from quorate.kube.fault_conditions import OF_QUEUEING, FaultConditionWriter
from quorate.kube.informer import Change, Informer
from quorate.kube.manager import leader_election
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration, run_with_current
from quorate.kube.manager.leader_election import JoinElection, LeaseTimings
from quorate.kube.manager.restart import run_restarting
from quorate.kube.resources import (
    JOBS,
    NODES,
    POD_GROUPS,
    RESOURCE_CLAIM_TEMPLATES,
    VOLCANO_JOBS,
    Resource,
    T,
    metadata_of,
)
from quorate.observe.recorder import Recorder
from quorate.observe.replica import Replica
from quorate.observe.view import View
from quorate.queueing.state import State

COMPONENT = "quorate-controllers"
# One event at a time, as Kueue's recorder: its rate falls by itself when the server is slow, and with it what
# events take from the writes that admit workloads.
EVENT_WORKERS = 1
EVENT_SHARE = 0.2  # of the time, while the server is busy


async def run_replica(
    client: Client,
    clock: Clock,
    configured: DynamicConfiguration[Configuration],
    rng: random.Random,
    replica: Replica,
    join: JoinElection,
) -> None:
    """Decide while elected, or without leader election; follow otherwise.

    A leader that loses its lease follows again.
    """
    configuration = configured.current
    rules = configuration.leader_election
    if not rules.elect:
        await run_queueing(client, clock, configured, rng, replica)
        return
    lease = Key(rules.namespace or configuration.namespace, rules.name)
    terms = LeaseTimings(rules.lease_s, rules.renew_deadline_s, rules.retry_s)

    async def be_follower() -> None:
        replica.role = "follower"
        await follow(client, clock, configured, replica)

    async def be_leader() -> None:
        replica.role = "leader"
        await run_queueing(client, clock, configured, rng, replica)

    await leader_election.run(client, join(lease, terms), follow=be_follower, lead=be_leader)


async def follow(
    client: Client, clock: Clock, configured: DynamicConfiguration[Configuration], replica: Replica
) -> None:
    """Keep the model up to date until cancelled, without decisions or writes."""

    async def run() -> None:
        await run_with_current(configured, lambda current: _follow(client, clock, current, replica))

    await run_restarting("followed model", run, clock, passes=(CacheSyncTimeout,))


async def _follow(client: Client, clock: Clock, configuration: Configuration, replica: Replica) -> None:
    informers = Informers(client)
    state = State(configuration)
    for feed in queueing_feeds(state, clock.now):
        feed.subscribe(informers.of(feed.resource), lambda: None)
    nodes = NodeFeeds(client, clock, informers.flavors, informers.workloads, state, lambda: None)
    devices = _run_devices(client, clock, informers, configuration)
    view = _view(state, informers, nodes, replica)
    within_s = configuration.controllers.cache_sync_timeout_s
    async with asyncio.TaskGroup() as tasks:
        for informer in informers.all:
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        tasks.create_task(nodes.run(), name="nodes of topologies")
        tasks.create_task(devices, name="devices")
        await synced(*informers.all, within_s=within_s)
        await synced(*nodes.needed, within_s=within_s)
        replica.set_view(view)


async def run_queueing(
    client: Client,
    clock: Clock,
    configured: DynamicConfiguration[Configuration],
    rng: random.Random,
    replica: Replica,
) -> None:
    """Decide until cancelled; ``replica`` is ready once all controllers have started.

    All durable state is in the API, so a run can stop at any time and the next one continues.  A new run
    starts when the configuration changes, and after a pause when a part of it raised an exception that
    nothing expected.
    """

    async def run() -> None:
        await run_with_current(
            configured, lambda current: _run_controllers(client, clock, current, rng, replica)
        )

    await run_restarting("controllers", run, clock, passes=(CacheSyncTimeout,))


async def _run_controllers(
    client: Client,
    clock: Clock,
    configuration: Configuration,
    rng: random.Random,
    replica: Replica,
) -> None:
    context = _context(client, clock, configuration, rng, replica.recorder)
    informers = context.informers
    driver = AdmissionDriver(context, replica.recorder)
    view = _view(driver.state, informers, driver.node_feeds, replica)
    _record_metrics(informers, driver.state, replica.recorder)

    integrations = configuration.integrations
    kinds = enabled_kinds(integrations)
    sets = [SETS[name] for name in integrations.frameworks if name in SETS]
    resources: list[Resource[Any]] = [kind.resource for kind in kinds]
    resources += [framework.resource for framework in sets]
    if VOLCANO_JOB in integrations.frameworks:
        resources.append(VOLCANO_JOBS)
    if VOLCANO_POD_GROUP in integrations.frameworks:
        resources.append(POD_GROUPS)
    ancestors = _ancestor_finder(client, configuration, resources)

    def controller_for(
        kind: JobKind[J], jobs: Informer[J], completed: Callable[[J], J] = as_stored
    ) -> JobController[J]:
        ancestors.add(kind.resource, jobs.get)
        return JobController(context, kind, jobs, ancestors, completed)

    def queue_volcano_jobs(jobs: Informer[VolcanoJobObject]) -> JobController[VolcanoJobObject]:
        return controller_for(VolcanoJob(), jobs)

    def queue_pod_groups(groups: Informer[PodGroupObject]) -> JobController[PodGroupObject]:
        return controller_for(VolcanoPodGroup(), groups)

    reconcilers = _core_reconcilers(context, driver)
    if configuration.outside_quota.mode != "Off":
        outside = OutsideQuotaController(context, driver.state, driver.node_feeds.pods, ancestors)
        reconcilers += outside.reconcilers
    all_informers = list(informers.all)
    memberships = BatchJobMemberships(configuration.gang)
    batch_jobs: Informer[Job] | None = None
    if BATCH_JOB in integrations.frameworks:
        batch_jobs = Informer(client, JOBS)
        all_informers.append(batch_jobs)
        ancestors.add(JOBS, batch_jobs.get)
        batch = JobController(context, BatchJob(), batch_jobs, ancestors, memberships=memberships)
        reconcilers.append(batch.reconciler)
    pods = Informer(client, PODS)
    recovers_pods = configuration.gates.failure_recovery_policy
    if queues_pods(integrations) or recovers_pods:
        all_informers.append(pods)
    if queues_pods(integrations):
        reconcilers += PodController(context, pods, ancestors).reconcilers
    if recovers_pods:
        nodes = Informer(client, NODES)
        all_informers.append(nodes)
        reconcilers.append(RecoveryController(context, pods, nodes).reconciler)
    gang_events = EventRecorder(
        client, clock, COMPONENT, workers=EVENT_WORKERS, share=EVENT_SHARE, distinct_messages=True
    )
    volcano_context = replace(context, events=gang_events)
    fault_conditions = FaultConditionWriter(client, clock, OF_QUEUEING)
    with client.faults.subscribed(
        context.events.report_fault, replica.recorder.object_fault, fault_conditions.report_fault
    ):
        async with asyncio.TaskGroup() as tasks:
            for writer in fault_conditions.writers:
                tasks.create_task(writer.run(), name="conditions of unreadable objects")
            for informer in all_informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
            tasks.create_task(context.events.run(), name="events")
            tasks.create_task(volcano_context.events.run(), name="events about gangs")
            tasks.create_task(driver.node_feeds.run(), name="nodes of topologies")
            devices = _run_devices(client, clock, informers, configuration)
            tasks.create_task(devices, name="devices")
            within_s = configuration.controllers.cache_sync_timeout_s
            await synced(*all_informers, within_s=within_s)
            await synced(*driver.node_feeds.needed, within_s=within_s)
            tasks.create_task(driver.run(), name="admission")
            for reconciler in reconcilers:
                tasks.create_task(reconciler.run(), name=reconciler.name)
            for kind in kinds:
                tasks.create_task(run_kind(context, kind, controller_for), name=kind.resource.plural)
            for framework in sets:
                name = f"sets {framework.resource.plural}"
                tasks.create_task(run_sets(context, framework, pods, ancestors), name=name)
            tasks.create_task(run_unserved(context), name="unserved kinds")
            placed_workloads = run_placed_workloads(context, driver.node_feeds)
            tasks.create_task(placed_workloads, name="placed workloads")
            tasks.create_task(run_provisioning(context), name="provisioning")
            queued = QueuedKinds(
                batch_jobs,
                queue_volcano_jobs if VOLCANO_JOB in integrations.frameworks else None,
                queue_pod_groups if VOLCANO_POD_GROUP in integrations.frameworks else None,
            )
            tasks.create_task(run_volcano(volcano_context, memberships, queued), name="volcano")
            tasks.create_task(Auditor(context, driver, replica).run(), name="auditor")
            replica.set_view(view)


async def _run_devices(
    client: Client, clock: Clock, informers: Informers, configuration: Configuration
) -> None:
    """Watch the templates of claims, and device classes, if devices are counted, once they are served."""
    if counts_devices(configuration):
        await wait_until_served(RESOURCE_CLAIM_TEMPLATES, client, clock)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informers.claim_templates.run(), name="watch resourceclaimtemplates")
            tasks.create_task(informers.device_classes.run(), name="watch deviceclasses")


def _ancestor_finder(
    client: Client, configuration: Configuration, queued: list[Resource[Any]]
) -> AncestorFinder:
    integrations = configuration.integrations
    return AncestorFinder(
        client,
        queued=[*queued, JOBS] if BATCH_JOB in integrations.frameworks else queued,
        intermediate_kinds=intermediate_kinds(integrations),
        external=integrations.external,
        manage_jobs_without_queue_name=configuration.manage_jobs_without_queue_name,
    )


def _core_reconcilers(context: ControllerContext, driver: AdmissionDriver) -> list[Reconciler]:
    informers, state = context.informers, driver.state
    queues = QueueController(context, state)
    driver.sample_listeners.append(queues.consumed_usage_sampled)
    return [
        WorkloadController(context, state).reconciler,
        queues.reconciler,
        CohortController(context, state).reconciler,
        ResourceInUseController(context, informers.flavors, informers.cluster_queues, flavors_of).reconciler,
        ResourceInUseController(context, informers.checks, informers.cluster_queues, checks_of).reconciler,
        ResourceInUseController(context, informers.topologies, informers.flavors, topologies_of).reconciler,
        PriorityController(context).reconciler,
    ]


def _context(
    client: Client, clock: Clock, configuration: Configuration, rng: random.Random, recorder: Recorder
) -> ControllerContext:
    events = EventRecorder(client, clock, COMPONENT, workers=EVENT_WORKERS, share=EVENT_SHARE)
    informers = Informers(client)
    return ControllerContext(
        client, clock, events, configuration, informers, rng, recorder.record, recorder.forget
    )


def _view(state: State, informers: Informers, nodes: NodeFeeds, replica: Replica) -> View:
    """Return a view of the model, with the values of custom metric labels."""
    custom = replica.recorder.custom

    def track(source: LabelSource, informer: Informer[T]) -> None:
        def on_change(change: Change[T]) -> None:
            key = change.key
            name = (key.name, key.namespace) if key.namespace else (key.name,)
            custom.put(source, name, None if change.new is None else metadata_of(change.new))

        informer.subscribe(on_change)

    track("ClusterQueue", informers.cluster_queues)
    track("Cohort", informers.cohorts)
    track("LocalQueue", informers.local_queues)
    view = View(state, informers.workloads, custom, (*informers.all, nodes.nodes))
    informers.cohorts.subscribe(view.cohort_changed)
    informers.cluster_queues.subscribe(view.cluster_queue_changed)
    return view


def _record_metrics(informers: Informers, state: State, recorder: Recorder) -> None:
    informers.workloads.subscribe(lambda change: recorder.workload_changed(change, state))
    informers.cluster_queues.subscribe(lambda change: recorder.cluster_queue_changed(change, state))
    informers.local_queues.subscribe(recorder.local_queue_changed)
    informers.cohorts.subscribe(lambda _: recorder.cohorts_changed(state))
