"""What a job's plan is, and what every rule that makes one looks at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates
from quorate.api.core import PriorityClass
from quorate.api.kueue import PodSet, ResourceFlavor, Workload, WorkloadPriorityClass
from quorate.controllers.jobframework.interface import J, JobKind, Outcome
from quorate.controllers.jobframework.pod_group_membership import Membership
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Patch, Write
from quorate.queueing.lifecycle.transition import Event


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Writes to send in order, then events to show on the job."""

    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    lacks: str = ""  # what must come to be before there can be a plan
    wake_at: float | None = None  # when to look again if nothing changes before, epoch seconds
    patient: bool = False  # the writes may wait a moment, as there may soon be more to say in them
    waits: bool = False  # the job's last pods must be gone before it is stopped wholly
    of_workload: tuple[tuple[Workload, Event], ...] = ()  # events to show on workloads of the job


IDLE = JobPlan()


@dataclass(frozen=True, slots=True)
class JobRules:
    """The part of the configuration that concerns jobs."""

    manage_jobs_without_queue_name: bool = False
    wait_for_pods_ready: bool = False
    label_keys_to_copy: tuple[str, ...] = ()
    gates: Gates = DEFAULT_GATES
    elastic_jobs: bool = True  # jobs that say so may change their size while they run
    deactivated_kept_s: float | None = None  # how long a job the system deactivated stays; None: for ever


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a job's plan depends on besides the job and its workloads."""

    namespace_managed: bool
    flavors: Mapping[str, ResourceFlavor]
    workload_classes: Mapping[str, WorkloadPriorityClass]
    pod_classes: Mapping[str, PriorityClass]
    part_of: tuple[Workload, ...] | None = None  # the workloads of the job it is a part of; None: of none
    prebuilt: Workload | None = None  # the workload that the job names as its own, if there is one
    membership: Membership | None = None  # the pod group that holds it back as well, if one does


@dataclass(frozen=True, slots=True)
class Case(Generic[J]):
    """One job as every rule sees it."""

    kind: JobKind[J]
    job: J
    pod_sets: tuple[PodSet, ...]
    suspended: bool
    outcome: Outcome | None
    around: Surroundings
    rules: JobRules
    now: float


def told(reason: str, message: str) -> Event:
    return Event("Normal", reason, message)


def not_composed(why: str, lacks: str = "") -> JobPlan:
    return JobPlan(events=(Event("Warning", "ErrWorkloadCompose", why),), lacks=lacks)


def finished_event(workload: Workload, why: str = "") -> Event:
    text = f"Workload '{workload.metadata.key}' is declared finished"
    return told("FinishedWorkload", f"{text}: {why}" if why else text)


def stop_plan(case: Case[J], workload: Workload | None, why: str) -> JobPlan:
    stop = case.kind.stop(case.job, None if workload is None else workload.spec.pod_sets)
    return JobPlan(stop.patches, (told("Stopped", why),) if stop.begins else (), waits=stop.waits)


def updated(workload: Workload, body: Mapping[str, object]) -> Patch:
    return Patch(WORKLOADS, workload.metadata.key, workload.metadata.resource_version, body)
