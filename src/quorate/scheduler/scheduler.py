"""The scheduler at work: sessions whenever something changed that could matter, and what follows from them.

A session begins as soon as there is news, but not before the last one's pace allows: sessions take at most a
third of the time, so that binds, watches and writes get theirs however large the cluster is; and while binds
queue up there are fewer, as what they find would have to queue up behind.  With no news there is no session
until the core asked for one (a back-off ends, a clock runs out): an idle cluster costs nothing.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.gang.model import Model
from quorate.gang.outcome import Bind, Eviction, Outcome
from quorate.gang.run import run_session
from quorate.gang.verdicts import NotEnoughResources
from quorate.kube.client import Client
from quorate.kube.clock import Clock, Timer
from quorate.kube.events import EventRecorder
from quorate.kube.log import logger
from quorate.kube.resources import POD_GROUPS, reference
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.binder import Binder
from quorate.scheduler.built_in_queues import BuiltInQueues
from quorate.scheduler.evictor import Evictor
from quorate.scheduler.feeds import Feed
from quorate.scheduler.legacy import follow_legacy
from quorate.scheduler.missing_references import MissingReferences
from quorate.scheduler.nominator import Nominator
from quorate.scheduler.observer import Bound, SchedulerObserver
from quorate.scheduler.pod_conditions import PodConditionWriter
from quorate.scheduler.pod_group_status import PodGroupStatusWriter
from quorate.scheduler.provisioning_requests import ProvisioningRequester
from quorate.scheduler.queues import QueueStatusWriter
from quorate.scheduler.surroundings import SurroundingsFeed
from quorate.scheduler.timing import SessionTimer, SessionTimes
from quorate.scheduler.volume_binder import VolumeBinder

COMPONENT: Final = "quorate-scheduler"
NAMES: Final = ("quorate", "volcano")
REST_PER_SESSION: Final = 2.0  # how often as long as it took the next session waits at least


@dataclass(frozen=True, slots=True)
class Options:
    """How the process runs, as opposed to how it decides."""

    names: tuple[str, ...] = NAMES  # the schedulerName of pods that are ours
    period_s: float = 0.05  # from the end of one session to the next at least
    binds_at_once: int = 64
    provisioning_class: str = ""  # by which an autoscaler is asked for nodes; "": it is not asked
    legacy_apis: bool = False  # also read pod groups and queues of the versions before v1beta1


@dataclass
class SchedulerStatus:
    """What others may see of a running scheduler."""

    ready: asyncio.Event = field(default_factory=asyncio.Event)
    model: Model | None = None  # of the scheduler that decides, if one does here
    settings: SchedulerConfiguration | None = None  # that it decides by
    observers: list[SchedulerObserver] = field(default_factory=list)


class Scheduler:
    """Works from a list of everything until cancelled; all that must survive is in the API."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: Options,
        settings: SchedulerConfiguration,
        seen: SchedulerStatus,
        *,
        status_subresource: str = "",
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._settings = settings
        self._seen = seen
        self._changed = asyncio.Event()  # set when a session could answer differently than the last
        self._timer = Timer(clock, self._changed)
        self.model = seen.model = Model(options.names)
        seen.settings = settings
        self._precedence = BindGate()
        self._events = EventRecorder(client, clock, COMPONENT, rate_limiter=self._precedence)
        self._feed = Feed(client, clock, self._events, self.model, self._changed)
        surroundings = SurroundingsFeed(client, self.model, self._changed)
        # Pods come last: what they are judged by is there.
        self._informers = (*surroundings.informers, *self._feed.informers)
        self._statuses = PodGroupStatusWriter(
            client, clock, self._feed.groups, self.model, self._precedence, subresource=status_subresource
        )
        self._queues = BuiltInQueues(client, clock, self._feed.queues)
        self._queue_statuses = QueueStatusWriter(
            client, clock, self._feed.queues, self.model, self._precedence
        )
        self._binder = Binder(
            client,
            clock,
            self._events,
            self._bound,
            self._bind_failed,
            VolumeBinder(client, self.model).bind_volumes,
            self._precedence,
            at_once=options.binds_at_once,
        )
        self._evictor = Evictor(client, clock, self._events, self._eviction_failed)
        self._nominator = Nominator(client, clock)
        self._teller = PodConditionWriter(client, clock, self._events, self._feed.pods, self.model)
        self._absences = MissingReferences(
            clock,
            self._events,
            self.model,
            self._feed.pods,
            self._feed.groups,
            self._feed.queues,
            options.names,
        )
        self._demand: ProvisioningRequester | None = None
        if options.provisioning_class:
            self._demand = ProvisioningRequester(client, clock, self._feed.groups, options.provisioning_class)
        self._log = logger(__name__)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
            await self._synced()
            tasks.create_task(self._queues.run(), name="built-in queues")
            tasks.create_task(self._events.run(), name="events")
            tasks.create_task(self._statuses.run(), name="statuses")
            tasks.create_task(self._queue_statuses.run(), name="queue statuses")
            tasks.create_task(self._nominator.run(), name="nominations")
            tasks.create_task(self._teller.run(), name="pod conditions")
            for reconciler in self._absences.reconcilers:
                tasks.create_task(reconciler.run(), name=reconciler.name)
            if self._demand is not None:
                tasks.create_task(self._demand.run(), name="demand")
            if self._options.legacy_apis:
                followed = follow_legacy(self._client, self._clock, self._feed.groups, self._feed.queues)
                tasks.create_task(followed, name="older versions")
            self._seen.ready.set()
            await self._decide(tasks)

    async def _synced(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()

    async def _decide(self, tasks: asyncio.TaskGroup) -> None:
        steady = self._clock.steady
        try:
            while True:
                self._changed.clear()
                timer = SessionTimer(steady)
                outcome = run_session(self.model, self._settings, self._clock.now(), timer)
                times = timer.times()
                self._carry_out(tasks, outcome)
                self._report(outcome, times)
                self._timer.reset(outcome.wake_at)
                await steady.sleep_until(
                    steady.now() + max(self._options.period_s, times.total_s * REST_PER_SESSION)
                )
                await self._precedence.wait()
                await self._changed.wait()
        finally:
            self._timer.reset(None)

    def _carry_out(self, tasks: asyncio.TaskGroup, outcome: Outcome) -> None:
        self._binder.start(tasks, outcome.binds)
        self._statuses.write(outcome.statuses, {bind.gang for bind in outcome.binds})
        self._queue_statuses.session_ended()
        for eviction in outcome.evictions:
            self._evictor.start(tasks, eviction)
        self._nominator.note(outcome.nominations)
        for notice in outcome.notices:
            about = reference(POD_GROUPS, notice.gang, notice.uid)
            self._events.event(about, notice.type, notice.reason, notice.message)
        self._teller.say(outcome.verdicts)
        if self._demand is not None:
            self._demand.publish(self._lacking_nodes(outcome))

    def _lacking_nodes(self, outcome: Outcome) -> list[Key]:
        """Groups that are not admitted because the nodes have too little."""
        return [
            key
            for key, verdict in outcome.verdicts.items()
            if isinstance(verdict, NotEnoughResources)
            and (gang := self.model.gangs.get(key)) is not None
            and gang.is_waiting
        ]

    def _report(self, outcome: Outcome, times: SessionTimes) -> None:
        for observer in self._seen.observers:
            observer.session_ended(outcome, times)
        if outcome.binds or outcome.evictions or outcome.statuses:
            self._log.info(
                "session ended",
                binds=len(outcome.binds),
                evictions=len(outcome.evictions),
                statuses=len(outcome.statuses),
                took_s=round(times.total_s, 4),
            )

    def _bound(self, bound: Bound) -> None:
        for observer in self._seen.observers:
            observer.bound(bound)

    def _bind_failed(self, bind: Bind) -> None:
        self.model.bind_failed(bind)
        self._changed.set()
        for observer in self._seen.observers:
            observer.bind_failed(bind.task)

    def _eviction_failed(self, eviction: Eviction) -> None:
        self.model.eviction_failed(eviction)
        self._changed.set()
