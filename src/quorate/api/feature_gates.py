"""The feature gates a configuration file may set: Kueue's (v0.19), with their defaults.

A gate that is not listed is unknown to that release, which then refuses to start; so do we.
"""

from typing import Final

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
LOCKED: Final = frozenset(
    ("HierarchicalCohorts", "ManagedJobsNamespaceSelectorAlwaysRespected", "ObjectRetentionPolicies")
)
# Once gates; what they switched is there for good, or gone.
REMOVED: Final = frozenset(
    ("ConfigurableResourceTransformations", "LendingLimit", "LocalQueueDefaulting", "ProvisioningACC",
     "QueueVisibility")
)  # fmt: skip
# What a gate builds on.
NEEDS: Final = {"UnadmittedWorkloadsExplicitStatus": "UnadmittedWorkloadsObservability"}
# Switch what there is none of here: off is what they are, on is refused unless it is Kueue's default.
ABSENT: Final = frozenset(
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
