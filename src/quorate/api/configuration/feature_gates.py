"""The feature gates a configuration file may set: Kueue's (v0.19), with their defaults.

A gate that is not listed is unknown to that release, which then refuses to start; so do we.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

import msgspec

from quorate.api.decoding.strict import Field, boolean, map_of

_ON: Final = (
    "AdmissionFairSharing", "AdmissionGatedBy", "AssignQueueLabelsForPods",
    "CleanupProvisioningRequestsOnEviction", "ElasticJobsViaWorkloadSlices",
    "FairSharingPreemptWithinNominal", "FairSharingPrioritizeNonBorrowing", "FinishOrphanedWorkloads",
    "FlavorFungibility", "FlavorFungibilityPreserveScanProgress", "HierarchicalCohorts",
    "KueueDRAIntegration", "LocalQueueMetrics", "ManagedJobsNamespaceSelectorAlwaysRespected",
    "MetricForWorkloadCreationLatency", "MetricsForCohorts", "MultiKueue", "ObjectRetentionPolicies",
    "PartialAdmission", "PodIntegrationValidateGroupOwner", "PrioritySortingWithinCohort",
    "QuotaCheckStrategy", "ReclaimablePods", "SchedulingEquivalenceHashing",
    "SkipReassignmentForPodOwnedWorkloads", "TASFailedNodeReplacement",
    "TASFailedNodeReplacementFailFast", "TASHandleOverlappingFlavors", "TASMultiLayerTopology",
    "TASProfileMixed", "TASRecomputeAssignmentWithinSchedulingCycle", "TLSOptions",
    "TopologyAwareScheduling", "ValidateRayAndSparkJobUpdates", "VisibilityOnDemand",
    "WorkloadIdentifierAnnotations", "WorkloadValidateResourcesAreNonNegative",
    "WorkloadValidationForPodSetMetadata",
)  # fmt: skip
_OFF: Final = (
    "ConcurrentAdmission", "CustomMetricLabels", "DisableWaitForPodsReady", "FailureRecoveryPolicy",
    "FastQuotaReleaseInPodIntegration", "MultiKueueOrchestratedPreemption",
    "PrioritizePreemptorWorkloads", "PriorityBoost", "RecomputeAssignmentUponPreemptionTargetsOverlap",
    "RejectUpdatesToCQWithInvalidOnFlavors", "SchedulerLongRequeueInterval",
    "SchedulerTimestampPreemptionBuffer", "ShortWorkloadNames", "SparkApplicationIntegration",
    "TASBalancedPlacement", "TASRespectNodeAffinityPreferred", "UnadmittedWorkloadsExplicitStatus",
    "UnadmittedWorkloadsObservability", "WorkloadPriorityClassDefaulting",
    "WorkloadRequestUseMergePatch",
)  # fmt: skip
FEATURE_GATES: Final = dict.fromkeys(_ON, True) | dict.fromkeys(_OFF, False)

# Generally available: nobody can switch them off any more.
LOCKED_GATES: Final = frozenset(
    ("HierarchicalCohorts", "ManagedJobsNamespaceSelectorAlwaysRespected", "ObjectRetentionPolicies")
)
# Once gates; what they switched is there for good, or gone.
REMOVED_GATES: Final = frozenset(
    ("ConfigurableResourceTransformations", "LendingLimit", "LocalQueueDefaulting", "ProvisioningACC",
     "QueueVisibility")
)  # fmt: skip
# What a gate builds on.
PREREQUISITES: Final = {"UnadmittedWorkloadsExplicitStatus": "UnadmittedWorkloadsObservability"}
# Switch what there is none of here: off is what they are, on is refused unless it is Kueue's default.
ABSENT_FEATURES: Final = frozenset(
    (
        "ConcurrentAdmission",
        "KueueDRAIntegration",
        "MultiKueue",
        "MultiKueueOrchestratedPreemption",
        "RecomputeAssignmentUponPreemptionTargetsOverlap",
        "SchedulerLongRequeueInterval",
        "TASBalancedPlacement",
        "TASFailedNodeReplacement",
        "TASFailedNodeReplacementFailFast",
        "TASHandleOverlappingFlavors",
        "TASMultiLayerTopology",
        "TASProfileMixed",
        "TASRecomputeAssignmentWithinSchedulingCycle",
        "TASRespectNodeAffinityPreferred",
        "TopologyAwareScheduling",
        "ValidateRayAndSparkJobUpdates",
    )
)


class Gates(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """What holds with each gate on.  The names are those of the file, the defaults those of Kueue."""

    partial_admission: bool = True  # minCount counts
    priority_sorting_within_cohort: bool = True  # priority goes before time among the heads of a round
    scheduling_equivalence_hashing: bool = True  # who looks like one that was parked is parked with it
    flavor_fungibility: bool = True  # cluster queues choose flavors by their flavorFungibility
    flavor_fungibility_preserve_scan_progress: bool = True  # who loses a race goes on with the next flavor
    fair_sharing_preempt_within_nominal: bool = True  # who stays within nominal quota reclaims without shares
    fair_sharing_prioritize_non_borrowing: bool = True  # who would not borrow goes before any smaller share
    prioritize_preemptor_workloads: bool = False  # who waits for its victims goes first in a round
    scheduler_timestamp_preemption_buffer: bool = False  # an equal is preempted only if minutes newer
    priority_boost: bool = False  # the annotation priority-boost is added to the priority
    admission_gated_by: bool = True  # who is gated by the annotation admission-gated-by is not queued
    skip_reassignment_for_pod_owned_workloads: bool = True  # that of a single pod is never queued again
    finish_orphaned_workloads: bool = True  # one whose owner is gone is finished
    unadmitted_workloads_observability: bool = False  # reasons in the granular vocabulary
    unadmitted_workloads_explicit_status: bool = False  # a new workload says at once that it waits
    reclaimable_pods: bool = True  # pods that are done give their quota back before the job ends
    assign_queue_labels_for_pods: bool = True  # pods carry the names of their queues
    short_workload_names: bool = False  # names of workloads fit a label
    workload_priority_class_defaulting: bool = False  # jobs without a class are of the class "default"
    workload_identifier_annotations: bool = True  # names may be annotations, longer than labels may be
    pod_integration_validate_group_owner: bool = True  # pods of a group have one owner, or none
    fast_quota_release_in_pod_integration: bool = False  # pods that end hold no quota while they do
    cleanup_provisioning_requests_on_eviction: bool = True  # evicted workloads keep no request for capacity
    metric_for_workload_creation_latency: bool = True  # how long jobs wait for their workloads is counted
    failure_recovery_policy: bool = False  # pods stuck on lost nodes are ended, if they say they may be


DEFAULT_GATES: Final = Gates()
QUEUEING_GATES: Final = tuple(field.encode_name for field in msgspec.structs.fields(Gates))


def queueing_gates(given: Mapping[str, bool]) -> Gates:
    """Those of the gates ``given`` that concern the queueing core; others are left to others."""
    return msgspec.convert(given, Gates)


class WebhookGates(msgspec.Struct, frozen=True, kw_only=True):
    """What objects are held to, and given, when they are written."""

    elastic_jobs: bool = msgspec.field(name="ElasticJobsViaWorkloadSlices", default=True)
    non_negative_resources: bool = msgspec.field(name="WorkloadValidateResourcesAreNonNegative", default=True)
    pod_set_metadata: bool = msgspec.field(name="WorkloadValidationForPodSetMetadata", default=True)
    strict_on_flavors: bool = msgspec.field(name="RejectUpdatesToCQWithInvalidOnFlavors", default=False)
    priority_boost: bool = msgspec.field(name="PriorityBoost", default=False)
    default_priority_class: bool = msgspec.field(name="WorkloadPriorityClassDefaulting", default=False)


def webhook_gates(given: Mapping[str, bool]) -> WebhookGates:
    """Those of the gates ``given`` that concern reviews."""
    return msgspec.convert(given, WebhookGates)


_WEBHOOK_GATES: Final = tuple(field.encode_name for field in msgspec.structs.fields(WebhookGates))
_OTHER_GATES: Final = (
    "AdmissionFairSharing",
    "CustomMetricLabels",
    "DisableWaitForPodsReady",
    "LocalQueueMetrics",
    "QuotaCheckStrategy",
    "TLSOptions",
    "SparkApplicationIntegration",
    "VisibilityOnDemand",
    "WorkloadRequestUseMergePatch",  # either way every status is written as a merge patch
)  # honoured where the field is read that they switch
SUPPORTED_GATES: Final = tuple(dict.fromkeys((*QUEUEING_GATES, *_WEBHOOK_GATES, *_OTHER_GATES)))


def decode_feature_gates(field: Field) -> dict[str, bool]:
    """The gates the file sets.  Each value is honoured or refused; what Kueue removed is unknown to it."""
    gates = map_of(boolean)(field)
    for name, on in gates.items():
        if rule := _rejection(name, on):
            field.entry(name).reject(rule)
        needed = PREREQUISITES.get(name)
        if needed is not None and on and not gates.get(needed, FEATURE_GATES[needed]):
            field.entry(name).reject(f"needs {needed} (set that to true as well)")
    return gates


def _rejection(name: str, on: bool) -> str:
    """Why a gate cannot have that value; empty if it can."""
    if name in REMOVED_GATES:
        return "sets a feature gate that Kueue has removed (leave it out)"
    if name not in FEATURE_GATES:
        near = get_close_matches(name, FEATURE_GATES, n=1)
        return f"sets an unknown feature gate{f' (did you mean {near[0]}?)' if near else ''}"
    if on == FEATURE_GATES[name] or name in SUPPORTED_GATES:
        return ""
    if name in LOCKED_GATES:
        return "is locked to true since what it switches is generally available (leave it out)"
    if name in ABSENT_FEATURES:
        return "switches on what there is none of here (leave it out)" if on else ""
    return f"is always {str(FEATURE_GATES[name]).lower()} here (leave it out)"
