"""The gang scheduler: sessions whenever something relevant changed, and the writes that follow from them.

A session begins as soon as a decision could differ, but not earlier than the pace allows: sessions take at
most a third of the time, so that binds, watches and writes get theirs in a cluster of any size.  While
binds are queued sessions are less frequent, because their decisions would only join the queue.  Without a
change there is no session until the time that the core asked for (a back-off or a timeout ends): an idle
cluster costs nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from quorate.api.core import ResourceQuota
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import UNSCHEDULABLE, PodGroup, Queue
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import native_name
from quorate.gang.outcome import Bind, Eviction, Outcome
from quorate.gang.pending_reasons import AwaitsPlannedStart, NotEnoughNodes, NotEnoughResources
from quorate.gang.session_run import SessionFailed, run_session
from quorate.kube.client import Client
from quorate.kube.clock import Clock, Timer
from quorate.kube.events import EventRecorder
from quorate.kube.fault_conditions import FaultCondition, FaultConditionWriter
from quorate.kube.feed import Feed
from quorate.kube.flowcontrol import Backoff, until_answered
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.object_faults import ObjectFault, fault_of
from quorate.kube.resources import (
    NATIVE_POD_GROUPS,
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    QUEUES,
    RESOURCE_QUOTAS,
    Resource,
    reference,
)
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.binder import Binder, FurtherMembers
from quorate.scheduler.claim_binder import DeviceBinder, VolumeBinder
from quorate.scheduler.feeds import (
    find_served,
    gang_feeds,
    optional_feeds,
    report_unsupported_scopes,
    subscribe_informers,
)
from quorate.scheduler.limits import (
    DEVICES_AT_ONCE,
    DISCOVERY_INTERVAL_S,
    PAUSE_DURING_BINDS_S,
    REST_PER_SESSION,
)
from quorate.scheduler.observer import Bound, SchedulerObserver, SchedulerStatus, SessionTimer, SessionTimes
from quorate.scheduler.pod_conditions import MissingReferences, PodConditionWriter
from quorate.scheduler.pod_group_status import NativeGroupStatusWriter, PodGroupStatusWriter
from quorate.scheduler.preemption import Evictor, Nominator
from quorate.scheduler.provisioning_requests import ProvisioningRequester
from quorate.scheduler.queues import BuiltInQueues, QueueStatusWriter

COMPONENT: Final = "quorate-scheduler"
SCHEDULER_NAMES: Final = ("quorate", "volcano")
SESSION_RETRY: Final = Backoff(first_s=1.0, cap_s=60.0)  # while sessions fail for an unknown reason


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the process; what it decides is in the ``SchedulerConfiguration``."""

    names: tuple[str, ...] = SCHEDULER_NAMES  # schedulerName of the pods to place
    period_s: float = 0.05  # the least time from the end of one session to the next
    bind_workers: int = 64
    provisioning_class: str = ""  # of ProvisioningRequests for missing nodes; "": create none


