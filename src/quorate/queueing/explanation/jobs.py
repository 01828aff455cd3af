"""The explanation of a job or pod without a Workload: nothing queues it, and why."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from quorate.api.explanation import NO_WORKLOAD, Explanation, ObjectName, Reason
from quorate.api.meta import Key, matches_selector
from quorate.api.names.kueue import ADMISSION_GATE, CRON_JOB, QUEUE_NAME
from quorate.queueing.explanation.reasons import missing_local_queue
from quorate.queueing.state import State

_WITHOUT_QUEUE: Final = {
    None: "",
    True: " and is suspended: nothing will start it",
    False: ": it runs outside of every quota",
}


class UnqueuedJob(msgspec.Struct, frozen=True):
    """A job without a Workload, as its labels and the configuration describe it."""

    kind: str
    key: Key
    queue: str  # the value of its label; empty without one
    why_kind: str = ""  # why jobs of its kind are not queued; empty if they are
    is_suspended: bool | None = None  # None: it has no such field
    group: str = ""  # of the API, "" for core


def explain_unqueued_job(state: State, job: UnqueuedJob) -> Explanation:
    """Return why ``job`` has no Workload by the configuration and the queues of ``state``."""
    reasons = tuple(_reasons(state, job))
    message = "; ".join(reason.text for reason in reasons)
    if not reasons:
        enough = "the controllers must create its Workload: look at the events of the job, and at their log"
        reasons = (Reason(code=NO_WORKLOAD, text="it has no Workload yet", enough=enough),)
        message = reasons[0].text
    return Explanation(
        object=ObjectName(kind=job.kind, name=job.key.name, namespace=job.key.namespace),
        state="NotQueued",
        message=message,
        code=reasons[0].code,
        local_queue=job.queue,
        reasons=reasons,
        enough=tuple(dict.fromkeys(reason.enough for reason in reasons if reason.enough)),
    )


def _reasons(state: State, job: UnqueuedJob) -> Iterator[Reason]:
    namespace = job.key.namespace
    if (job.group, job.kind) == CRON_JOB:
        yield Reason(
            code="KindNotQueued",
            text="the jobs of a CronJob are queued, and none of them has a Workload now",
            enough=f"spec.jobTemplate.metadata.labels must have {QUEUE_NAME}, and a job must be due",
        )
        return
    if job.why_kind:
        yield Reason(
            code="KindNotQueued", text=job.why_kind, enough="the Configuration must queue jobs of its kind"
        )
    if not job.queue and not state.configuration.manage_jobs_without_queue_name:
        yield Reason(
            code="NoQueueName",
            text=f"it has no label {QUEUE_NAME}{_WITHOUT_QUEUE[job.is_suspended]}",
            enough=f"the label {QUEUE_NAME} must name a LocalQueue of namespace {namespace}",
        )
    local_queue = state.ledger.local_queues.get(Key(namespace, job.queue))
    if job.queue and (local_queue is None or local_queue.object is None):
        yield Reason(
            code="QueueMissing",
            text=f"LocalQueue {job.queue} doesn't exist",
            object=ObjectName(kind="LocalQueue", name=job.queue, namespace=namespace),
            enough=missing_local_queue(state, Key(namespace, job.queue)),
        )
    if job.kind == "Pod" and not job.why_kind and state.configuration.webhooks.address is None:
        yield Reason(
            code="WebhooksNotServed",
            text="the Configuration serves no webhooks, and a pod created without a gate is not queued",
            enough=f"create it with the scheduling gate {ADMISSION_GATE}, or configure webhooks",
        )
    labels: Mapping[str, str] = state.ledger.namespaces.get(namespace, {})
    if not matches_selector(state.configuration.managed_jobs_namespace_selector, labels):
        yield Reason(
            code="NamespaceNotManaged",
            text=f"managedJobsNamespaceSelector of the Configuration does not select namespace {namespace}",
            object=ObjectName(kind="Namespace", name=namespace),
            enough="label the namespace, or change the selector",
        )
