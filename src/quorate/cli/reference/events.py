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


class Described(NamedTuple):
    reason: str
    about: str
    type: str
    when: str


EVENTS: Final = (
    Described("CreatedWorkload", "a job, a pod", "Normal", "its Workload was created"),
    Described("UpdatedWorkload", "a job", "Normal", "its Workload was brought in step with it"),
    Described("DeletedWorkload", "a job", "Normal", "a Workload that no longer fits it was deleted"),
    Described("Started", "a job, a pod", "Normal", "it may run, in the cluster queue that the message names"),
    Described("NotStarted", "a job (ours)", "Warning", "it is admitted and cannot be started"),
    Described("Suspended", "a part of a job", "Normal", "the job it belongs to is not admitted"),
    Described("Stopped", "a job, a pod", "Normal", "it was stopped; the message says why"),
    Described("FinishedWorkload", "a job", "Normal", "it ended, and so did its Workload"),
    Described("Deleted", "a job, a Workload", "Normal", "`objectRetentionPolicies` asks for it"),
    Described("ErrWorkloadCompose", "a job, a pod", "Warning", "no Workload can be made of it"),
    Described(
        "IgnoredAnnotation",
        "a job (ours)",
        "Warning",
        "an annotation counts as not given",
    ),
    Described("UpdatedAdmissionCheck", "a job", "Normal", "what the admission checks say that it waits for"),
    Described("ExcessPodDeleted", "a pod", "Normal", "its group had more pods than it asked for"),
    Described("KueueForcefullyDeleted", "a pod", "Warning", "its node is lost, and it may be forgotten"),
    Described("WorkloadNameConflict", "a pod", "Warning", "the name of its group's Workload is taken"),
    Described("OwnerReferencesAdded", "a Workload", "Normal", "pods joined its group"),
    Described(
        "QuotaReserved", "a Workload", "Normal", "it holds quota, and waits for admission checks or not"
    ),
    Described("Admitted", "a Workload", "Normal", "it may start; the message says how long it waited"),
    Described("Pending", "a Workload", "Warning", "it cannot be admitted now; the message has the numbers"),
    Described("Waiting", "a Workload", "Warning", "it is held back until others are ready"),
    Described("Inadmissible", "a Workload", "Warning", "something about it or its queues must change first"),
    Described("Preempted", "a Workload", "Normal", "it is evicted for another one, which the message names"),
    Described("PreemptedWorkload", "a Workload", "Normal", "another one is evicted for it"),
    Described(
        "Unreadable",
        "any object (ours)",
        "Warning",
        "it does not fit its type, and is left out",
    ),
    Described("EvictedDueTo…", "a Workload", "Normal", "it was evicted, for the reason of the condition"),
    Described("AdmissionCheckUpdated", "a Workload", "Normal", "capacity was provisioned for it, or refused"),
    Described(
        "ProvisioningRequestCreated", "a Workload", "Normal", "an autoscaler is asked for its capacity"
    ),
    Described(
        "FailedCreate",
        "a Workload, a Volcano Job",
        "Warning",
        "no autoscaler can be asked, or no pod made; the message says why",
    ),
    Described(
        "PodGroupPending", "a job, a Volcano Job", "either", "its pod group waits; the message says for what"
    ),
    Described(
        "PodGroupError",
        "a job, a pod, a Volcano Job",
        "Warning",
        "the API refuses its pod group, as the message says",
    ),
    Described("OpenQueue", "a queue of pod groups", "Normal", "it was opened"),
    Described("CloseQueue", "a queue of pod groups", "either", "it was closed, or may not be"),
    Described("ExecuteAction", "a Volcano Job", "Normal", "a policy or a command had this action taken"),
    Described(
        "InvalidJob", "a Volcano Job (ours)", "Warning", "it cannot be as it is; the message names the field"
    ),
    Described(
        "AdmissionCheckRejected", "a Workload", "Warning", "a check rejected it, and it is deactivated"
    ),
    Described("AdmissionGated", "a Workload", "Normal", "somebody else's gate keeps it from being queued"),
    Described("AdmissionGateCleared", "a Workload", "Normal", "no gate keeps it any more"),
    Described(
        "MaximumExecutionTimeExceeded",
        "a Workload",
        "Warning",
        "it ran for as long as it may",
    ),
)


def page() -> str:
    """The page, in Markdown."""
    return _HEAD + "".join(f"| `{e.reason}` | {e.about} | {e.type} | {e.when} |\n" for e in EVENTS)