class Scheduler:
    """Starts from a list of everything and runs until cancelled; all durable state is in the API."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: Options,
        settings: SchedulerConfiguration,
        status: SchedulerStatus,
        *,
        status_subresource: str = "",
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._settings = settings
        self._status = status
        self._changed = asyncio.Event()  # set when a session could decide differently than the last
        self._timer = Timer(clock, self._changed)
        self.model = status.model = Model(options.names)
        status.settings = settings
        self._gate = BindGate()
        self._events = EventRecorder(
            client, clock, COMPONENT, rate_limiter=self._gate, distinct_messages=True
        )
        feeds = gang_feeds(self.model, clock, disruption_budgets=settings.has_plugin("pdb"))
        self._informers = subscribe_informers(client, feeds, self._changed.set)
        pods: Informer[Pod] = self._informers[PLACEABLE_PODS]
        quotas: Informer[ResourceQuota] = self._informers[RESOURCE_QUOTAS]
        self._groups: Informer[PodGroup] = self._informers[POD_GROUPS]
        self._queues: Informer[Queue] = self._informers[QUEUES]
        report_unsupported_scopes(quotas)
        self._statuses = PodGroupStatusWriter(
            client, clock, self._groups, self.model, self._gate, subresource=status_subresource
        )
        self._native_statuses = NativeGroupStatusWriter(client, clock, self._gate)
        unreadable_group = FaultCondition(UNSCHEDULABLE, "True", status_subresource)
        self._fault_conditions = FaultConditionWriter(client, clock, {POD_GROUPS: unreadable_group})
        self._built_in_queues = BuiltInQueues(client, clock, self._queues)
        self._queue_statuses = QueueStatusWriter(client, clock, self._queues, self.model, self._gate)
        self._volumes = VolumeBinder(client, self.model)
        self._devices = DeviceBinder(client, self.model)
        self._binder = Binder(
            client,
            clock,
            self._events,
            self._bound,
            self._bind_failed,
            self._pre_bind,
            self._devices.release,
            self._gate,
            workers=options.bind_workers,
        )
        self._further_members = FurtherMembers(
            client,
            clock,
            self.model,
            lambda: self._native_statuses.resource,
            self._binder,
            self._bind_failed,
        )
        self._evictor = Evictor(client, clock, self._events, self._eviction_failed)
        self._nominator = Nominator(client, clock)
        self._pod_conditions = PodConditionWriter(client, clock, self._events, pods, self.model)
        self._missing_references = MissingReferences(
            clock,
            self._events,
            self.model,
            pods,
            self._groups,
            self._queues,
            options.names,
            self._pod_conditions,
        )
        self._provisioning: ProvisioningRequester | None = None
        if options.provisioning_class:
            self._provisioning = ProvisioningRequester(
                client, clock, self._groups, options.provisioning_class
            )
        self._log = logger(__name__)

    async def run(self) -> None:
        with self._client.faults.subscribed(
            self._events.report_fault, self._object_fault, self._fault_conditions.report_fault
        ):
            await self._run()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
            for feed in optional_feeds(self.model, self._native_statuses.forget):
                await self._follow_if_served(tasks, feed)
            for informer in self._informers.values():
                await informer.synced.wait()
            tasks.create_task(self._built_in_queues.run(), name="built-in queues")
            tasks.create_task(self._events.run(), name="events")
            for writer in self._fault_conditions.writers:
                tasks.create_task(writer.run(), name="conditions of unreadable objects")
            tasks.create_task(self._statuses.run(), name="pod group statuses")
            tasks.create_task(self._native_statuses.run(), name="conditions of native pod groups")
            tasks.create_task(self._queue_statuses.run(), name="queue statuses")
            tasks.create_task(self._nominator.run(), name="nominations")
            tasks.create_task(self._pod_conditions.run(), name="pod conditions")
            for reconciler in self._missing_references.reconcilers:
                tasks.create_task(reconciler.run(), name=reconciler.name)
            if self._provisioning is not None:
                tasks.create_task(self._provisioning.run(), name="provisioning requests")
            self._status.ready.set()
            await self._run_sessions(tasks)

    async def _follow_if_served(self, tasks: asyncio.TaskGroup, feed: Feed[Any]) -> None:
        """Read a kind before the first session if it is served, otherwise as soon as it is.

        Gangs that must be within a HyperNode wait for their kind.
        """
        client, clock, name = self._client, self._clock, feed.resource.plural
        informer = subscribe_informers(client, (feed,), self._changed.set)[feed.resource]

        async def is_served() -> bool:
            resource = await until_answered(partial(find_served, client, feed.resource), clock, client.rng)
            if resource is not None:
                informer.resource = resource
            if resource is not None and feed.resource == NATIVE_POD_GROUPS:
                self._native_statuses.resource = resource
            return resource is not None

        async def run_when_served() -> None:
            steady = clock.steady
            while not await is_served():
                await steady.sleep_until(steady.now() + DISCOVERY_INTERVAL_S)
            await informer.run()

        if await is_served():
            tasks.create_task(informer.run(), name=f"watch {name}")
            await informer.synced.wait()
        else:
            tasks.create_task(run_when_served(), name=f"discovery of {name}")

    async def _run_sessions(self, tasks: asyncio.TaskGroup) -> None:
        steady = self._clock.steady
        failures = 0  # consecutive sessions that failed for an unknown reason
        try:
            while True:
                self._changed.clear()
                await self._evaluate_devices()
                session_timer = SessionTimer(steady)
                try:
                    outcome = run_session(self.model, self._settings, self._clock.now(), session_timer)
                except SessionFailed as failed:
                    failures = 0 if self._set_aside(failed) else failures + 1
                    self._changed.set()
                    if failures:
                        await steady.sleep_until(steady.now() + SESSION_RETRY.delay_s(failures))
                    continue
                failures = 0
                times = session_timer.times()
                self._execute(tasks, outcome)
                self._report(outcome, times)
                self._timer.reset(outcome.wake_at)
                await steady.sleep_until(
                    steady.now() + max(self._options.period_s, times.total_s * REST_PER_SESSION)
                )
                await self._gate.wait_at_most(PAUSE_DURING_BINDS_S)
                await self._changed.wait()
        finally:
            self._timer.reset(None)

    async def _evaluate_devices(self) -> None:
        """Evaluate new demands for devices in steps, between which the process answers requests."""
        try:
            self.model.refresh_shapes()
            for _ in self.model.constraints.evaluate_devices(DEVICES_AT_ONCE):
                await asyncio.sleep(0)
        except Exception:
            return  # the session raises it again, and sets the object aside

    def _set_aside(self, failed: SessionFailed) -> bool:
        """Leave the object on which a session failed out of the next ones; return False if it is not known.

        It is tried again when it changes.
        """
        model, subject, error = self.model, failed.subject, failed.error
        match subject:
            case Gang(key=key):
                model.set_gang_aside(key)
                resource: Resource[Any] = POD_GROUPS
                obj: Any = self._groups.get(key)
                if native_name(key) is not None:
                    self._native_statuses.failed(subject, str(error))
                    subject.conditions = ()  # no watch reports the written one: report them all again
            case Pod():
                key, resource, obj = subject.metadata.key, PLACEABLE_PODS, subject
                model.set_unreadable_pod(key, subject.node_name)
            case Node():
                key, resource, obj = subject.metadata.key, PLACEABLE_NODES, subject
                model.remove_node(key.name)
            case None:
                self._log.fault("session failed", error)
                return False
        self._client.faults.report(fault_of(resource, "decide", key, obj, error))
        return True

    def _execute(self, tasks: asyncio.TaskGroup, outcome: Outcome) -> None:
        self._further_members.start(tasks, outcome.binds)
        self._statuses.write(outcome.statuses, {bind.gang for bind in outcome.binds})
        self._native_statuses.write(outcome.statuses)
        self._native_statuses.disrupted(filter(self._is_of_whole_group, outcome.evictions))
        self._queue_statuses.session_ended()
        for eviction in outcome.evictions:
            self._evictor.start(tasks, eviction)
        self._nominator.write(outcome.nominations)
        for event in outcome.events:
            native = native_name(event.gang)
            regarding = reference(POD_GROUPS, event.gang, event.uid)
            if native is not None:
                regarding = reference(NATIVE_POD_GROUPS, native, event.uid)
            self._events.event(regarding, event.type, event.reason, event.message)
        self._pod_conditions.write(outcome.pending_reasons)
        if self._provisioning is not None:
            self._provisioning.publish(self._groups_without_nodes(outcome))

    def _is_of_whole_group(self, eviction: Eviction) -> bool:
        """Return True if a native group is evicted that is disrupted as a whole."""
        gang = self.model.gangs.get(eviction.gang)
        return gang is not None and gang.native is not None and gang.native.is_disrupted_as_a_whole

    def _groups_without_nodes(self, outcome: Outcome) -> list[Key]:
        """Return the groups that are not admitted because the nodes lack resources."""
        return [
            key
            for key, pending_reason in outcome.pending_reasons.items()
            if isinstance(pending_reason, NotEnoughResources | NotEnoughNodes | AwaitsPlannedStart)
            and (gang := self.model.gangs.get(key)) is not None
            and gang.is_pending
        ]

    def _report(self, outcome: Outcome, times: SessionTimes) -> None:
        self._notify(lambda observer: observer.session_ended(outcome, times))
        if outcome.binds or outcome.evictions or outcome.statuses:
            self._log.info(
                "session ended",
                binds=len(outcome.binds),
                evictions=len(outcome.evictions),
                statuses=len(outcome.statuses),
                took_s=round(times.total_s, 4),
            )

    def _notify(self, report: Callable[[SchedulerObserver], None]) -> None:
        for observer in self._status.observers:
            try:
                report(observer)
            except Exception as error:  # of a bug: metrics must neither end the scheduler nor undo a bind
                self._log.fault("an observer raised", error)

    def _object_fault(self, fault: ObjectFault) -> None:
        self._notify(lambda observer: observer.object_fault(fault))

    async def _pre_bind(self, bind: Bind) -> bool:
        return await self._volumes.bind_volumes(bind) and await self._devices.allocate(bind)

    def _bound(self, bound: Bound) -> None:
        self._notify(lambda observer: observer.bound(bound))

    def _bind_failed(self, bind: Bind) -> None:
        self.model.assumed.bind_failed(bind)
        self._changed.set()
        self._notify(lambda observer: observer.bind_failed(bind.task))

    def _eviction_failed(self, eviction: Eviction) -> None:
        self.model.assumed.eviction_failed(eviction)
        self._changed.set()
