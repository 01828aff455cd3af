"""Plans of the job reconciler in a short notation, shared by the tests of its rules."""

from collections.abc import Sequence
from typing import Any

import msgspec

from quorate.api.batch import Job
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.core import Toleration
from quorate.api.kueue import (
    AdmissionCheck,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from quorate.api.meta import Condition, find_condition
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.podset_info import Membership
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.native_groups import NativeGangs, NativeGroupView
from quorate.kube.writes import Apply, Create, Delete, Patch, Write
from quorate.queueing.lifecycle.transition import Event
from tests.controllers.objects import a_flavor

NOW = 2_000.0
SPOT = a_flavor("spot", node_labels={"pool": "spot"}, tolerations=(Toleration(key="spot"),))
OPTIONS = JobOptions()
WAITING = JobOptions(
    wait_for_pods_ready=WaitForPodsReady(timeout_s=300.0, recovery_timeout_s=300.0, block_admission=None)
)


def plan(
    job: Job | None,
    *workloads: Workload,
    options: JobOptions = OPTIONS,
    managed: bool = True,
    flavors: Sequence[ResourceFlavor] = (SPOT,),
    classes: Sequence[WorkloadPriorityClass] = (),
    ancestor_workloads: tuple[Workload, ...] | None = None,
    membership: Membership | None = None,
    native_gangs: NativeGangs | None = None,
    native_groups: NativeGroupView | None = None,
    checks: Sequence[AdmissionCheck] = (),
    prebuilt: Workload | None = None,
) -> JobPlan:
    context = ReconcileContext(
        namespace_managed=managed,
        flavors={flavor.metadata.name: flavor for flavor in flavors},
        workload_classes={each.metadata.name: each for each in classes},
        pod_classes={},
        ancestor_workloads=ancestor_workloads,
        membership=membership,
        native_gangs=native_gangs,
        native_groups=native_groups,
        checks={check.metadata.name: check for check in checks},
        prebuilt=prebuilt,
    )
    return decide(BatchJob(), job, workloads, context, options, NOW)


def show(plan: JobPlan) -> list[str]:
    """Return the writes of a plan: verb, kind and changed fields."""
    return [_show(write) for write in plan.writes]


def _show(write: Write) -> str:
    match write:
        case Create(resource):
            return f"create {resource.kind}"
        case Delete(resource):
            return f"delete {resource.kind}"
        case Apply(resource):
            return f"apply {resource.kind}"
        case Patch(resource, _, _, body, subresource):
            fields = sorted(f"{top}.{name}" for top, part in body.items() for name in part)
            return f"patch {resource.kind}{'/status' if subresource else ''} {' '.join(fields)}"


def events(plan: JobPlan) -> list[Event]:
    return [each.event for each in plan.events]


def reasons(plan: JobPlan) -> list[str]:
    return [event.reason for event in events(plan)]


def written(plan: JobPlan, type_: str) -> tuple[str, str, str]:
    """Return the condition of ``type_`` in the one status patch of a plan: status, reason, message."""
    (body,) = (write.body for write in plan.writes if isinstance(write, Patch) and "status" in write.body)
    conditions = msgspec.convert(body["status"]["conditions"], tuple[Condition, ...])
    found = find_condition(conditions, type_)
    assert found is not None, f"{type_} is not written"
    return (found.status, found.reason, found.message)


RUNNING: dict[str, Any] = {"suspend": False, "status": {"active": 3, "startTime": "2024-01-01T00:00:00Z"}}
