"""The series of the gang scheduler: Volcano's, so that dashboards made for it keep working, and ours.

Names, labels, units and buckets are Volcano's (1.15; for the reservations of queues its main branch): cpu and
devices in thousandths, memory in bytes.  The reference page lists the series of Volcano that do not exist
here, with reasons.
"""

from typing import Final

from quorate.api.volcano import COMPLETED, INQUEUE, PENDING, RUNNING, UNKNOWN
from quorate.observe.families import Family, Kind, exponential_buckets

PHASES: Final = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
_SESSION_MS: Final = exponential_buckets(1, 5_000, 20)
_PLUGIN_MS: Final = exponential_buckets(0.1, 100, 15)
_ACTION_MS: Final = exponential_buckets(1, 2_000, 20)
_POD_MS: Final = exponential_buckets(50, 60_000, 30)
_STAGE_MS: Final = exponential_buckets(0.1, 500, 20)
_GROUP_MS: Final = exponential_buckets(100, 120_000, 30)
_WAIT_S: Final = tuple(1.0 * 4**step for step in range(9))  # 1 s to 18 h
_GROUP: Final = ("job_name", "queue", "job_namespace")


def _family(kind: Kind, name: str, labels: tuple[str, ...], text: str, *bounds: float) -> Family:
    return Family(f"volcano_{name}", kind, labels, text, bounds)


SESSIONS: Final = (
    _family("histogram", "e2e_scheduling_latency_milliseconds", (), "Duration of a session", *_SESSION_MS),
    _family(
        "histogram", "open_session_duration_milliseconds", (),
        "Duration of a session until its first action", *_SESSION_MS,
    ),
    _family(
        "histogram", "plugin_scheduling_latency_milliseconds", ("plugin", "OnSession"),
        "Duration of a plugin in that time; `OnSession` is always `OnSessionOpen`", *_PLUGIN_MS,
    ),
    _family(
        "histogram", "action_scheduling_latency_milliseconds", ("action",),
        "Duration of an action", *_ACTION_MS,
    ),
)  # fmt: skip
PODS: Final = (
    _family(
        "histogram", "task_scheduling_latency_milliseconds", ("stage",),
        "From the creation of a pod until it had a node (`Assumed`), its volumes were bound (`PreBound`), "
        "and it was bound (`Bound`)", *_POD_MS,
    ),
    _family(
        "histogram", "scheduling_stage_duration_milliseconds", ("stage",),
        "Duration of binding a pod: its volumes (`PreBind`), and the bind request (`Bind`)",
        *_STAGE_MS,
    ),
    _family(
        "counter", "schedule_attempts_total", ("result",),
        "Pods that were bound (`scheduled`), could not be bound (`error`), or had no feasible node in a "
        "session (`unschedulable`)",
    ),
    _family(
        "gauge", "pod_preemption_victims", (),
        "Pods evicted by the last session in which `preempt` evicted any",
    ),
    _family(
        "counter", "total_preemption_attempts", (),
        "Pod groups for which `preempt` evicted pods, counted in every session",
    ),
)  # fmt: skip
GROUPS: Final = (
    _family(
        "histogram", "e2e_job_scheduling_latency_milliseconds", (),
        "From the creation of a pod group until members got nodes, in every session in which some did",
        *_GROUP_MS,
    ),
    _family("gauge", "e2e_job_scheduling_duration", _GROUP, "The same for the last such session, in ms"),
    _family(
        "gauge", "e2e_job_scheduling_start_time", _GROUP,
        "When a pod group was created, in seconds since the epoch",
    ),
    _family(
        "gauge", "e2e_job_scheduling_last_time", _GROUP,
        "When members last got nodes, in seconds since the epoch",
    ),
    _family(
        "gauge", "unschedule_task_count", ("job_id",),
        "Members without a node that a pod group needs to reach its minimum",
    ),
    _family("gauge", "unschedule_job_count", (), "Pod groups below their minimum"),
    _family(
        "counter", "job_retry_counts", ("job_id",),
        "Sessions in which a pod group was not admitted or not placed",
    ),
    _family(
        "gauge", "job_share", ("job_ns", "job_id"),
        "Dominant share of a pod group in the cluster; with the plugin `drf`",
    ),
)  # fmt: skip
_QUEUE: Final = ("queue_name",)


def _queue_amounts(name: str, text: str) -> tuple[Family, Family, Family]:
    """Return a series for cpu, one for memory, and one for everything else."""
    return (
        Family(f"volcano_queue_{name}_milli_cpu", "gauge", _QUEUE, f"{text}, in thousandths of a cpu"),
        Family(f"volcano_queue_{name}_memory_bytes", "gauge", _QUEUE, f"{text}, of memory"),
        Family(
            f"volcano_queue_{name}_scalar_resources",
            "gauge",
            (*_QUEUE, "resource"),
            f"{text}, in thousandths of a device; pods by the whole",
        ),
    )


QUEUE_RESOURCES: Final[tuple[Family, ...]] = (
    *_queue_amounts("allocated", "Resources of the pods of a queue that have a node"),
    *_queue_amounts("request", "Resources of running and pending pods of a queue"),
    *_queue_amounts("inqueue", "Resources that admitted groups of a queue may still allocate"),
    *_queue_amounts("deserved", "Deserved resources of a queue"),
    *_queue_amounts("capacity", "The capability of a queue"),
    *_queue_amounts("real_capacity", "Real capacity of a queue"),
    Family(
        "volcano_queue_share", "gauge", _QUEUE, "Allocated resources of a queue relative to its deserved ones"
    ),
    Family("volcano_queue_weight", "gauge", _QUEUE, "The weight of a queue"),
    Family("volcano_queue_overused", "gauge", _QUEUE, "1 if a queue has its deserved resources, or more"),
)
QUEUES: Final = (
    *(
        _family(
            "gauge", f"queue_pod_group_{phase.lower()}_count", ("queue_name",),
            f"Pod groups of a queue that are {phase}",
        )
        for phase in PHASES
    ),
    *QUEUE_RESOURCES,
)  # fmt: skip
# Admission of pod groups, which Volcano does not measure.
OURS: Final = (
    _family("counter", "enqueue_admitted_total", ("queue",), "Pod groups that were admitted"),
    _family(
        "counter", "enqueue_rejected_total", ("queue", "reason"),
        "Pod groups that were not admitted, once for each successive reason of a group",
    ),
    _family(
        "counter", "inqueue_rollback_total", ("queue", "reason"),
        "Pod groups with an admission that was rolled back",
    ),
    _family(
        "histogram", "inqueue_wait_seconds", (),
        "From the creation of a pod group until its admission", *_WAIT_S,
    ),
    _family(
        "gauge", "inqueue_age_seconds", ("queue",),
        "Time since the admission of the oldest pod group without a member on a node",
    ),
    _family(
        "gauge", "quota_reserved", ("namespace", "resource"),
        "Quota of the namespace that is reserved for active pod groups, in base units",
    ),
    _family(
        "counter", "refused_writes_total", ("resource", "code"),
        "Writes that the API server refused, by status code; without 404, 409 and 429, which are ordinary",
    ),
    _family(
        "counter", "object_faults_total", ("resource", "stage"),
        "Times that an object could not be used: in decode, index, subscribe, decide or reconcile",
    ),
)  # fmt: skip
FAMILIES: Final = SESSIONS + PODS + GROUPS + QUEUES + OURS
BY_NAME: Final = {family.name: family for family in FAMILIES}
