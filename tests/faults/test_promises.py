"""Each violated promise is found: histories with one violation each, and one without."""

import itertools
from collections.abc import Iterator

import pytest

from quorate.api.batch import Job, JobSpec, JobStatus
from quorate.api.core import Pod, PodStatus
from quorate.api.kueue import (
    PODS_RUN_AGAIN,
    Admission,
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    FlavorQuotas,
    PodSet,
    PodSetAssignment,
    ReclaimablePod,
    ResourceGroup,
    ResourceQuota,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import Condition, ObjectMeta, OwnerReference, Uid, at_epoch
from quorate.api.quantity import Quantity
from tests.faults.history import Recorded, Step
from tests.faults.promises import Promises

LABELS = {"kueue.x-k8s.io/queue-name": "team"}


def queue(name: str, cpu: int, cohort: str = "") -> ClusterQueue:
    quota = ResourceQuota(name="cpu", nominal_quota=Quantity.of_units(cpu))
    group = ResourceGroup(
        covered_resources=("cpu",), flavors=(FlavorQuotas(name="spot", resources=(quota,)),)
    )
    spec = ClusterQueueSpec(resource_groups=(group,), cohort_name=cohort)
    return ClusterQueue(metadata=ObjectMeta(name=name), spec=spec)


def job(name: str, *, suspend: bool = True, active: int = 0, managed: bool = True) -> Job:
    metadata = ObjectMeta(name=name, namespace="ns", uid=Uid(f"uid-{name}"), labels=LABELS if managed else {})
    return Job(
        metadata=metadata, spec=JobSpec(suspend=suspend, parallelism=2), status=JobStatus(active=active)
    )


def workload(
    of: str,
    *true: str,
    cpu: int = 2,
    count: int = 2,
    name: str = "",
    why: str = "",
    reclaimable: tuple[ReclaimablePod, ...] = (),
) -> Workload:
    """Return the workload of a job of two pods with these true conditions; QuotaReserved adds quota."""
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=of, uid=Uid(f"uid-{of}"), controller=True)
    usage = {"cpu": Quantity.of_units(cpu)}
    assigned = PodSetAssignment(flavors={"cpu": "spot"}, resource_usage=usage, count=count)
    holds = "QuotaReserved" in true
    return Workload(
        metadata=ObjectMeta(name=name or f"of-{of}", namespace="ns", owner_references=(owner,)),
        spec=WorkloadSpec(pod_sets=(PodSet(count=2),), queue_name="team"),
        status=WorkloadStatus(
            conditions=tuple(
                Condition(
                    type=type_, status="True", reason="Preempted" if type_ == "Evicted" else "", message=why
                )
                for type_ in true
            ),
            admission=Admission(cluster_queue="team", pod_set_assignments=(assigned,)) if holds else None,
            reclaimable_pods=reclaimable,
        ),
    )


def pod(of: str, *, terminating: bool = False) -> Pod:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=of, uid=Uid(f"uid-{of}"), controller=True)
    metadata = ObjectMeta(
        name=f"{of}-pod",
        namespace="ns",
        owner_references=(owner,),
        deletion_timestamp=at_epoch(1000) if terminating else None,
    )
    return Pod(metadata=metadata, status=PodStatus(phase="Running"))


def findings(*objects: Recorded) -> Iterator[str]:
    promises = Promises(
        [queue("team", 4, "all"), queue("other", 0, "all")], [Cohort(metadata=ObjectMeta(name="all"))]
    )
    for version, stored in zip(itertools.count(1), objects, strict=False):
        yield from (finding.partition(":")[0] for finding in promises.step(Step(version, stored)))


RESERVED, ADMITTED = ("QuotaReserved",), ("QuotaReserved", "Admitted")
EVICTED = ("QuotaReserved", "Admitted", "Evicted")
ORDINARY_HISTORY = (
    job("a"),
    workload("a"),
    workload("a", *ADMITTED),
    job("a", suspend=False),
    pod("a"),
    job("a", suspend=False, active=2),
    workload("a", *EVICTED, why="for b"),
    job("a", active=2),
    pod("a", terminating=True),
    job("a"),
    workload("a", "Evicted", why="for b"),
    workload("a", *ADMITTED),
    job("a", suspend=False),
    workload("a", *ADMITTED, "Finished"),
)


PARTIALLY_DONE = (ReclaimablePod(name="main", count=1),)
RESTARTED_WITH_THE_REST = workload("a", *ADMITTED, count=1, reclaimable=PARTIALLY_DONE)


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(ORDINARY_HISTORY, id="preempted and run again"),
        pytest.param(
            (
                job("a", managed=False, suspend=False),
                pod("a"),
                job("a", managed=True),
                workload("a", *ADMITTED),
                job("a", suspend=False),
                pod("a", terminating=True),
            ),
            id="the job controller stops a pod after its job runs again",
        ),
        pytest.param(
            (RESTARTED_WITH_THE_REST, workload("a", *ADMITTED, count=1)),
            id="a job that runs again with fewer pods has none to reclaim",
        ),
        pytest.param(
            (
                workload("a", *ADMITTED, cpu=4),
                workload("a", *ADMITTED, cpu=4, reclaimable=PARTIALLY_DONE),
                workload("b", *RESERVED),
                workload("a", *ADMITTED, PODS_RUN_AGAIN, cpu=4),
            ),
            id="pods run again of which another workload has the quota, and a condition tells",
        ),
    ],
)
def test_a_history_without_a_violation_has_no_findings(objects: tuple[Recorded, ...]) -> None:
    assert list(findings(*objects)) == []


@pytest.mark.parametrize(
    ("objects", "broken"),
    [
        pytest.param(
            [workload("a", *RESERVED, cpu=3), workload("b", *RESERVED)],
            {"promise 1"},
            id="reservations exceed the quota",
        ),
        pytest.param([workload("a", *RESERVED, count=1)], {"promise 2"}, id="half a gang holds quota"),
        pytest.param(
            [
                job("a"),
                workload("a", *ADMITTED, count=2),
                job("a", suspend=False),
                workload("a", *RESERVED, count=3),
            ],
            {"promise 2", "promise 5"},
            id="more pods than requested",
        ),
        pytest.param(
            [job("a"), workload("a", *ADMITTED), job("a", suspend=False, active=2), workload("a")],
            {"promise 3"},
            id="quota is released while the job runs",
        ),
        pytest.param(
            [workload("a", *ADMITTED), workload("a", *EVICTED, why="for b")] * 3,
            {"promise 4"},
            id="repeated preemption without another event",
        ),
        pytest.param(
            [workload("a", *RESERVED, cpu=1), workload("a", *RESERVED, cpu=1, name="second")],
            {"promise 5"},
            id="two workloads of one job",
        ),
        pytest.param([job("a"), job("a", suspend=False)], {"promise 5"}, id="started without admission"),
        pytest.param(
            [job("a", managed=False, suspend=False), job("a", managed=False)],
            {"promise 6"},
            id="a foreign job is suspended",
        ),
        pytest.param(
            [job("a", managed=False, suspend=False), pod("a"), pod("a", terminating=True)],
            {"promise 6"},
            id="a pod of a running job is stopped",
        ),
    ],
)
def test_each_violation_is_reported(objects: list[Recorded], broken: set[str]) -> None:
    assert set(findings(*objects)) == broken
