"""Kueue's feature gates (v0.20): defaults, supported gates, decoding.

Kueue refuses to start with a gate that is not listed, and so does Quorate. Gates that only v0.19 has are
listed too, so that its configuration files keep working. The value of each supported gate
is read in one place, where the rule that it switches is implemented; the configuration carries it there.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.api.configuration.multikueue import MULTIKUEUE_GATES
from quorate.api.decoding.strict import Field, boolean, map_of
from quorate.api.suggestions import suggestion

_ON: Final = (
    "AdmissionFairSharing", "AdmissionFairSharingAnchorAtQuotaReservation", "AdmissionGatedBy",
    "AssignQueueLabelsForPods", "CleanupProvisioningRequestsOnEviction", "DeploymentJobUIDLabel",
    "ElasticJobsViaWorkloadSlices", "EnforceProvisioningPodTemplateContents",
    "FairSharingPreemptWithinNominal", "FairSharingPrioritizeNonBorrowing",
    "FinalizeTerminatingPodGroups", "FinishOrphanedWorkloads", "FlavorFungibility",
    "FlavorFungibilityPreserveScanProgress", "HierarchicalCohorts", "HighMaxParallelismWithinReconcile",
    "KueueDRAIntegration", "KueueDRAIntegrationExtendedResource",
    "KueueDRAIntegrationPartitionableDevices", "KueueDRARejectWorkloadsWhenDRADisabled",
    "LWSImmutableGroupSize", "LocalQueueMetrics", "ManagedJobsNamespaceSelectorAlwaysRespected",
    "MetricForWorkloadCreationLatency", "MetricsForCohorts", "MultiKueue",
    "MultiKueueAdaptersForCustomJobs", "MultiKueueIncrementalDispatcherConfig",
    "MultiKueueIncrementalDispatcherRespectConfigOrder", "MultiKueueKubeConfigPathValidation",
    "MultiKueueOrchestratedPreemption", "MultiKueueRedoAdmissionOnEvictionInWorker",
    "MultiKueueRemoteSpecSync", "MultiKueueReuseClientConnectionConfigForWorkers",
    "MultiKueueWaitForWorkloadAdmitted", "ObjectRetentionPolicies", "PartialAdmission",
    "PodGroupSchedulingShapeOrdering", "PodIntegrationCountSucceededPodsAsReady",
    "PodIntegrationValidateGroupOwner", "PrioritySortingWithinCohort",
    "PropagateBatchJobLabelsToWorkload", "QuotaCheckStrategy", "RayServiceValidateUpgradeStrategy",
    "ReclaimablePods", "RecomputeAssignmentUponPreemptionTargetsOverlap",
    "RejectUpdatesToCQWithInvalidOnFlavors", "RemoveFinalizersWithStrictPatch",
    "ReservedResourceNameValidation", "SchedulingEquivalenceHashing",
    "SchedulingEquivalenceHashingIgnorePodSetName", "SkipAncestorCheckForDeletedWorkloads",
    "SkipFinalizersForPodsSuspendedByParent", "SkipReassignmentForPodOwnedWorkloads",
    "TASAssignmentsEncodingByHostnamePrefix", "TASCacheNodeMatchResults", "TASCacheTopologyTree",
    "TASCachingRemainingResources", "TASFailedNodeReplacement", "TASFailedNodeReplacementFailFast",
    "TASGroupedPodSetSlicing", "TASHandleOverlappingFlavors", "TASLeaderPodSetFeasibility",
    "TASMultiLayerTopology", "TASNodeFeasibilityForAllLevels", "TASPartialSlices", "TASProfileMixed",
    "TASRecomputeAssignmentWithinSchedulingCycle", "TASReplaceNodeOnNodeTaints",
    "TASReplaceNodeOnPodTermination", "TASValidateWorkloadSliceSize", "TLSOptions",
    "TopologyAwareScheduling", "UnadmittedWorkloadsObservability", "ValidateRayAndSparkJobUpdates",
    "VectorizedResourceRequests", "VisibilityOnDemand", "WorkloadIdentifierAnnotations",
    "WorkloadPriorityClassDefaulting", "WorkloadValidateResourcesAreNonNegative",
    "WorkloadValidationForPodSetMetadata",
)  # fmt: skip
_OFF: Final = (
    "ConcurrentAdmission", "ConfigurablePreemptions", "CustomMetricLabels",
    "DeferRayServiceFinalizationForRedisCleanup", "DisableWaitForPodsReady", "DynamicQuotaOrchestration",
    "ElasticJobsViaWorkloadSlicesFlavorChangeFromZero",
    "ElasticJobsViaWorkloadSlicesForProvisioningRequests",
    "ElasticJobsViaWorkloadSlicesWithPartialReplicaScaleUp", "ElasticJobsViaWorkloadSlicesWithTAS",
    "FailureRecoveryPolicy", "FairSharingReevaluatePreemptionCandidates", "FairSharingRefill",
    "FastQuotaReleaseInPodIntegration", "KueueDRADeviceFeasibility",
    "KueueDRAIntegrationConsumableCapacity", "KueueDRAIntegrationDeviceTaints",
    "KueueDRAIntegrationPrioritizedList", "MultiKueueAllowInsecureKubeconfigs",
    "MultiKueueBatchJobClearingTTLSecondsAfterFinishedOnWorkerCluster", "MultiKueueClusterProfile",
    "MultiKueueManagerQuotaAutomation", "MultiKueueRayInTreeAutoscaling", "PrioritizePreemptorWorkloads",
    "PriorityBoost", "SchedulerLibraryIntegration", "SchedulerLongRequeueInterval",
    "SchedulerTimestampPreemptionBuffer", "ShortWorkloadNames", "SkipChildJobSuspension",
    "SparkApplicationIntegration", "TASBalancedPlacement", "TASRejectFalseUnconstrainedTopology",
    "TASReplaceMultipleFailedNodes", "TASReplaceNodeDueToNotReadyOverFixedTime",
    "TASRespectNodeAffinityPreferred", "TASTopologySpreading", "UnadmittedWorkloadsExplicitStatus",
    "WaitForPodsReadyMaxNotReady", "WaitForPodsReadyUnscheduledTimeout", "WorkloadLevelWaitForPodsReady",
    "WorkloadRequestUseMergePatch",
)  # fmt: skip
FEATURE_GATES: Final = dict.fromkeys(_ON, True) | dict.fromkeys(_OFF, False)

# Generally available gates, which cannot be disabled.
LOCKED_GATES: Final = frozenset(
    (
        "HierarchicalCohorts", "ManagedJobsNamespaceSelectorAlwaysRespected",
        "MultiKueueRedoAdmissionOnEvictionInWorker", "MultiKueueWaitForWorkloadAdmitted",
        "ObjectRetentionPolicies", "PropagateBatchJobLabelsToWorkload",
        "SkipFinalizersForPodsSuspendedByParent",
    )
)  # fmt: skip
# Former gates: the feature is permanent or removed.
REMOVED_GATES: Final = frozenset(
    ("ConfigurableResourceTransformations", "LendingLimit", "LocalQueueDefaulting", "ProvisioningACC",
     "QueueVisibility")
)  # fmt: skip
# Prerequisite gates.
PREREQUISITES: Final = {
    "AdmissionFairSharingAnchorAtQuotaReservation": "AdmissionFairSharing",
    "ElasticJobsViaWorkloadSlicesWithTAS": "ElasticJobsViaWorkloadSlices",
    "SchedulingEquivalenceHashingIgnorePodSetName": "SchedulingEquivalenceHashing",
    "UnadmittedWorkloadsExplicitStatus": "UnadmittedWorkloadsObservability",
}
# Gates of features that do not exist here. Disabling them is accepted; enabling one is rejected unless
# Kueue's default is true.
ABSENT_FEATURES: Final = frozenset(
    (
        "ConcurrentAdmission", "ConfigurablePreemptions", "DynamicQuotaOrchestration",
        "ElasticJobsViaWorkloadSlicesForProvisioningRequests",
        "ElasticJobsViaWorkloadSlicesWithPartialReplicaScaleUp", "FairSharingReevaluatePreemptionCandidates",
        "FairSharingRefill", "KueueDRADeviceFeasibility", "KueueDRAIntegrationDeviceTaints",
        "KueueDRAIntegrationPrioritizedList",
        "MultiKueueRayInTreeAutoscaling", "SchedulerLibraryIntegration", "SchedulerLongRequeueInterval",
        "SkipChildJobSuspension", "TASReplaceMultipleFailedNodes", "TASTopologySpreading",
    )
)  # fmt: skip
# Gates that have one value here, and why.
FIXED_GATES: Final = {
    "EnforceProvisioningPodTemplateContents": "a PodTemplate has the contents of its workload",
    "FinalizeTerminatingPodGroups": "a group of which all pods terminate gets no workload",
    "MetricsForCohorts": "the series of cohorts cannot be disabled",
    "PodGroupSchedulingShapeOrdering": "the roles of a pod group are ordered by what their pods need",
    "PodIntegrationCountSucceededPodsAsReady": "a pod that succeeded counts as ready",
    "RemoveFinalizersWithStrictPatch": "a finalizer is removed only from the version that was read",
    "ReservedResourceNameValidation": "the name pods is reserved for the number of pods",
    "SkipAncestorCheckForDeletedWorkloads": "the ancestors of a deleted job are not read",
    "TASGroupedPodSetSlicing": "the workers of a pod set group may have slices",
    "TASLeaderPodSetFeasibility": "the constraints of a leader are always checked",
    "TASNodeFeasibilityForAllLevels": "nodes are checked in every topology",
    "TASPartialSlices": "the last slice of a pod set may have fewer pods",
    "VectorizedResourceRequests": "it concerns only how Kueue stores requests",
}


class Gates(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Gates that the queueing core and the controllers read, with Kueue's names and defaults."""

    partial_admission: bool = True  # use minCount
    priority_sorting_within_cohort: bool = True  # order the heads of a cycle by priority before time
    scheduling_equivalence_hashing: bool = True  # after a race, continue with the next flavor
    flavor_fungibility: bool = True  # cluster queues choose flavors by their flavorFungibility
    flavor_fungibility_preserve_scan_progress: bool = (
        True  # after losing a race, continue with the next flavor
    )
    fair_sharing_preempt_within_nominal: bool = True  # within nominal quota, reclaim without comparing shares
    fair_sharing_prioritize_non_borrowing: bool = True  # non-borrowing workloads precede any smaller share
    prioritize_preemptor_workloads: bool = False  # workloads that wait for their victims go first
    recompute_assignment_upon_preemption_targets_overlap: bool = True  # assign again without these targets
    scheduler_timestamp_preemption_buffer: bool = False  # preempt equal priority only if minutes newer
    priority_boost: bool = False  # add the annotation priority-boost to the priority
    # admission fair sharing counts usage from the reservation of quota; off: from admission
    admission_fair_sharing_anchor_at_quota_reservation: bool = True
    admission_gated_by: bool = True  # do not queue workloads with the annotation admission-gated-by
    skip_reassignment_for_pod_owned_workloads: bool = True  # never requeue the workload of a single pod
    # The label with the UID of the job has that of the Deployment for the workloads of its pods.
    deployment_job_uid_label: bool = msgspec.field(default=True, name="DeploymentJobUIDLabel")
    finish_orphaned_workloads: bool = True  # finish a workload if its owner was deleted
    unadmitted_workloads_observability: bool = True  # condition reasons in the granular vocabulary
    unadmitted_workloads_explicit_status: bool = False  # a new workload gets its pending condition at once
    elastic_jobs_via_workload_slices: bool = True  # a replaced slice does not count beside its replacement
    reclaimable_pods: bool = True  # finished pods release quota before the job ends
    assign_queue_labels_for_pods: bool = True  # label pods with the names of their queues
    short_workload_names: bool = False  # workload names fit into a label
    workload_priority_class_defaulting: bool = True  # jobs without a class get the class "default"
    workload_identifier_annotations: bool = True  # long names are stored in annotations, not labels
    pod_integration_validate_group_owner: bool = True  # pods of a group have at most one owner
    fast_quota_release_in_pod_integration: bool = False  # terminating pods hold no quota
    cleanup_provisioning_requests_on_eviction: bool = True  # evicted workloads keep no ProvisioningRequest
    metric_for_workload_creation_latency: bool = True  # measure how long jobs wait for their workloads
    # devices that pods claim count against quota
    count_device_claims: bool = msgspec.field(default=True, name="KueueDRAIntegration")
    # extended resources of which pods get devices of a class count as the resource of the class
    count_extended_device_resources: bool = msgspec.field(
        default=True, name="KueueDRAIntegrationExtendedResource"
    )
    # without KueueDRAIntegration, a workload with such pods is not admitted
    hold_device_claims: bool = msgspec.field(default=True, name="KueueDRARejectWorkloadsWhenDRADisabled")
    failure_recovery_policy: bool = False  # delete pods on lost nodes if they opt in
    # a group is ready although a number of its pods, set by an annotation, is not
    wait_for_pods_ready_max_not_ready: bool = False
    workload_level_wait_for_pods_ready: bool = False  # timeouts in the annotation wait-for-pods-ready


