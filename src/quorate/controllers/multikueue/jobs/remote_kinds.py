"""The kinds of job that can run in a worker cluster, one row for each kind.

A row says how to tell that a local job may be given away, what its copy leaves out, and what the local job
and its copy take from each other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import VOLCANO_JOB
from quorate.api.field_path import Path, look_up
from quorate.api.names.kueue import MANAGED
from quorate.api.names.volcano import ADMITTED_POD_SETS
from quorate.controllers.integrations import BATCH_JOB, Integration, enabled_integrations, queues_pods
from quorate.controllers.jobframework.interface import JobKind
from quorate.controllers.jobs.declared import DeclaredKind
from quorate.controllers.jobs.training_runtime import MANAGER, PATCHES
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.resources import PODS, Json, Resource

LEADER_WORKER_SET: Final = "leaderworkerset.x-k8s.io/leaderworkerset"
STATEFUL_SET: Final = "statefulset"
JOB_SET: Final = "jobset.x-k8s.io/jobset"
_JOB_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_LABELS: Final[tuple[Path, ...]] = (("metadata", "labels"), ("spec", "template", "metadata", "labels"))
_PRIORITY: Final[tuple[Path, ...]] = (("spec", "priority"), ("spec", "preemptionPolicy"))


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Fields of a local job that its copy follows while it runs."""

    fields: tuple[str, ...]
    within: Path = ("spec",)  # the object that has the fields, or a list of objects
    entries_by: str = ""  # the field that identifies the entries of a list
    elastic: bool = True  # only of elastic jobs: the copy then names the workload of its new size


@dataclass(frozen=True, slots=True)
class RemoteKind:
    """One row of the table."""

    resource: Resource[UnstructuredJob]  # without a plural, if only the API server knows it
    kind: JobKind[Any] | None = None  # None: pods, sets, and kinds of other controllers
    managed_by: Path | None = None  # None: every job may be given away
    managed_by_text: str = "spec.managedBy"  # in Kueue's refusals
    stays_suspended: bool = False  # a job that names no controller stays suspended until its copy has ended
    is_pod: bool = False  # the jobs are the owners of the workload
    dropped: tuple[Path, ...] = ()
    clean: Callable[[Json], Json] | None = None  # what else a copy leaves out
    names_workload: bool = True
    copies_status: bool = True  # False: the controller of the local object would overwrite it
    starts_late: bool = False  # the status of a running copy is not valid for a suspended job
    final_conditions: tuple[
        str, ...
    ] = ()  # of a job that ends: none may change if the next copy ends otherwise
    growing_counts: tuple[str, ...] = ()  # counts of the status that must not decrease
    no_pods: Json | None = None  # merge patch of the status of a job, the pods of which are lost
    forwarded: Forwarded | None = None

    @property
    def name(self) -> str:
        return kind_name(self.resource.api_version, self.resource.kind)


def kind_name(api_version: str, kind: str) -> str:
    """Return the name of a kind in Kueue's texts and annotations."""
    return f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"


def _without_runtime_patch(document: Json) -> Json:
    """Leave out the runtime patch of Kueue: the worker cluster adds its own."""
    patches = look_up(document, PATCHES) or []
    kept = [patch for patch in patches if patch.get("manager") != MANAGER]
    return {**document, "spec": {**document["spec"], PATCHES[-1]: kept}} if patches else document


# What rows have beside the fields that follow from the integration, by the name of the integration.
_ROWS: Final[dict[str, dict[str, Any]]] = {
    BATCH_JOB: {
        "dropped": (
            ("spec", "selector"),
            ("spec", "manualSelector"),
            *((*labels, name) for labels in _LABELS for name in _JOB_LABELS),
        ),
        "stays_suspended": True,
        "starts_late": True,
        "final_conditions": ("SuccessCriteriaMet", "FailureTarget"),
        "growing_counts": ("succeeded", "failed"),
        "no_pods": {"active": None, "ready": None, "terminating": None},
        "forwarded": Forwarded(("parallelism",)),
    },
    JOB_SET: {"stays_suspended": True, "no_pods": {"replicatedJobsStatus": None}},
    "trainer.kubeflow.org/trainjob": {"clean": _without_runtime_patch, "no_pods": {"jobsStatus": None}},
    "ray.io/rayjob": {"no_pods": {"jobDeploymentStatus": None}},
    "ray.io/raycluster": {
        "no_pods": {"state": None},
        "forwarded": Forwarded(("replicas", "numOfHosts"), ("spec", "workerGroupSpecs"), "groupName"),
    },
    "ray.io/rayservice": {
        "no_pods": {"conditions": None},
        "forwarded": Forwarded(("serveConfigV2",), elastic=False),
    },
    "workload.codeflare.dev/appwrapper": {"no_pods": {"conditions": None}},
    VOLCANO_JOB: {"dropped": (("metadata", "annotations", ADMITTED_POD_SETS),), "stays_suspended": True},
    "sparkoperator.k8s.io/sparkapplication": {"stays_suspended": True},
    STATEFUL_SET: {"copies_status": False},
    LEADER_WORKER_SET: {"copies_status": False, "names_workload": False},
}
_KUBEFLOW: Final[dict[str, Any]] = {"no_pods": {"replicaStatuses": None}}
_NOT_DELEGATED: Final = ("scheduling.volcano.sh/podgroup", "deployment")

_PODS: Final = RemoteKind(
    Resource("", "v1", PODS.plural, PODS.kind, True, UnstructuredJob),
    is_pod=True,
    # The admission of the worker cluster sets the priority; it refuses another than that of its own class.
    dropped=(("spec", "nodeName"), *_PRIORITY, ("metadata", "labels", MANAGED)),
    no_pods={"phase": "Pending", "containerStatuses": None, "initContainerStatuses": None},
)


def remote_kinds(configuration: Configuration) -> dict[str, RemoteKind]:
    """Return the rows of the enabled kinds by their names."""
    return {row.name: row for row in _rows(configuration)}


def _rows(configuration: Configuration) -> Iterator[RemoteKind]:
    gates = configuration.multikueue_gates
    for integration in enabled_integrations(configuration.integrations):
        if integration.name in _NOT_DELEGATED or integration.name == "pod":
            continue
        row = _row(integration)
        if integration.name == BATCH_JOB and gates.clear_ttl_on_worker:
            row = replace(row, dropped=(*row.dropped, ("spec", "ttlSecondsAfterFinished")))
        if row.forwarded is not None and not row.forwarded.elastic and not gates.remote_spec_sync:
            row = replace(row, forwarded=None)
        yield row
    if queues_pods(configuration.integrations):
        yield _PODS
    externals = configuration.multikueue.external_frameworks if gates.adapters_for_custom_jobs else ()
    for external in externals:
        resource = Resource(external.group, external.version, "", external.kind, True, UnstructuredJob)
        yield RemoteKind(resource, managed_by=("spec", "managedBy"), managed_by_text=".spec.managedBy")


def _row(integration: Integration) -> RemoteKind:
    original, kind = integration.resource, integration.kind
    resource = Resource(
        original.group, original.version, original.plural, original.kind, True, UnstructuredJob
    )
    fields = _ROWS.get(integration.name, {})
    if isinstance(kind, DeclaredKind):
        fields = {"stays_suspended": True}
    if original.group == "kubeflow.org":
        fields = _KUBEFLOW
    managed = None if kind is None or kind.managed_by is None else kind.managed_by.field
    text = "spec.runPolicy.managedBy" if original.kind == "MPIJob" else "spec.managedBy"
    return RemoteKind(resource, kind, managed, text, **fields)
