"""The reference page of the events that the controllers record."""

from typing import Final, NamedTuple

_HEAD: Final = """\
# Events

The controllers record events about jobs, pods and Workloads in `events.k8s.io/v1`; `kubectl describe` and
`kubectl get events` show them. The reasons are Kueue's, except those marked as Quorate's. A repeated event
increases a count instead of creating another event. Under high load the least important events are
dropped; the conditions of the Workload always have the complete state.

| reason | object | type | when |
|---|---|---|---|
"""


class EventDescription(NamedTuple):
    reason: str
    about: str
    type: str
    when: str


EVENTS: Final = (
    EventDescription("CreatedWorkload", "a job, a pod", "Normal", "its Workload was created"),
    EventDescription("UpdatedWorkload", "a job", "Normal", "its Workload was updated to match it"),
    EventDescription(
        "DeletedWorkload", "a job", "Normal", "a Workload that no longer matches it was deleted"
    ),
    EventDescription(
        "Started",
        "a job, a pod",
        "Normal",
        "it was admitted by the cluster queue that the message names, and started",
    ),
    EventDescription("NotStarted", "a job (Quorate)", "Warning", "it is admitted but cannot be started"),
    EventDescription(
        "StartRefused",
        "a job, a pod (Quorate)",
        "Warning",
        "the API server refuses the change that starts it; the message has its answer",
    ),
    EventDescription("StopRefused", "a job, a pod (Quorate)", "Warning", "likewise the change that stops it"),
    EventDescription("UpdateRefused", "a job, a set (Quorate)", "Warning", "likewise another change of it"),
    EventDescription("UngatingRefused", "a job (Quorate)", "Warning", "likewise the start of its pods"),
    EventDescription(
        "PodsRunAgain",
        "a job (Quorate)",
        "Warning",
        "pods run again that had ended, and of which other workloads may have the quota",
    ),
    EventDescription(
        "MinMemberExceedsReplicas",
        "a pod",
        "Warning",
        "its owner has fewer replicas than `group-min-member`; the message says what lets the pod start",
    ),
    EventDescription(
        "OutsideQuota",
        "a pod (Quorate)",
        "Warning",
        "it stays gated: it requests more than quota is charged for; the message has the amounts",
    ),
    EventDescription("Suspended", "a part of a job", "Normal", "its owner job is not admitted"),
    EventDescription("Stopped", "a job, a pod", "Normal", "it was stopped; the message has the reason"),
    EventDescription("FinishedWorkload", "a job", "Normal", "it finished, and its Workload is finished, too"),
    EventDescription(
        "Deleted", "a job, a Workload", "Normal", "it was deleted according to `objectRetentionPolicies`"
    ),
    EventDescription("ErrWorkloadCompose", "a job, a pod", "Warning", "no Workload can be created for it"),
    EventDescription(
        "WorkloadPriorityClassNotFound",
        "a job, a pod",
        "Warning",
        "its label names no existing class",
    ),
    EventDescription("JobNestingTooDeep", "a job", "Warning", "its chain of owners has more than ten levels"),
    EventDescription(
        "IgnoredAnnotation",
        "a job (Quorate)",
        "Warning",
        "an annotation is invalid and has no effect",
    ),
    EventDescription(
        "UpdatedAdmissionCheck",
        "a job",
        "Normal",
        "it waits for admission checks; the event has their messages",
    ),
    EventDescription(
        "NotQueued",
        "a job of a kind that is off (Quorate)",
        "Warning",
        "it names a queue but runs without quota; the message has the remedy",
    ),
    EventDescription(
        "NotGated", "a pod (Quorate)", "Warning", "it names a queue but was created without the gate"
    ),
    EventDescription("ExcessPodDeleted", "a pod", "Normal", "its group had more pods than its total count"),
    EventDescription(
        "KueueForcefullyDeleted", "a pod", "Warning", "its node is lost, and the pod was forcefully deleted"
    ),
    EventDescription(
        "PodTerminatedByKueue",
        "a pod",
        "Normal",
        "its place is on a node that failed, or that its Workload lost; the job replaces the pod",
    ),
    EventDescription(
        "WorkloadNameConflict",
        "a pod",
        "Warning",
        "another object uses the name of the Workload of its group",
    ),
    EventDescription("OwnerReferencesAdded", "a Workload", "Normal", "pods joined its group"),
    EventDescription(
        "QuotaReserved",
        "a Workload",
        "Normal",
        "quota is reserved for it; it may still wait for admission checks",
    ),
    EventDescription("Admitted", "a Workload", "Normal", "it was admitted; the message has the waiting time"),
    EventDescription(
        "Pending", "a Workload", "Warning", "it cannot be admitted now; the message has the amounts"
    ),
    EventDescription(
        "Waiting", "a Workload", "Warning", "it waits until the pods of admitted workloads are ready"
    ),
    EventDescription(
        "Inadmissible", "a Workload", "Warning", "it cannot be admitted before it or its queues change"
    ),
    EventDescription(
        "SecondPassFailed",
        "a Workload",
        "Warning",
        "it has quota, but no places for its pods in their topology; the message has the numbers, and it is "
        "tried again",
    ),
    EventDescription(
        "Preempted", "a Workload", "Normal", "it was evicted for another Workload, which the message names"
    ),
    EventDescription("PreemptedWorkload", "a Workload", "Normal", "another Workload was evicted for it"),
    EventDescription(
        "Unreadable",
        "any object (Quorate)",
        "Warning",
        "it cannot be decoded as its type, and is ignored",
    ),
    EventDescription(
        "Unusable",
        "any object (Quorate)",
        "Warning",
        "an internal error concerns it, which the log has with its traceback; everything else goes on",
    ),
    EventDescription(
        "EvictedDueTo…",
        "a Workload",
        "Normal",
        "it was evicted; the reason is that of the condition `Evicted`",
    ),
    EventDescription(
        "AdmissionCheckUpdated", "a Workload", "Normal", "capacity was provisioned for it, or refused"
    ),
    EventDescription(
        "ProvisioningRequestCreated",
        "a Workload",
        "Normal",
        "its capacity was requested from a cluster autoscaler",
    ),
    EventDescription(
        "FailedCreate",
        "a Workload, a Volcano Job",
        "Warning",
        "a ProvisioningRequest or a pod cannot be created; the message has the reason",
    ),
    EventDescription(
        "PodGroupPending",
        "a job, a Volcano Job",
        "either",
        "its pod group is pending; the message has the reason",
    ),
    EventDescription(
        "PodGroupError",
        "a job, a pod, a Volcano Job",
        "Warning",
        "the API server refuses its pod group; the message has the reason",
    ),
    EventDescription(
        "PVCError", "a Volcano Job", "Warning", "a PersistentVolumeClaim that it names does not exist"
    ),
    EventDescription(
        "PluginError",
        "a Volcano Job",
        "Warning",
        "an object of its plugins cannot be deleted; the message has the reason",
    ),
    EventDescription("OpenQueue", "a Volcano queue", "Normal", "it was opened"),
    EventDescription("CloseQueue", "a Volcano queue", "either", "it was closed, or cannot be closed"),
    EventDescription(
        "ExecuteAction", "a Volcano Job", "Normal", "a policy or a Command executed this action"
    ),
    EventDescription(
        "InvalidJob", "a Volcano Job (Quorate)", "Warning", "it is invalid; the message names the field"
    ),
    EventDescription(
        "AdmissionCheckRejected",
        "a Workload",
        "Warning",
        "an admission check rejected it, and it is deactivated",
    ),
    EventDescription(
        "AdmissionGated",
        "a Workload",
        "Normal",
        "`admission-gated-by` names a gate that keeps it out of its queue",
    ),
    EventDescription("AdmissionGateCleared", "a Workload", "Normal", "it has no admission gate any more"),
    EventDescription(
        "MaximumExecutionTimeExceeded",
        "a Workload",
        "Warning",
        "it reached its maximum execution time",
    ),
    EventDescription(
        "OverLimit",
        "a ClusterQueue, a Cohort (the witness)",
        "Warning",
        "running pods use more than its quota; the message has the amounts and names pods",
    ),
    EventDescription(
        "OutsideQuota",
        "a Workload (Quorate, the witness)",
        "Warning",
        "its pods use more than it was admitted with; the message has the amounts and names pods",
    ),
    EventDescription(
        "OverAllocatable", "a Node (the witness)", "Warning", "its pods request more than it can allocate"
    ),
    EventDescription(
        "WithoutAdmission",
        "a LocalQueue, a Namespace (the witness)",
        "Warning",
        "pods run although their Workload has no quota",
    ),
    EventDescription(
        "LimitLowered",
        "a ClusterQueue, a Cohort, a Node (the witness)",
        "Normal",
        "pods use more than a limit that was lowered after their admission",
    ),
    EventDescription(
        "BeforeStart",
        "a ClusterQueue, a Cohort, a Node (the witness)",
        "Normal",
        "as `OverLimit` and `OverAllocatable`, of pods that were there before the witness",
    ),
)


def page() -> str:
    """Return the page as Markdown."""
    return _HEAD + "".join(f"| `{e.reason}` | {e.about} | {e.type} | {e.when} |\n" for e in EVENTS)