class TopologyGates(msgspec.Struct, frozen=True, kw_only=True):
    """Gates of topology-aware scheduling that the queueing core, the controllers and the webhooks read."""

    mixed_profile: bool = msgspec.field(name="TASProfileMixed", default=True)
    balanced_placement: bool = msgspec.field(name="TASBalancedPlacement", default=False)
    preferred_affinity: bool = msgspec.field(name="TASRespectNodeAffinityPreferred", default=False)
    overlapping_flavors: bool = msgspec.field(name="TASHandleOverlappingFlavors", default=True)
    recompute_in_cycle: bool = msgspec.field(name="TASRecomputeAssignmentWithinSchedulingCycle", default=True)
    multi_layer: bool = msgspec.field(name="TASMultiLayerTopology", default=True)
    host_prefix_slices: bool = msgspec.field(name="TASAssignmentsEncodingByHostnamePrefix", default=True)
    detect_node_failures: bool = msgspec.field(name="TASFailedNodeReplacement", default=True)
    evict_without_replacement: bool = msgspec.field(name="TASFailedNodeReplacementFailFast", default=True)
    # a node that is not ready has failed once no pod runs on it
    fail_after_pods: bool = msgspec.field(name="TASReplaceNodeOnPodTermination", default=True)
    fail_on_taints: bool = msgspec.field(name="TASReplaceNodeOnNodeTaints", default=True)
    # a node has failed that is not ready for a fixed time
    fail_after_delay: bool = msgspec.field(name="TASReplaceNodeDueToNotReadyOverFixedTime", default=False)
    # refuse ``unconstrained: "false"``, which requests nothing
    reject_false_unconstrained: bool = msgspec.field(
        name="TASRejectFalseUnconstrainedTopology", default=False
    )
    # the pods of a replaced slice of an elastic job keep their places
    elastic_slices: bool = msgspec.field(name="ElasticJobsViaWorkloadSlicesWithTAS", default=False)


