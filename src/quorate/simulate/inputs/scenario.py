"""Scenarios: which jobs are submitted, when, and how long they run.

    apiVersion: simulate.quorate.dev/v1alpha1
    kind: Scenario
    seed: 7
    until: 72h                      # without it, until every job has ended
    jobs:
    - name: training
      queues: [team-a, team-b]      # local queues; each gets these jobs
      arrivals: {every: {exponential: 10m}, count: 500}
      pods: {choice: [1, 2, 4]}
      requests: {cpu: "4", memory: 8Gi}
      runs: {lognormal: {median: 30m, sigma: 1.1}}

The objects that decide about them (queues, flavors, cohorts, priority classes) are manifests beside it, see
``world``.  Every draw depends on the seed, the names of class and queue, and the number of the job alone: the
same jobs are submitted whatever the queues decide.  Jobs of one instant are submitted in the order of the
names of their classes and queues.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration.planned_starts import (
    BACKFILL,
    BACKFILL_MODES,
    LEAST_MAXIMUM_S,
    MAX_DEPTH,
    MAX_SLACK,
    ON_OVERRUN,
)
from quorate.api.configuration.priority_aging import PRIORITY_AGING, decode_priority_aging
from quorate.api.decoding import strict as d
from quorate.api.decoding.documents import Document
from quorate.api.findings import Finding
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import PodSetTopologyRequest
from quorate.api.quantity import Quantity
from quorate.api.scheduler_configuration import SchedulerConfiguration, load_scheduler_configuration
from quorate.api.syntax import is_dns_subdomain
from quorate.queueing.planning.rules import DEFAULT_MAXIMUM, DEPTH, OVERRUN, RESERVE_AFTER, SLACK
from quorate.simulate.inputs.distributions import (
    Constant,
    Distribution,
    amount_of_seconds,
    counts,
    durations,
    positive_number,
    positive_seconds,
)
from quorate.simulate.inputs.node_pools import NodePool, node_pools, short_name
from quorate.simulate.inputs.worker_clusters import DISPATCHERS, WorkerCluster, dispatchers, worker_clusters
from quorate.simulate.limits import MAX_JOBS

API_VERSION: Final = "simulate.quorate.dev/v1alpha1"
CLASS_ANNOTATION: Final = "simulate.quorate.dev/class"  # of a Workload: the name of its class in ``existing``
BEGINS_S: Final = 1_767_571_200.0  # virtual time begins at 2026-01-05T00:00:00Z, a Monday


class Arrivals(msgspec.Struct, frozen=True):
    """When the jobs of a class are submitted, seconds after the start."""

    at: tuple[float, ...] = ()  # these times, if any; otherwise the fields below
    every: Distribution = Constant(0.0)
    count: int | None = None
    first: float = 0.0
    until: float | None = None


class Failures(msgspec.Struct, frozen=True):
    """A job fails with this probability: after ``after``, if that is shorter than its run time."""

    probability: float = 0.0
    after: Distribution = Constant(0.0)


class PodSetShape(msgspec.Struct, frozen=True):
    """A pod set of every job of a class; ``min_count`` is the least count that it accepts."""

    name: str
    count: Distribution
    min_count: int | None
    template: msgspec.Raw  # JSON of a PodTemplateSpec
    topology_request: PodSetTopologyRequest | None = None  # None: by the annotations of the template


class JobClass(msgspec.Struct, frozen=True):
    """Jobs that are alike.  Durations are in seconds."""

    name: str
    namespace: str
    queues: tuple[str, ...]
    arrivals: Arrivals
    pod_sets: tuple[PodSetShape, ...]
    runs: Distribution  # with all its pods; with fewer, longer in proportion
    starts: Distribution = Constant(0.0)  # from admission until all pods are ready
    stops: Distribution = Constant(0.0)  # from an eviction until the pods have ended
    checkpoint_s: float | None = None  # an evicted job keeps its work up to a multiple of it; None: none
    priority: int | None = None
    priority_class: str = ""
    maximum_execution_s: int | None = None
    overestimate: float | None = None  # each declares its own run time times this as its maximum
    failures: Failures | None = None
    is_gang: bool = False  # its pods are bound together or not at all
    is_volcano: bool = False  # ``queues`` are those of scheduling.volcano.sh, and it takes no quota


class CheckAnswer(msgspec.Struct, frozen=True):
    """How the controller of an admission check answers: after ``after``, Ready with this probability."""

    after: Distribution = Constant(0.0)
    ready: float = 1.0  # otherwise it answers Retry


class ParallelJobs(msgspec.Struct, frozen=True, kw_only=True):
    """What the numbers of jobs of a parallel computer stand for in a cluster."""

    namespace: str
    resource: str  # of which a processor takes ``per_processor``
    per_processor: Quantity
    stretch: float  # of the times between submissions
    overestimate: float | None = None  # a job declares its run time times this as its maximum
    priority: int | None = None


class Trace(ParallelJobs, frozen=True, kw_only=True):
    """A file in Standard Workload Format."""

    file: str
    queues: dict[str, str]  # local queue by queue number; "" for all other numbers


class WorkloadModel(ParallelJobs, frozen=True, kw_only=True):
    """Jobs of the model in ``lublin_feitelson``."""

    name: str  # of the class of its jobs
    jobs: int
    processors: int  # of the modelled machine, the size of the largest jobs
    queue: str


class Scenario(msgspec.Struct, frozen=True):
    seed: int = 0
    until_s: float | None = None  # None: until every job has ended or nothing can change any more
    classes: tuple[JobClass, ...] = ()
    checks: dict[str, CheckAnswer] = {}  # by the name of the AdmissionCheck
    traces: tuple[Trace, ...] = ()
    models: tuple[WorkloadModel, ...] = ()
    begins_s: float = BEGINS_S  # epoch seconds of the start of virtual time
    existing: tuple[JobClass, ...] = ()  # of the Workloads beside the scenario; without arrivals
    nodes: tuple[NodePool, ...] = ()
    scheduler: SchedulerConfiguration | None = None  # None: the default
    queue_annotations: dict[str, dict[str, str]] = {}  # by cluster queue, beside those of its manifest
    clusters: tuple[WorkerCluster, ...] = ()  # that run the jobs; none: the cluster of the scenario does
    dispatchers: tuple[str, ...] = DISPATCHERS  # to play with clusters, one after another


# Of existing workloads in no other class: they run as long as they declare.
OTHERS: Final = JobClass("existing", "", (), Arrivals(), (), Constant(0.0))


class ClassesOfExisting:
    """Finds the class of an existing workload: the class that it names, or the first class of its queue.

    The last class has all others.
    """

    def __init__(self, classes: Sequence[JobClass]) -> None:
        self._last = len(classes) - 1
        self._by_name: dict[str, int] = {}
        self._by_queue: dict[tuple[str, str], int] = {}  # the queue is empty for a class of a whole namespace
        for index, class_ in enumerate(classes[:-1]):
            self._by_name.setdefault(class_.name, index)
            for queue in class_.queues or ("",):
                self._by_queue.setdefault((class_.namespace, queue), index)

    def index_of(self, workload: Workload) -> int:
        named = workload.metadata.annotations.get(CLASS_ANNOTATION)
        if named in self._by_name:
            return self._by_name[named]
        namespace = workload.metadata.namespace
        queues = (workload.spec.queue_name, "")
        return min(self._by_queue.get((namespace, queue), self._last) for queue in queues)


def read_scenario(document: Document) -> tuple[Scenario, list[Finding]]:
    """Return the scenario in the document, and the findings about it."""
    context = d.DecodeContext(document)
    return context.root().decode(d.section(_scenario), Scenario()), context.findings


def _scenario(fields: d.Section) -> Scenario:
    fields.take("apiVersion", d.choice((API_VERSION,)), API_VERSION)
    fields.take("kind", d.choice(("Scenario",)), "Scenario")
    fields.take("metadata", d.map_of(d.text), {})
    classes = fields.take("jobs", d.list_of(d.section(_job_class)), ())
    models = fields.take("models", d.list_of(d.section(_model)), ())
    names = [*(named.name for named in classes), *(named.name for named in models)]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        fields.at("jobs").reject(f"has two classes {double!r} (give each a name of its own)")
    traces = fields.take("traces", d.list_of(d.section(_trace)), ())
    existing = fields.take("existing", d.list_of(d.section(_existing_class)), ())
    if not classes and not traces and not models and not existing and "jobs" not in fields:
        fields.at("jobs").reject("is missing (describe at least one class of jobs)")
    if "clusters" not in fields:
        fields.reject_if_present("dispatchers", "has no effect without clusters (write clusters, or drop it)")
    return Scenario(
        seed=fields.take("seed", d.integer(0), 0),
        until_s=fields.take("until", amount_of_seconds, None),
        classes=tuple(sorted(classes, key=lambda named: named.name)),  # the order of jobs of one instant
        checks=fields.take("admissionChecks", d.map_of(d.section(_check)), {}),
        traces=traces,
        models=models,
        begins_s=fields.take("begins", _time, BEGINS_S),
        existing=existing,
        nodes=fields.take("nodes", node_pools, ()),
        scheduler=fields.take("scheduler", _scheduler, None),
        queue_annotations=fields.take("clusterQueues", d.map_of(d.section(_queue_annotations)), {}),
        clusters=fields.take("clusters", worker_clusters, ()),
        dispatchers=fields.take("dispatchers", dispatchers, DISPATCHERS),
    )


def _queue_annotations(fields: d.Section) -> dict[str, str]:
    """Return the annotations of a cluster queue for the fields that say how it plans and orders."""
    annotations = {}
    for annotation, (name, decoder) in _QUEUE_FIELDS.items():
        if fields.take(name, decoder, None) is not None:
            value = fields.at(name).value
            annotations[annotation] = value if isinstance(value, str) else codec.encode(value).decode()
    return annotations


_QUEUE_FIELDS: Final[Mapping[str, tuple[str, d.Decoder[object]]]] = {
    BACKFILL: ("backfill", d.choice(BACKFILL_MODES)),
    DEPTH: ("backfillDepth", d.integer(1, MAX_DEPTH)),
    SLACK: ("backfillSlackPercent", d.integer(0, MAX_SLACK)),
    RESERVE_AFTER: ("reserveAfter", d.duration()),
    DEFAULT_MAXIMUM: ("defaultMaximumExecutionTime", d.duration(minimum_s=LEAST_MAXIMUM_S)),
    OVERRUN: ("onOverrun", d.choice(ON_OVERRUN)),
    PRIORITY_AGING: ("priorityAging", d.section(decode_priority_aging)),
}


def _scheduler(field: d.Field) -> SchedulerConfiguration:
    """Decode the configuration of the scheduler, written as in its file."""
    try:
        return load_scheduler_configuration(codec.encode(field.value).decode()).configuration
    except d.InvalidConfiguration as error:
        finding = error.findings[0]
        raise d.InvalidValue(
            f"is no configuration of the scheduler: {finding.path}: {finding.rule}"
        ) from error


_object_name = d.text_matching(is_dns_subdomain, "a name of an object")


def _job_class(fields: d.Section) -> JobClass | None:
    common = _common_fields(fields, "how long a job runs, such as 30m")
    queues = fields.take("queues", d.list_of(_object_name, minimum=1), ())
    if "queue" in fields:
        queues = (fields.take("queue", _object_name, ""),)
    if not queues and "queues" not in fields:
        fields.at("queue").reject("is missing (write the name of a LocalQueue)")
    arrivals = fields.take("arrivals", d.section(_arrivals), Arrivals(count=1))
    api = fields.take("api", d.choice((_BATCH, _VOLCANO)), _BATCH)
    return JobClass(
        queues=tuple(sorted(queues)),
        arrivals=arrivals,
        pod_sets=_pod_sets(fields),
        priority=fields.take("priority", d.integer(), None),
        priority_class=fields.take("priorityClass", _object_name, ""),
        maximum_execution_s=fields.take("maximumExecutionTimeSeconds", d.integer(1), None),
        overestimate=fields.take("overestimate", _factor, None),
        failures=fields.take("fails", d.section(_failures), None),
        is_gang=fields.take("gang", d.boolean, False) or api == _VOLCANO,
        is_volcano=api == _VOLCANO,
        **common,
    )


def _existing_class(fields: d.Section) -> JobClass:
    common = _common_fields(fields, "how long these jobs run in all, such as 30m")
    queues = fields.take("queues", d.list_of(_object_name), ())
    return JobClass(queues=queues, arrivals=Arrivals(), pod_sets=(), **common)


def _common_fields(fields: d.Section, run_time: str) -> dict[str, Any]:
    """Return the fields of ``JobClass`` that all classes have; ``run_time`` is a hint."""
    fields.require("name", hint="write a short name, such as training")
    fields.require("runs", hint=f"write {run_time}")
    return {
        "name": fields.take("name", short_name, ""),
        "namespace": fields.take("namespace", short_name, "default"),
        "runs": fields.take("runs", durations, Constant(0.0)),
        "starts": fields.take("starts", durations, Constant(0.0)),
        "stops": fields.take("stops", durations, Constant(0.0)),
        "checkpoint_s": fields.take("checkpointEvery", positive_seconds, None),
    }


def _time(field: d.Field) -> float:
    # PyYAML has decoded a time that is not quoted.
    value = field.value
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError) as invalid:
        raise d.InvalidValue("is no time (write 2026-01-05T00:00:00Z)") from invalid
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_BATCH: Final = "batch"
_VOLCANO: Final = "volcano"


def _arrivals(fields: d.Section) -> Arrivals:
    at = fields.take("at", d.list_of(amount_of_seconds, minimum=1), ())
    if at:
        for name in ("every", "count", "from", "until"):
            fields.reject_if_present(name, "has no effect beside at (drop one of the two)")
        return Arrivals(at=tuple(sorted(at)))
    arrivals = Arrivals(
        every=fields.take("every", durations, Constant(0.0)),
        count=fields.take("count", d.integer(1, MAX_JOBS), None),
        first=fields.take("from", amount_of_seconds, 0.0),
        until=fields.take("until", amount_of_seconds, None),
    )
    if arrivals.count is None and (arrivals.until is None or arrivals.every == Constant(0.0)):
        fields.at("count").reject("is missing (write how many jobs, or every and until)")
    return arrivals


def _pod_sets(fields: d.Section) -> tuple[PodSetShape, ...]:
    if "podSets" in fields:
        for name in ("pods", "minPods", "requests", "template"):
            fields.reject_if_present(name, "has no effect beside podSets (write it in each of them)")
        return fields.take("podSets", d.list_of(d.section(_pod_set), minimum=1, maximum=8), ())
    return (_shape(fields, "main", count_field="pods", min_field="minPods"),)


def _pod_set(fields: d.Section) -> PodSetShape:
    name = fields.take("name", short_name, "main")
    return _shape(fields, name, count_field="count", min_field="minCount")


def _shape(fields: d.Section, name: str, *, count_field: str, min_field: str) -> PodSetShape:
    template = fields.take("template", _template, None)
    requests = fields.take("requests", d.map_of(d.quantity), {})
    if template is not None and requests:
        fields.at("requests").reject("has no effect beside template (drop one of the two)")
    if template is None:
        amounts = {resource: str(amount) for resource, amount in requests.items()}
        container = {"name": "main", "image": "simulated", "resources": {"requests": amounts}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return PodSetShape(
        name=name,
        count=fields.take(count_field, counts, Constant(1.0)),
        min_count=fields.take(min_field, d.integer(0), None),
        template=msgspec.Raw(codec.encode(template)),
    )


def _template(field: d.Field) -> dict[str, object]:
    if not isinstance(field.value, dict) or not isinstance(field.value.get("spec"), dict):
        raise d.InvalidValue("is no pod template (write spec with containers)")
    return field.value


_probability = d.satisfying(d.number, lambda value: 0 <= value <= 1, "is no probability (write 0 to 1)")
_failures = d.struct_of(Failures, probability=("probability", _probability), after=("after", durations))
_check = d.struct_of(CheckAnswer, after=("after", durations), ready=("ready", _probability))


def _trace(fields: d.Section) -> Trace:
    file = fields.take("file", d.text, "")
    if not file:
        fields.at("file").reject("is missing (write the path of a file in Standard Workload Format)")
    queues = fields.take("queues", d.map_of(_object_name), {})
    if "queue" in fields:
        queues = {**queues, "": fields.take("queue", _object_name, "")}
    if not queues:
        fields.at("queue").reject("is missing (write the name of a LocalQueue)")
    return Trace(file=file, queues=queues, **_parallel_jobs(fields))


def _model(fields: d.Section) -> WorkloadModel:
    jobs, processors = fields.take("lublinFeitelson", d.section(_lublin_feitelson), (1, 1))
    fields.require("lublinFeitelson", hint="write {jobs: 5000, processors: 128}")
    fields.require("queue", hint="write the name of a LocalQueue")
    return WorkloadModel(
        name=fields.take("name", short_name, "lublin-feitelson"),
        jobs=jobs,
        processors=processors,
        queue=fields.take("queue", _object_name, ""),
        **_parallel_jobs(fields),
    )


def _parallel_jobs(fields: d.Section) -> dict[str, Any]:
    """Return the fields of ``ParallelJobs``."""
    return {
        "namespace": fields.take("namespace", short_name, "default"),
        "resource": fields.take("resource", d.text, "cpu"),
        "per_processor": fields.take("perProcessor", d.quantity, Quantity.of_units(1)),
        "stretch": fields.take("stretch", positive_number, 1.0),
        "overestimate": fields.take("overestimate", _factor, None),
        "priority": fields.take("priority", d.integer(), None),
    }


_factor = d.satisfying(
    d.number, lambda value: value >= 1, "would end jobs before they have run (write 1 or more)"
)


def _lublin_feitelson(fields: d.Section) -> tuple[int, int]:
    for name, example in (("jobs", 5000), ("processors", 128)):
        if name not in fields:
            fields.at(name).reject(f"is missing (write {name}: {example})")
    return fields.take("jobs", d.integer(1, MAX_JOBS), 1), fields.take(
        "processors", d.integer(1, 1_000_000), 1
    )
