"""The scheduler of a run: pods that have no place from their quota are bound by sessions of the gang core.

Sessions follow each other after at least ``SESSION_MS``, Volcano's default period.  Each job has a pod group:
of a gang with all of its pods as ``minMember``, of other jobs with one, so that each pod is bound as soon as
a node has room.  Once all pods of such a job are bound, they count on their nodes as pods of another
scheduler, unless sessions evict pods: then a session costs as much as what waits.  Writes are stored at once:
the pods of a bind run, and evicted pods are gone.  Windows of Reservations keep nodes from gangs only: in a
cluster other pods are placed by schedulers that know no Reservations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import PriorityClass, Resources
from quorate.api.core.pod import Pod, PodMeta, PodStatus
from quorate.api.core.pod_resources import pod_requests
from quorate.api.core.scheduling import Node, PodSpec
from quorate.api.kueue import Workload
from quorate.api.kueue.placed_workload import PlacedWorkload
from quorate.api.meta import Key, ObjectMeta, Struct, Uid, at_epoch
from quorate.api.names.kueue import (
    ADMISSION_GATE,
    ELASTIC_JOB,
    MAX_EXEC_TIME_SECONDS,
    QUEUE_NAME,
    TOPOLOGY_GATE,
)
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.quantity import Quantity
from quorate.api.scheduler_configuration import default_scheduler_configuration
from quorate.api.volcano import (
    BUILT_IN_QUEUES,
    DEFAULT_QUEUE,
    INQUEUE,
    PENDING,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
)
from quorate.gang.cache.model import Model
from quorate.gang.outcome import GangStatus
from quorate.gang.session_run import run_session
from quorate.kube.resources import NAMESPACES, QUEUES, RESERVATIONS
from quorate.quota.amount import FlavorResource, base_units
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.inputs.node_pools import PODS
from quorate.simulate.inputs.scenario import JobClass, PodSetShape
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import SESSION_MS

SCHEDULER: Final = "quorate"
_NOT_A_GANG: Final = "not a gang"  # in place of the local queue, which owns every window
GATES: Final = frozenset((ADMISSION_GATE, TOPOLOGY_GATE, ELASTIC_JOB))  # that the controllers remove


class _Template(Struct):
    spec: PodSpec = PodSpec()
    metadata: ObjectMeta = ObjectMeta(name="")


class _PodShape(NamedTuple):
    """The properties that the pods of an admitted pod set share."""

    metadata: ObjectMeta
    spec: PodSpec
    detached: PodSpec  # the same for another scheduler
    amounts: Mapping[FlavorResource, int]  # that one uses of its node
    requests: Resources


class _Members:
    """The pods of one job."""

    __slots__ = ("attempt", "group", "job", "pods", "reason")

    def __init__(self, job: SimulatedJob, group: PodGroup) -> None:
        self.job = job
        self.group = group
        self.pods: dict[Key, tuple[Pod, _PodShape]] = {}  # that have not ended
        self.attempt = 0
        self.reason = ""  # why it waits, as of the last session with a reason


class Bound(NamedTuple):
    """Pods of one job that were bound in a session."""

    job: SimulatedJob
    pods: tuple[Key, ...]
    is_complete: bool  # all of its pods are bound


class SessionOutcome(NamedTuple):
    bound: tuple[Bound, ...]
    evicted: tuple[SimulatedJob, ...]  # jobs with pods that were evicted


class PodChange(NamedTuple):
    """A pod begins (1) or ceases (-1) to use a node."""

    pod: Pod
    node: str
    amounts: Mapping[FlavorResource, int]
    sign: int


class PodScheduler:
    """Feeds nodes, queues and pods to the gang core, and keeps what its sessions decide."""

    def __init__(self, world: World) -> None:
        self._model = Model((SCHEDULER,))
        self._settings = world.scenario.scheduler or default_scheduler_configuration()
        self._evicts = not {"preempt", "reclaim"}.isdisjoint(self._settings.actions)
        self._on_node: dict[str, dict[Key, None]] = {}  # pods
        self._job_of: dict[Key, SimulatedJob] = {}  # by bound pod
        self._classes = world.classes
        self._members: dict[Key, _Members] = {}  # by job, as its pod group
        self._shapes = [
            [_pod_shape(job_class, shape) for shape in job_class.pod_sets] for job_class in world.classes
        ]
        self._decided_revision = -1  # of the model, after the last session
        self._next_ms = 0  # no session is earlier
        self._wakes_at: float | None = None
        self._changes: list[PodChange] = []
        self.waiting = 0  # pods without a node
        for job_class in world.classes:
            if job_class.priority is not None:
                metadata = ObjectMeta(name=_priority_class(job_class.priority))
                self._model.set_priority_class(PriorityClass(metadata=metadata, value=job_class.priority))
        for queue in (*BUILT_IN_QUEUES.values(), *world.of_kind(QUEUES)):
            self._model.set_queue(queue)
        for namespace in world.of_kind(NAMESPACES):
            self._model.constraints.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        others = {Key(class_.namespace, _NOT_A_GANG) for class_ in world.classes if not class_.is_gang}
        self._has_windows = False
        for reservation in world.of_kind(RESERVATIONS):
            spec = reservation.spec
            owners = replace(spec.owners, local_queues=(*spec.owners.local_queues, *sorted(others)))
            self._model.set_reservation(replace(reservation, spec=replace(spec, owners=owners)))
            self._has_windows |= spec.nodes is not None

    def put_node(self, node: Node) -> None:
        self._model.set_node(node)

    @property
    def next_ms(self) -> int | None:
        """Return when a session is due because something changed; None if nothing did, or no pod waits."""
        has_changed = self.waiting and self._model.revision != self._decided_revision
        return self._next_ms if has_changed else None

    @property
    def wakes_at(self) -> float | None:
        """When a session is due although nothing changed, epoch seconds."""
        return self._wakes_at if self.waiting else None

    def take_changes(self) -> list[PodChange]:
        """Return the changes of the use of nodes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def submit(self, job: SimulatedJob, counts: Iterable[int], now: float) -> None:
        """Create the pod group and the pods of a job, ``counts`` by pod set."""
        job_class = self._classes[job.submission.class_index]
        shapes = self._shapes[job.submission.class_index]
        counts = tuple(counts)
        group = _group(job, job_class, shapes, counts, now)
        members = self._members[job.key] = _Members(job, group)
        self._model.set_group(group)
        for pod_set, (shape, count) in enumerate(zip(shapes, counts, strict=True)):
            for index in range(count):
                self._create(members, f"{job.key.name}-{pod_set}-{index}", shape, now)

    def _create(self, members: _Members, name: str, shape: _PodShape, now: float) -> None:
        namespace = members.job.key.namespace
        annotations = {**shape.metadata.annotations, GROUP_NAME: members.job.key.name}
        metadata = PodMeta(
            name=name,
            namespace=namespace,
            uid=Uid(f"{name}-{members.attempt}"),
            labels=self._labels(members.job, shape),
            annotations=annotations,
            creation_timestamp=at_epoch(now),
        )
        pod = Pod(metadata=metadata, spec=shape.spec)
        members.pods[metadata.key] = (pod, shape)
        self.waiting += 1
        self._model.set_pod(pod)

    def _labels(self, job: SimulatedJob, shape: _PodShape) -> Mapping[str, str]:
        """Return the labels of a pod, including labels that tell which windows keep nodes from the pod."""
        if not self._has_windows:
            return shape.metadata.labels
        spec, is_gang = job.workload.spec, self._classes[job.submission.class_index].is_gang
        labels = {**shape.metadata.labels, QUEUE_NAME: spec.queue_name if is_gang else _NOT_A_GANG}
        if spec.maximum_execution_time_seconds is not None:
            labels[MAX_EXEC_TIME_SECONDS] = str(spec.maximum_execution_time_seconds)
        return labels

    def restart(self, job: SimulatedJob, now: float) -> None:
        """Create the pods of a job anew that have not ended: they lost their nodes."""
        members = self._members[job.key]
        members.attempt += 1
        lost = [(key.name, shape) for key, (_, shape) in members.pods.items()]
        self.end_pods(job, list(members.pods))
        self._model.set_group(members.group)
        for name, shape in lost:
            self._create(members, name, shape, now)

    def finish_pods(self, job: SimulatedJob, pods: Sequence[Key]) -> bool:
        """Remove pods that have finished; return True if the job has none left."""
        for key in pods:
            pod, _ = self._members[job.key].pods[key]
            self._model.set_pod(replace(pod, status=PodStatus(phase="Succeeded")))
        return self.end_pods(job, pods)

    def end_pods(self, job: SimulatedJob, pods: Iterable[Key]) -> bool:
        """Remove pods that have ended; return True if the job has none left."""
        members = self._members[job.key]
        for key in pods:
            pod, shape = members.pods.pop(key)
            self._model.remove_pod(key)
            if pod.node_name:
                del self._on_node[pod.node_name][key], self._job_of[key]
                self._changes.append(PodChange(pod, pod.node_name, shape.amounts, -1))
            else:
                self.waiting -= 1
        return not members.pods

    def remove(self, job: SimulatedJob) -> None:
        """Remove the pods and the pod group of a job, if it has some."""
        members = self._members.get(job.key)
        if members is not None:
            self.end_pods(job, list(members.pods))
            del self._members[job.key]
            self._model.remove_group(job.key)

    def drop_waiting(self, job: SimulatedJob) -> None:
        """Remove the pods of a job that have no node, as it is being stopped."""
        if (members := self._members.get(job.key)) is not None:
            self.end_pods(job, [key for key, (pod, _) in members.pods.items() if not pod.node_name])

    def hold(self, workload: Workload) -> None:
        """Keep the places of an admitted workload free of other pods."""
        self._model.set_workload(codec.decode(PlacedWorkload, codec.encode(workload)))

    def release(self, key: Key) -> None:
        self._model.remove_workload(key)

    def jobs_on(self, nodes: Iterable[str]) -> Iterator[SimulatedJob]:
        """Yield the jobs with pods on one of ``nodes``, in a fixed order."""
        jobs = {pod: self._job_of[pod] for node in nodes for pod in self._on_node.get(node, ())}
        by_key = {job.key: job for job in jobs.values()}
        yield from (by_key[key] for key in sorted(by_key))

    def run_session(self, now_ms: int, now: float) -> SessionOutcome:
        """Run a session and store its decisions."""
        outcome = run_session(self._model, self._settings, now)
        self._next_ms = now_ms + SESSION_MS
        self._wakes_at = outcome.wake_at
        evicted = {eviction.gang: None for eviction in outcome.evictions}
        bound: dict[Key, list[Key]] = {}
        self._decided_revision = self._model.revision
        for status in outcome.statuses:
            self._store_status(status)
        for key, reason in outcome.pending_reasons.items():
            self._members[key].reason = str(reason)
        for bind in outcome.binds:
            members = self._members[bind.gang]
            pod, shape = members.pods[bind.task]
            pod = replace(pod, node_name=bind.node, status=PodStatus(phase="Running"))
            members.pods[bind.task] = (pod, shape)
            self._model.set_pod(pod)
            self.waiting -= 1
            self._on_node.setdefault(bind.node, {})[bind.task] = None
            self._job_of[bind.task] = members.job
            self._changes.append(PodChange(pod, bind.node, shape.amounts, 1))
            bound.setdefault(bind.gang, []).append(bind.task)
        return SessionOutcome(
            tuple(self._bound(key, pods) for key, pods in bound.items()),
            tuple(self._members[key].job for key in evicted),
        )

    def _bound(self, key: Key, pods: Iterable[Key]) -> Bound:
        members = self._members[key]
        is_complete = all(pod.node_name for pod, _ in members.pods.values())
        if is_complete and not self._evicts and not self._classes[members.job.submission.class_index].is_gang:
            for pod_key, (pod, shape) in members.pods.items():
                detached = replace(pod, spec=shape.detached)
                members.pods[pod_key] = (detached, shape)
                self._model.set_pod(detached)
            self._model.remove_group(key)
        return Bound(members.job, tuple(pods), is_complete)

    def _store_status(self, status: GangStatus) -> None:
        members = self._members.get(status.gang)
        if members is None:
            return
        group, counts = members.group, status.counts
        kept = {key: value for key, value in status.admission.annotations().items() if value is not None}
        members.group = group = PodGroup(
            metadata=replace(group.metadata, annotations=kept),
            spec=group.spec,
            status=PodGroupStatus(
                phase=status.phase,
                conditions=status.conditions,
                running=counts.running,
                succeeded=counts.succeeded,
                failed=counts.failed,
            ),
        )
        self._model.set_group(group)

    def is_waiting(self, job: SimulatedJob) -> bool:
        """Return True if a pod of the job has no node."""
        members = self._members.get(job.key)
        return members is not None and any(not pod.node_name for pod, _ in members.pods.values())

    def why_waiting(self, job: SimulatedJob) -> str:
        """Return the reason that the scheduler gave last; "" if no pod of the job waits."""
        members = self._members.get(job.key)
        if members is None or not self.is_waiting(job):
            return ""
        return members.reason or "its pods wait for nodes"


