"""The page of the events that the controllers record."""

from typing import Final, NamedTuple

_HEAD: Final = """\
# Events

What the controllers record about jobs, pods and Workloads, in `events.k8s.io/v1`; `kubectl describe` and
`kubectl get events` show it. The reasons are Kueue's unless they are marked as ours. The same event
repeated is counted, not recorded again, and when very many happen at once the least telling are left out:
what must be known for sure is in the conditions of the Workload.

| reason | about | type | when |
|---|---|---|---|
"""


class Told(NamedTuple):
    reason: str
    about: str
    type: str
    when: str


EVENTS: Final = (
    Told("CreatedWorkload", "a job, a pod", "Normal", "its Workload was created"),
    Told("UpdatedWorkload", "a job", "Normal", "its Workload was brought in step with it"),
    Told("DeletedWorkload", "a job", "Normal", "a Workload that no longer fits it was deleted"),
    Told("Started", "a job, a pod", "Normal", "it may run, in the cluster queue that the message names"),
    Told("NotStarted", "a job (ours)", "Warning", "it is admitted and cannot be started"),
    Told("Suspended", "a part of a job", "Normal", "the job it belongs to is not admitted"),
    Told("Stopped", "a job, a pod", "Normal", "it was stopped; the message says why"),
    Told("FinishedWorkload", "a job", "Normal", "it ended, and so did its Workload"),
    Told("Deleted", "a job, a Workload", "Normal", "`objectRetentionPolicies` asks for it"),
    Told("ErrWorkloadCompose", "a job, a pod", "Warning", "no Workload can be made of it"),
    Told(
        "IgnoredAnnotation",
        "a job (ours)",
        "Warning",
        "an annotation counts as not given",
    ),
    Told("UpdatedAdmissionCheck", "a job", "Normal", "what the admission checks say that it waits for"),
    Told("ExcessPodDeleted", "a pod", "Normal", "its group had more pods than it asked for"),
    Told("KueueForcefullyDeleted", "a pod", "Warning", "its node is lost, and it may be forgotten"),
    Told("WorkloadNameConflict", "a pod", "Warning", "the name of its group's Workload is taken"),
    Told("OwnerReferencesAdded", "a Workload", "Normal", "pods joined its group"),
    Told("QuotaReserved", "a Workload", "Normal", "it holds quota, and waits for admission checks or not"),
    Told("Admitted", "a Workload", "Normal", "it may start; the message says how long it waited"),
    Told("Pending", "a Workload", "Warning", "it cannot be admitted now; the message has the numbers"),
    Told("Waiting", "a Workload", "Warning", "it is held back until others are ready"),
    Told("Inadmissible", "a Workload", "Warning", "something about it or its queues must change first"),
    Told("Preempted", "a Workload", "Normal", "it is evicted for another one, which the message names"),
    Told("PreemptedWorkload", "a Workload", "Normal", "another one is evicted for it"),
    Told(
        "Unreadable",
        "any object (ours)",
        "Warning",
        "it does not fit its type, and is left out",
    ),
    Told("EvictedDueTo…", "a Workload", "Normal", "it was evicted, for the reason of the condition"),
    Told("AdmissionCheckUpdated", "a Workload", "Normal", "capacity was provisioned for it, or refused"),
    Told("ProvisioningRequestCreated", "a Workload", "Normal", "an autoscaler is asked for its capacity"),
    Told(
        "FailedCreate",
        "a Workload, a Volcano Job",
        "Warning",
        "no autoscaler can be asked, or no pod made; the message says why",
    ),
    Told(
        "PodGroupPending", "a job, a Volcano Job", "either", "its pod group waits; the message says for what"
    ),
    Told(
        "PodGroupError",
        "a job, a pod, a Volcano Job",
        "Warning",
        "the API refuses its pod group, as the message says",
    ),
    Told("OpenQueue", "a queue of pod groups", "Normal", "it was opened"),
    Told("CloseQueue", "a queue of pod groups", "either", "it was closed, or may not be"),
    Told("ExecuteAction", "a Volcano Job", "Normal", "a policy or a command had this action taken"),
    Told(
        "InvalidJob", "a Volcano Job (ours)", "Warning", "it cannot be as it is; the message names the field"
    ),
    Told("AdmissionCheckRejected", "a Workload", "Warning", "a check rejected it, and it is deactivated"),
    Told("AdmissionGated", "a Workload", "Normal", "somebody else's gate keeps it from being queued"),
    Told("AdmissionGateCleared", "a Workload", "Normal", "no gate keeps it any more"),
    Told(
        "MaximumExecutionTimeExceeded",
        "a Workload",
        "Warning",
        "it ran for as long as it may",
    ),
)


def page() -> str:
    """The page, in Markdown."""
    return _HEAD + "".join(f"| `{e.reason}` | {e.about} | {e.type} | {e.when} |\n" for e in EVENTS)
