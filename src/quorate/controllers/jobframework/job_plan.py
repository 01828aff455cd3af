"""The plan for one job, and its inputs besides the job and its workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates, TopologyGates
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import PriorityClass
from quorate.api.kueue import AdmissionCheck, ResourceFlavor, Workload, WorkloadPriorityClass
from quorate.api.meta import Uid
from quorate.controllers.context import Record
from quorate.controllers.executor import Plan
from quorate.controllers.jobframework.podset_info import Membership
from quorate.controllers.native_groups import NativeGangs, NativeGroupView

NO_RESOURCE_OPTIONS: Final = ResourceOptions()


@dataclass(frozen=True, slots=True)
class UngatedPods:
    """Pods that a plan ungates; for the metrics."""

    gate: str
    count: int
    cluster_queue: str
    is_group: bool
    admitted_at: float  # epoch seconds

    def record(self, record: Record, now: float) -> None:
        """Record for each of the pods how long after the admission its gate was removed."""
        labels = {
            "name": self.gate,
            "cluster_queue": self.cluster_queue,
            "is_group": str(self.is_group).lower(),
        }
        seconds = max(0.0, now - self.admitted_at)
        for _ in range(self.count):
            record("kueue_pod_scheduling_gate_removal_seconds", labels, seconds)


@dataclass(frozen=True, slots=True)
class JobChange:
    """What the writes of a plan do to the job: the reason and the words for a refusal."""

    reason: str
    refusal: str
    workload: Workload | None  # the workload that tells it, if there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan(Plan):
    change: JobChange | None = None
    stopping: bool = False  # the last pods must be gone before the rest of the stop can be written
    ungated: UngatedPods | None = None
    releases: tuple[Workload, ...] = ()  # their quota is released, if none of their pods may run any more


IDLE = JobPlan()


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The part of the configuration that concerns jobs."""

    manage_jobs_without_queue_name: bool = False
    wait_for_pods_ready: WaitForPodsReady | None = None  # None: disabled
    scheduling: bool = True  # the cycle writes the first status of each workload
    label_keys_to_copy: tuple[str, ...] = ()
    annotation_keys_to_copy: tuple[str, ...] = ()
    gates: Gates = DEFAULT_GATES
    elastic_jobs: bool = True  # jobs with the annotation may change their size while they run
    deactivated_retention_s: float | None = None  # how long deactivated jobs are kept; None: for ever
    topology: TopologyGates | None = None  # None: jobs get no places in topologies
    resources: ResourceOptions = NO_RESOURCE_OPTIONS
    native_gangs: bool = False  # jobs start as native gangs, unless their queue or they say otherwise
    gang_schedulers: tuple[str, ...] = ()  # which make pod groups of their own


def job_options(configuration: Configuration) -> JobOptions:
    return JobOptions(
        manage_jobs_without_queue_name=configuration.manage_jobs_without_queue_name,
        wait_for_pods_ready=configuration.wait_for_pods_ready,
        scheduling=configuration.scheduling.enabled,
        label_keys_to_copy=(
            *configuration.integrations.label_keys_to_copy,
            *_metric_keys(configuration, False),
        ),
        annotation_keys_to_copy=_metric_keys(configuration, True),
        gates=configuration.gates,
        elastic_jobs=configuration.webhook_gates.elastic_jobs,
        deactivated_retention_s=configuration.retention.deactivated_s,
        topology=configuration.topology_gates,
        resources=configuration.resources,
        native_gangs=configuration.native_gangs,
        gang_schedulers=configuration.gang.scheduler_names,
    )


def _metric_keys(configuration: Configuration, annotations: bool) -> tuple[str, ...]:
    """Return the keys of workloads from which custom labels of metrics are read."""
    return tuple(
        label.key
        for label in configuration.metrics.custom_labels
        if label.source == "Workload" and label.from_annotation == annotations
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileContext:
    """What a job's plan depends on besides the job and its workloads."""

    namespace_managed: bool = True
    namespace_deleted: bool = False  # no object can be created in it any more
    flavors: Mapping[str, ResourceFlavor]
    workload_classes: Mapping[str, WorkloadPriorityClass]
    pod_classes: Mapping[str, PriorityClass]
    ancestor_workloads: tuple[Workload, ...] | None = None  # of the managed ancestor; None: there is none
    prebuilt: Workload | None = None  # the workload that the job names, if it exists
    parent: Uid | None = None  # the object that the workload is labelled with instead of the job
    membership: Membership | None = None  # the pod group that must be admitted as well, if any
    native_gangs: NativeGangs | None = None  # native pod groups, if the job is to start with them
    native_groups: NativeGroupView | None = None  # None: the API server has none, or jobs name none
    checks: Mapping[str, AdmissionCheck] = field(default_factory=dict)