DEFAULT_GATES: Final = Gates()
DEFAULT_TOPOLOGY_GATES: Final = TopologyGates()
QUEUEING_GATES: Final = tuple(field.encode_name for field in msgspec.structs.fields(Gates))


def queueing_gates(given: Mapping[str, bool]) -> Gates:
    """Return the gates in ``given`` that queueing and the controllers read."""
    return msgspec.convert(given, Gates)


def topology_gates(given: Mapping[str, bool]) -> TopologyGates | None:
    """Return the gates in ``given`` of topology-aware scheduling; None: it is switched off."""
    is_on = given.get("TopologyAwareScheduling", True)
    return msgspec.convert(given, TopologyGates) if is_on else None


class WebhookGates(msgspec.Struct, frozen=True, kw_only=True):
    """Gates that webhook validation and defaulting read."""

    elastic_jobs: bool = msgspec.field(name="ElasticJobsViaWorkloadSlices", default=True)
    non_negative_resources: bool = msgspec.field(name="WorkloadValidateResourcesAreNonNegative", default=True)
    pod_set_metadata: bool = msgspec.field(name="WorkloadValidationForPodSetMetadata", default=True)
    strict_on_flavors: bool = msgspec.field(name="RejectUpdatesToCQWithInvalidOnFlavors", default=True)
    priority_boost: bool = msgspec.field(name="PriorityBoost", default=False)
    default_priority_class: bool = msgspec.field(name="WorkloadPriorityClassDefaulting", default=True)
    immutable_group_size: bool = msgspec.field(name="LWSImmutableGroupSize", default=True)
    ray_and_spark_updates: bool = msgspec.field(name="ValidateRayAndSparkJobUpdates", default=True)
    slice_sizes: bool = msgspec.field(name="TASValidateWorkloadSliceSize", default=True)
    upgrade_strategy: bool = msgspec.field(name="RayServiceValidateUpgradeStrategy", default=True)


