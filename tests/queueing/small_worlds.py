"""Small worlds without external events: does preemption end, for all policies and orders of stopping?

A world is a cohort with its queues, running workloads and pending workloads.  After the beginning nothing
happens except decisions of the core: each preempted workload stops at some time and queues again.  Preemption
policies, flavor fungibility and the order in which preempted workloads stop are ``Choices``, made when they
matter.

A *loop* is a sequence of events that leads back to an earlier fingerprint.  The fingerprint is everything
that decides what happens next: reservations and their order, evictions, pending queues, and the flavors tried
last.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Any, Final, NamedTuple, cast

import msgspec

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import DEFAULT_GATES
from quorate.api.configuration.priority_aging import PRIORITY_AGING
from quorate.api.kueue import (
    Admission,
    BorrowWithinCohort,
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    CohortSpec,
    FairSharing,
    FlavorFungibility,
    FlavorQuotas,
    LocalQueue,
    LocalQueueSpec,
    PodSet,
    PodSetAssignment,
    Preemption,
    QueueingStrategy,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import LabelSelector, ObjectMeta, Uid, at_epoch
from quorate.api.quantity import Quantity, parse_quantity
from quorate.api.quorate import (
    AtStart,
    Reservation,
    ReservationOwners,
    ReservationSpec,
    ReservedAmounts,
)
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Preempt, Reserve
from quorate.queueing.lifecycle.statuses import admit_status, preempt_status, release_status
from quorate.queueing.lifecycle.transition import evict
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.scheduling.window_evictions import evicts_at, workloads_to_evict
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from tests.queueing.choices import Choices

STARTED: Final = 100  # later than every given timestamp
MAX_VISITS: Final = 3  # of one fingerprint; see ``preemption.history`` for why there can be three
DAY_S: Final = 86_400
MOST_DAYS: Final = 3  # of a world with windows, which recur for ever
MAX_EVENTS: Final = 60  # a world in which preemption ends has less than half of them
replace = msgspec.structs.replace


class Quota(NamedTuple):
    nominal: int
    borrowing: int | None = None
    lending: int | None = None


Quotas = tuple[tuple[Quota, ...], ...]  # per flavor, in order, and resource


class Queue(NamedTuple):
    cohort: str
    quotas: Quotas
    weight: str = "1"
    strategy: QueueingStrategy = "BestEffortFIFO"
    aging: str | None = None  # the annotation


class Group(NamedTuple):
    """A cohort."""

    parent: str = ""
    quotas: Quotas = ()
    weight: str = "1"


class Job(NamedTuple):
    queue: str
    priority: int
    size: tuple[int, ...]  # of one pod, per resource
    pods: int = 1
    min_count: int = 1


class Window(NamedTuple):
    """A Reservation of one unit each day, which begins six hours after the first job is created."""

    owner: str = ""  # a queue; empty: maintenance
    at_start: AtStart = "Drain"


class SmallWorld(NamedTuple):
    queues: dict[str, Queue]
    jobs: tuple[Job, ...]  # in order of creation
    running: tuple[int, ...]  # indices of jobs, in the order of their reservations; the others are pending
    cohorts: dict[str, Group]
    configuration: Configuration = Configuration()
    windows: tuple[Window, ...] = ()
    maximum_s: int | None = None  # that each job declares

    @property
    def began(self) -> int:
        """When the first job was created: Reservations are of the years from 2000 on."""
        return 946_684_800 if self.windows else 0


class _Policy:
    """The preemption policy of a queue, chosen field by field when it is read; always valid in the API.

    There is no ``maxPriorityThreshold``: it makes no difference with two priorities.
    """

    def __init__(self, queue: str, choices: Choices) -> None:
        self._queue, self._choices = queue, choices

    @property
    def within_cluster_queue(self) -> str:
        answers = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
        return self._choices.choose((self._queue, "within"), answers)

    @property
    def reclaim_within_cohort(self) -> str:
        return self._choices.choose((self._queue, "reclaim"), ("Never", "LowerPriority", "Any"))

    @property
    def borrow_within_cohort(self) -> BorrowWithinCohort:
        if self.reclaim_within_cohort == "Never":
            return BorrowWithinCohort()
        answers = (BorrowWithinCohort(), BorrowWithinCohort(policy="LowerPriority"))
        return self._choices.choose((self._queue, "borrow"), answers)


class _Fungibility:
    """The flavor fungibility of a queue, chosen field by field when it is read."""

    def __init__(self, queue: str, choices: Choices) -> None:
        self._queue, self._choices = queue, choices

    def _choose(self, when: str) -> str:
        return self._choices.choose((self._queue, when), ("MayStopSearch", "TryNextFlavor"))

    @property
    def when_can_borrow(self) -> str:
        return self._choose("borrowing")

    @property
    def when_can_preempt(self) -> str:
        return self._choose("preempting")

    @property
    def preference(self) -> str | None:
        if self.when_can_borrow != "TryNextFlavor" or self.when_can_preempt != "TryNextFlavor":
            return None
        return self._choices.choose((self._queue, "preference"), (None, "PreemptionOverBorrowing"))


class Loop(NamedTuple):
    world: SmallWorld
    choices: Choices
    events: tuple[str, ...]  # up to the repeated fingerprint

    def __str__(self) -> str:
        return "\n".join((f"{self.world}", f"{self.choices}", *self.events))


class Simulation:
    """The run of one world without external events."""

    def __init__(self, world: SmallWorld, choices: Choices) -> None:
        self._world, self._choices = world, choices
        self._now = world.began + STARTED
        self._ends = self._now + MOST_DAYS * DAY_S if world.windows else math.inf
        self._versions = 0
        self._workloads: dict[str, Workload] = {}
        self.preemptions = 0
        self.has_repeated = False  # a fingerprint occurred more than once
        self.events: list[str] = []
        self.state = State(world.configuration)
        self._admission_cycle = AdmissionCycle(self.state)
        self._set_up()

    def find_loop(self) -> Loop | None:
        """Run until nothing happens (None) or a fingerprint repeats too often."""
        events = self.events
        seen = Counter([self._fingerprint()])
        while self._step(events):
            fingerprint = self._fingerprint()
            seen[fingerprint] += 1
            self.has_repeated |= seen[fingerprint] > 1
            if seen[fingerprint] > MAX_VISITS or len(events) > MAX_EVENTS:
                return Loop(self._world, self._choices, tuple(events))
        return None

    def lost_claim(self) -> str:
        """Return a pending head that requests its queue's own quota although the queue may reclaim from any.

        Empty if there is none.  Only for queues of one flavor: with several, another one may be tried last.
        """
        for queue in self.state.ledger.cluster_queues.values():
            (group,) = {id(group): group for group in queue.groups.values()}.values()
            waiting = queue.pending.active() + ([] if queue.is_strict else queue.pending.inadmissible())
            for entry in waiting[:1] if queue.is_strict else waiting:
                (pods,) = entry.shape.pod_sets
                needed = {
                    FlavorResource(group.flavors[0], resource): amount * pods.min_count
                    for resource, amount in pods.per_pod.items()
                }
                if len(group.flavors) > 1 or any(
                    tree.borrows_with(queue.node, pair, amount) for pair, amount in needed.items()
                ):
                    continue
                if queue.spec.preemption.reclaim_within_cohort == "Any":
                    return entry.key.name
        return ""

    def _set_up(self) -> None:
        world, state = self._world, self.state
        state.put_namespace("", {})
        for flavor in range(max(len(queue.quotas) for queue in world.queues.values())):
            state.put_flavor(_flavor(flavor))
        for name, cohort in world.cohorts.items():
            spec = CohortSpec(
                parent_name=cohort.parent,
                resource_groups=_groups(cohort.quotas),
                fair_sharing=FairSharing(weight=parse_quantity(cohort.weight)),
            )
            state.put_cohort(Cohort(metadata=ObjectMeta(name=name), spec=spec))
        for name in world.queues:
            state.put_cluster_queue(self._cluster_queue(name))
            state.put_local_queue(_local_queue(name))
        for index, job in enumerate(world.jobs):
            self._put(_workload(index, job, world.began, world.maximum_s))
        for number, window in enumerate(world.windows):
            state.put_window(_reservation(number, window, world.began))
        for at, index in enumerate(world.running):
            workload = self._workloads[f"w{index}"]
            reserve = Reserve(
                key=workload.metadata.key,
                uid=workload.metadata.uid,
                resource_version="",
                cluster_queue=world.jobs[index].queue,
                admission=self._first_admission(index),
                admitted=True,
                waited_s=0,
            )
            self._put(replace(workload, status=admit_status(workload, reserve, world.began + at)))

    def _cluster_queue(self, name: str) -> ClusterQueue:
        queue = self._world.queues[name]
        spec = ClusterQueueSpec(
            resource_groups=_groups(queue.quotas),
            cohort_name=queue.cohort,
            queueing_strategy=queue.strategy,
            namespace_selector=LabelSelector(),
            flavor_fungibility=self._fungibility(name),
            preemption=cast(Preemption, _Policy(name, self._choices)),
            fair_sharing=FairSharing(weight=parse_quantity(queue.weight)),
        )
        annotations = {} if queue.aging is None else {PRIORITY_AGING: queue.aging}
        return ClusterQueue(metadata=ObjectMeta(name=name, annotations=annotations), spec=spec)

    def _fungibility(self, name: str) -> FlavorFungibility:
        if len(self._world.queues[name].quotas) == 1:
            return FlavorFungibility()  # one flavor leaves no choice
        return cast(FlavorFungibility, _Fungibility(name, self._choices))

    def _first_admission(self, index: int) -> Admission:
        job = self._world.jobs[index]
        flavors = range(len(self._world.queues[job.queue].quotas))
        flavor = self._choices.choose((index, "flavor"), flavors)
        count = self._choices.choose((index, "count"), range(job.min_count, job.pods + 1))
        used = {f"r{which}": amount for which, amount in enumerate(job.size) if amount}
        pods = PodSetAssignment(
            flavors=dict.fromkeys(used, f"f{flavor}"),
            resource_usage={name: Quantity.of_units(amount * count) for name, amount in used.items()},
            count=count,
        )
        return Admission(cluster_queue=job.queue, pod_set_assignments=(pods,))

    def _put(self, workload: Workload) -> None:
        self._versions += 1
        metadata = replace(workload.metadata, resource_version=str(self._versions))
        self._workloads[metadata.name] = replace(workload, metadata=metadata)
        self.state.put_workload(self._workloads[metadata.name], self._now)

    def _put_status(self, name: str, status: WorkloadStatus | None) -> None:
        assert status is not None, f"a decision about {name} changes nothing"
        self._put(replace(self._workloads[name], status=status))

    def _step(self, events: list[str]) -> bool:
        """Run cycles until anything happens, when they are due; return False if none is due any more."""
        before = len(events)
        wake_at: float | None = self._now
        while len(events) == before and wake_at is not None and wake_at < self._ends:
            self._now = max(self._now + 1, int(wake_at))
            wake_at = self._run_cycle(events)
        return len(events) > before

    def _run_cycle(self, events: list[str]) -> float | None:
        """Run a cycle and stop some preempted workloads; return when the next cycle is due."""
        self.state.advance_windows(self._now)
        self._evict_for_windows(events)
        result = self._admission_cycle.run(self._now)
        for decision in result.decisions:
            name = decision.key.name
            match decision:
                case Reserve():
                    self._put_status(name, admit_status(self._workloads[name], decision, self._now))
                    (pods,) = decision.admission.pod_set_assignments
                    events.append(f"{name} starts, {pods.count} on {sorted(pods.flavors.values())}")
                case Preempt():
                    self.preemptions += 1
                    self._put_status(name, preempt_status(self._workloads[name], decision, self._now))
                    events.append(f"{name} is preempted for {decision.preemptor.name}: {decision.reason}")
        stopping = [name for name, workload in self._workloads.items() if c.is_evicted(workload)]
        stopping = [name for name in stopping if c.has_quota_reservation(self._workloads[name])]
        if stopping:
            for name in self._choices.choose((self._fingerprint(), "stop"), _subsets(stopping)):
                self._put_status(name, release_status(self._workloads[name], self._now, DEFAULT_GATES))
                events.append(f"{name} stops")
        return result.wake_at

    def _evict_for_windows(self, events: list[str]) -> None:
        ledger = self.state.ledger
        for window in ledger.windows:
            evict_at = evicts_at(window, self._now)
            for workload in workloads_to_evict(ledger, window) if evict_at is not None else ():
                name = workload.metadata.name
                self._put_status(name, evict(workload, c.RESERVED_WINDOW, "", self._now).status)
                events.append(f"{name} is evicted for {window.name}")

    def _fingerprint(self) -> Any:
        """Return everything that decides what happens next; the beginning or end of a window is an event."""
        state = self.state
        windows = tuple(
            (interval, interval.opens <= self._now)
            for window in state.ledger.windows
            for interval in window.occurrences(self._now)[:1]
        )
        reserving = sorted(state.ledger.reservations.values(), key=lambda one: one.reserved_at)
        reservations = tuple((one.key.name, one.evicted, *one.usage.items()) for one in reserving)
        waiting = []
        for name, queue in state.ledger.cluster_queues.items():
            sticky = queue.pending.sticky
            waiting.append((state.pending(name), sticky.key.name if sticky is not None else ""))
        last_tried = tuple(
            tuple(tuple(sorted(one.items())) for one in entry.last_assignment.last_tried_flavors)
            for entry in state.ledger.entries.values()
            if entry.last_assignment is not None and entry.last_assignment.has_untried_flavors
        )
        return reservations, tuple(waiting), last_tried, windows


@cache
def _flavor(index: int) -> ResourceFlavor:
    return ResourceFlavor(metadata=ObjectMeta(name=f"f{index}"))


@cache
def _groups(quotas: Quotas) -> tuple[ResourceGroup, ...]:
    if not quotas:
        return ()
    covered = tuple(f"r{index}" for index in range(len(quotas[0])))
    flavors = tuple(
        FlavorQuotas(
            name=f"f{index}",
            resources=tuple(
                ResourceQuota(
                    name=name,
                    nominal_quota=Quantity.of_units(one.nominal),
                    borrowing_limit=_quantity(one.borrowing),
                    lending_limit=_quantity(one.lending),
                )
                for name, one in zip(covered, resources, strict=True)
            ),
        )
        for index, resources in enumerate(quotas)
    )
    return (ResourceGroup(covered_resources=covered, flavors=flavors),)


def _quantity(amount: int | None) -> Quantity | None:
    return None if amount is None else Quantity.of_units(amount)


@cache
def _local_queue(name: str) -> LocalQueue:
    return LocalQueue(metadata=ObjectMeta(name=name), spec=LocalQueueSpec(cluster_queue=name))


@cache
def _reservation(number: int, window: Window, began: int) -> Reservation:
    amounts = ReservedAmounts(flavor="f0", resources={"r0": Quantity.of_units(1)})
    spec = ReservationSpec(
        start=at_epoch(began + DAY_S // 4),
        duration_seconds=DAY_S // 4,
        recurrence="FREQ=DAILY",
        amounts=(amounts,),
        purpose="Workloads" if window.owner else "Maintenance",
        owners=ReservationOwners(cluster_queues=(window.owner,) if window.owner else ()),
        at_start=window.at_start,
    )
    return Reservation(metadata=ObjectMeta(name=f"window-{number}"), spec=spec)


@cache
def _workload(index: int, job: Job, began: int, maximum_s: int | None) -> Workload:
    requests = {f"r{which}": str(amount) for which, amount in enumerate(job.size) if amount}
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    pods = PodSet(count=job.pods, min_count=job.min_count, template=msgspec.Raw(codec.encode(template)))
    name = f"w{index}"
    metadata = ObjectMeta(name=name, uid=Uid(name), generation=1, creation_timestamp=at_epoch(began + index))
    return Workload(
        metadata=metadata,
        spec=WorkloadSpec(
            pod_sets=(pods,),
            queue_name=job.queue,
            priority=job.priority,
            maximum_execution_time_seconds=maximum_s,
        ),
    )


def _subsets(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return all subsets except the empty one, the largest first."""
    return tuple(subset for size in range(len(names), 0, -1) for subset in combinations(names, size))