def _pod_shape(job_class: JobClass, shape: PodSetShape) -> _PodShape:
    """Return how the pods of a pod set are placed: as if their volumes and devices were on every node.

    A scenario has no claims, and nothing would create them.
    """
    template = codec.decode(_Template, bytes(shape.template))
    gates = tuple(gate for gate in template.spec.scheduling_gates if gate.name not in GATES)
    spec = replace(
        template.spec, scheduler_name=SCHEDULER, scheduling_gates=gates, volumes=(), resource_claims=()
    )
    if spec.priority is None and job_class.priority is not None:
        name = _priority_class(job_class.priority)
        spec = replace(spec, priority=job_class.priority, priority_class_name=name)
    requests = pod_requests(spec)
    amounts = {FlavorResource("", name): base_units(name, amount) for name, amount in requests.items()}
    detached = replace(spec, scheduler_name="")
    return _PodShape(template.metadata, spec, detached, {**amounts, FlavorResource("", PODS): 1}, requests)


def _group(
    job: SimulatedJob, job_class: JobClass, shapes: Iterable[_PodShape], counts: tuple[int, ...], now: float
) -> PodGroup:
    total: dict[str, Quantity] = {}
    for shape, count in zip(shapes, counts, strict=True):
        for name, amount in shape.requests.items():
            more = Quantity(amount.nanos * count, amount.form)
            total[name] = more if name not in total else Quantity(total[name].nanos + more.nanos, more.form)
    is_gang = job_class.is_gang
    queue = job_class.queues[job.submission.queue_index] if job_class.is_volcano else DEFAULT_QUEUE
    metadata = ObjectMeta(
        name=job.key.name,
        namespace=job.key.namespace,
        uid=Uid(f"group-{job.number:08}"),
        creation_timestamp=at_epoch(now),
    )
    spec = PodGroupSpec(
        min_member=sum(counts) if is_gang else 1,
        queue=queue,
        min_resources=total if is_gang else None,
        priority_class_name="" if job_class.priority is None else _priority_class(job_class.priority),
    )
    return PodGroup(
        metadata=metadata, spec=spec, status=PodGroupStatus(phase=PENDING if is_gang else INQUEUE)
    )


def _priority_class(value: int) -> str:
    return f"priority-{value}"