def webhook_gates(given: Mapping[str, bool]) -> WebhookGates:
    """Return the gates in ``given`` that webhooks read."""
    return msgspec.convert(given, WebhookGates)


_WEBHOOK_GATES: Final = tuple(field.encode_name for field in msgspec.structs.fields(WebhookGates))
_TOPOLOGY_GATES: Final = (
    "TopologyAwareScheduling",
    *(field.encode_name for field in msgspec.structs.fields(TopologyGates)),
    # They only make Kueue faster.
    "TASCacheNodeMatchResults",
    "TASCacheTopologyTree",
    "TASCachingRemainingResources",
)
_OTHER_GATES: Final = (
    "AdmissionFairSharing",
    "CustomMetricLabels",
    "DisableWaitForPodsReady",
    "KueueDRAIntegrationConsumableCapacity",
    "KueueDRAIntegrationPartitionableDevices",
    "WaitForPodsReadyUnscheduledTimeout",
    "LocalQueueMetrics",
    "QuotaCheckStrategy",
    "TLSOptions",
    "SparkApplicationIntegration",
    "VisibilityOnDemand",
    "WorkloadRequestUseMergePatch",  # every status is written as a merge patch anyway
    "DeferRayServiceFinalizationForRedisCleanup",  # the finalizer of a RayService is left to KubeRay
    "ElasticJobsViaWorkloadSlicesFlavorChangeFromZero",  # pods that do not exist have no flavor
    "HighMaxParallelismWithinReconcile",  # writes of many objects are always in flight at once
    "SchedulingEquivalenceHashingIgnorePodSetName",  # it only makes Kueue faster
)  # read where the field that they switch is decoded
SUPPORTED_GATES: Final = tuple(
    dict.fromkeys((*QUEUEING_GATES, *_WEBHOOK_GATES, *_TOPOLOGY_GATES, *MULTIKUEUE_GATES, *_OTHER_GATES))
)


def decode_feature_gates(field: Field) -> dict[str, bool]:
    """Decode ``featureGates``: each value is supported or rejected."""
    gates = map_of(boolean)(field)
    for name, on in gates.items():
        if rule := _rejection(name, on):
            field.entry(name).reject(rule)
        needed = PREREQUISITES.get(name)
        if needed is not None and on and not gates.get(needed, FEATURE_GATES[needed]):
            field.entry(name).reject(f"needs {needed} (set that to true as well)")
    return gates


def _rejection(name: str, on: bool) -> str:
    """Return why a gate cannot have this value; empty if it can."""
    if name in REMOVED_GATES:
        return "sets a feature gate that Kueue has removed (leave it out)"
    if name not in FEATURE_GATES:
        return f"sets an unknown feature gate{suggestion(name, FEATURE_GATES)}"
    if on == FEATURE_GATES[name] or name in SUPPORTED_GATES:
        return ""
    if name in LOCKED_GATES:
        return "is locked to true since what it switches is generally available (leave it out)"
    if name in ABSENT_FEATURES:
        return "enables a feature that is not supported (leave it out)" if on else ""
    return f"is always {str(FEATURE_GATES[name]).lower()} here: {FIXED_GATES[name]} (leave it out)"
