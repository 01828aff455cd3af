"""The queueing controllers as one process, started when the caches are synced.

Only the leader of several replicas decides.  Followers keep the same caches and model to answer queries.  A
new leader lists everything again after the old one has stopped, so that it never decides on a cache that is
older than the old leader's writes.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from quorate.api.configuration import Configuration
from quorate.api.configuration.metric_labels import LabelSource
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext, event_recorder
from quorate.controllers.controller_table import ControllerRun
from quorate.controllers.feeds import counts_devices, queueing_feeds
from quorate.controllers.informers import CacheSyncTimeout, Informers, synced
from quorate.controllers.integrations import queues_pods
from quorate.controllers.limits import FOLLOWER_UPDATE_S
from quorate.controllers.native_groups import NativeGangsUnavailable, require_native_groups
from quorate.controllers.topology.node_feeds import NodeFeeds
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import wait_until_served
from quorate.kube.errors import RequestFailed
from quorate.kube.fault_conditions import OF_QUEUEING, FaultConditionWriter
from quorate.kube.informer import Change, Informer
from quorate.kube.manager import leader_election
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration, run_with_current
from quorate.kube.manager.leader_election import JoinElection, LeaseTimings
from quorate.kube.manager.restart import run_restarting
from quorate.kube.resources import RESERVATIONS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_FLAVORS, T, metadata_of
from quorate.observe.recorder import Recorder
from quorate.observe.replica import Replica
from quorate.observe.view import View
from quorate.queueing.node_objects import reads_nodes
from quorate.queueing.state import State


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
    nodes = NodeFeeds(
        client, clock, informers.flavors, informers.workloads, informers.pods, state, lambda: None
    )
    view = _view(state, informers, nodes, replica)
    within_s = configuration.controllers.cache_sync_timeout_s
    async with asyncio.TaskGroup() as tasks:
        for informer in informers.watched:
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        tasks.create_task(nodes.run(), name="nodes of topologies")
        note = state.request_updates.set_unreadable
        tasks.create_task(_run_devices(client, clock, informers, configuration, note), name="devices")
        tasks.create_task(_run_reservations(client, clock, informers), name="watch reservations")
        if counts_devices(configuration):
            tasks.create_task(_update_requests(state, clock), name="updates of requests")
        await synced(*informers.watched, informers.reservations, within_s=within_s)
        await synced(*nodes.needed, within_s=within_s)
        replica.set_view(view)


async def _update_requests(state: State, clock: Clock) -> None:
    """Update requests after changes of what they depend on, as cycles do in a process that decides."""
    while True:
        await clock.steady.sleep_until(clock.steady.now() + FOLLOWER_UPDATE_S)
        while state.request_updates.are_pending:
            state.request_updates.run_slice()
            await asyncio.sleep(0)


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

    await run_restarting("controllers", run, clock, passes=(CacheSyncTimeout, NativeGangsUnavailable))


async def _run_controllers(
    client: Client, clock: Clock, configuration: Configuration, rng: random.Random, replica: Replica
) -> None:
    await require_native_groups(client, configuration)
    run = ControllerRun(await _context(client, clock, configuration, rng, replica.recorder), replica)
    context, informers, nodes = run.context, run.context.informers, run.driver.node_feeds
    view = _view(run.driver.state, informers, nodes, replica)
    view.learn = run.driver.learn
    _record_metrics(informers, run.driver.state, replica.recorder)
    controllers = run.enabled_controllers()
    within_s = configuration.controllers.cache_sync_timeout_s
    fault_conditions = FaultConditionWriter(client, clock, OF_QUEUEING)
    with client.faults.subscribed(
        context.events.report_fault, replica.recorder.object_fault, fault_conditions.report_fault
    ):
        async with asyncio.TaskGroup() as tasks:
            for writer in fault_conditions.writers:
                tasks.create_task(writer.run(), name="conditions of unreadable objects")
            for informer in run.informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
            tasks.create_task(context.events.run(), name="events")
            tasks.create_task(run.gang_context.events.run(), name="events about gangs")
            tasks.create_task(nodes.run(), name="nodes of topologies")
            note = run.driver.set_unreadable
            tasks.create_task(_run_devices(client, clock, informers, configuration, note), name="devices")
            tasks.create_task(_run_reservations(client, clock, informers), name="watch reservations")
            await synced(*run.informers, informers.reservations, within_s=within_s)
            await synced(*nodes.needed, within_s=within_s)
            for name, run_controller in controllers:
                tasks.create_task(run_controller(), name=name)
            replica.set_view(view)


async def _run_reservations(client: Client, clock: Clock, informers: Informers) -> None:
    """Watch Reservations once they are served; while they are not, there is none to list."""
    await wait_until_served(RESERVATIONS, client, clock, on_absent=informers.reservations.synced.set)
    await informers.reservations.run()


async def _run_devices(
    client: Client,
    clock: Clock,
    informers: Informers,
    configuration: Configuration,
    set_unreadable: Callable[[str, bool], None],
) -> None:
    """Watch claim templates, device classes and slices, if devices are counted, once they are served.

    ``set_unreadable`` is called with the kinds, by their plurals, that the roles of the process do not allow
    to read, and again when they do.
    """
    if not counts_devices(configuration):
        return
    await wait_until_served(RESOURCE_CLAIM_TEMPLATES, client, clock)
    async with asyncio.TaskGroup() as tasks:
        for informer in informers.of_devices:
            plural = informer.resource.plural
            tasks.create_task(informer.run(), name=f"watch {plural}")
            listed = tasks.create_task(informer.synced.wait(), name=f"list {plural}")
            refused = tasks.create_task(informer.refused.wait(), name=f"refusal of {plural}")
            # A claim counts once its template is known: then all devices are, or they cannot be read.
            await asyncio.wait((listed, refused), return_when=asyncio.FIRST_COMPLETED)
            refused.cancel()
            if not listed.done():
                set_unreadable(plural, True)
                listed.add_done_callback(partial(_note_listed, plural, set_unreadable))


def _note_listed(
    plural: str, set_unreadable: Callable[[str, bool], None], listed: asyncio.Task[bool]
) -> None:
    if not listed.cancelled():
        set_unreadable(plural, False)


async def reads_all_pods(client: Client, configuration: Configuration) -> bool:
    """Return True if a controller reads all pods: plain pods are queued, or a flavor depends on nodes.

    If the first such flavor is created later, pods have more than one watch until the next start.
    """
    if queues_pods(configuration.integrations) or configuration.gates.failure_recovery_policy:
        return True
    try:
        flavors = (await client.list(RESOURCE_FLAVORS)).items
    except RequestFailed:
        return False  # the informer of flavors reports it
    return any(reads_nodes(configuration, flavor) for flavor in flavors)


async def _context(
    client: Client, clock: Clock, configuration: Configuration, rng: random.Random, recorder: Recorder
) -> ControllerContext:
    reads_all = await reads_all_pods(client, configuration)
    events, informers = event_recorder(client, clock), Informers(client, reads_all_pods=reads_all)
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
    read = (*informers.all, informers.reservations, nodes.nodes)
    view = View(state, informers.workloads, custom, read)
    informers.cohorts.subscribe(view.cohort_changed)
    informers.cluster_queues.subscribe(view.cluster_queue_changed)
    return view


def _record_metrics(informers: Informers, state: State, recorder: Recorder) -> None:
    informers.workloads.subscribe(lambda change: recorder.workload_changed(change, state))
    informers.cluster_queues.subscribe(lambda change: recorder.cluster_queue_changed(change, state))
    informers.local_queues.subscribe(recorder.local_queue_changed)
    informers.cohorts.subscribe(lambda _: recorder.cohorts_changed(state))
    informers.reservations.subscribe(recorder.reservation_changed)
