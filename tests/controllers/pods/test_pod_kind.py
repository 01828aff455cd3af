"""What is decided for a pod that stands for itself, one world a line."""

import msgspec
import pytest

from quorate.api import codec
from quorate.api.kueue import Admission, PodSet, PodSetAssignment, Workload, WorkloadSpec, WorkloadStatus
from quorate.api.meta import Condition, ObjectMeta, OwnerReference, Uid
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.pods.adoption import adoption_plan
from quorate.controllers.pods.pod_kind import PodKind
from quorate.controllers.pods.pod_writes import template_of
from quorate.controllers.pods.queued_pod import QueuedPod
from tests.controllers.pods.notation import NOW, START, a_pod, show

PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "made"}


def plan(pod: QueuedPod, *workloads: Workload, prebuilt: Workload | None = None) -> JobPlan:
    context = ReconcileContext(flavors={}, workload_classes={}, pod_classes={}, prebuilt=prebuilt)
    return decide(PodKind(), pod, workloads, context, JobOptions(), NOW)


def a_workload(conditions: str = "", of: str = "a", name: str = "pod-a-00000", same: bool = True) -> Workload:
    """``of``: the pod that controls it; nobody, if empty.  ``same``: it asks for what the pod asks for."""
    found = [
        Condition(
            type=word.removeprefix("not-"),
            status="False" if word.startswith("not-") else "True",
            reason="Told",
            message="because",
            last_transition_time=START,
        )
        for word in conditions.split()
    ]
    owner = OwnerReference(api_version="v1", kind="Pod", name=of, uid=Uid(f"uid-{of}"), controller=True)
    template = template_of(a_pod("a", group=""))
    reserved = "QuotaReserved" in conditions.split()
    admission = Admission(cluster_queue="research", pod_set_assignments=(PodSetAssignment(count=1),))
    if not same:
        template = msgspec.Raw(codec.encode({"spec": {"containers": [{"name": "other"}]}}))
    return Workload(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=Uid("uid-workload"),
            resource_version="1",
            finalizers=("kueue.x-k8s.io/resource-in-use",),
            owner_references=(owner,) if of else (),
        ),
        spec=WorkloadSpec(pod_sets=(PodSet(template=template),), queue_name="queue"),
        status=WorkloadStatus(conditions=tuple(found), admission=admission if reserved else None),
    )


@pytest.mark.parametrize(
    ("state", "workload", "want"),
    [
        pytest.param("gated", None, "create pod-a-5b54b main=1; +CreatedWorkload", id="new"),
        pytest.param("gated", a_workload("not-QuotaReserved"), "", id="waiting"),
        pytest.param("gated", a_workload("QuotaReserved Admitted"), "ungate a; +Started", id="admitted"),
        pytest.param("running", a_workload("QuotaReserved Admitted"), "", id="it runs"),
        pytest.param(
            "running",
            a_workload("QuotaReserved Admitted Evicted"),
            "say a WorkloadEvictedDueToTold; delete a; "
            "status QuotaReserved=False:Pending Admitted=False:NoReservation Requeued=False:Told; +Stopped",
            id="evicted: it gives its quota back as it is deleted, and is not queued again",
        ),
        pytest.param(
            "running",
            a_workload("not-QuotaReserved"),
            "say a NotAdmitted; delete a; +Stopped",
            id="loose",
        ),
        pytest.param(
            "running", None, "say a NoMatchingWorkload; delete a; +Stopped", id="its workload was lost"
        ),
        pytest.param(
            "succeeded", a_workload("QuotaReserved Admitted"), "status Finished=True:Succeeded", id="done"
        ),
        pytest.param(
            "failed", a_workload("QuotaReserved Admitted"), "status Finished=True:Failed", id="failed"
        ),
        pytest.param(
            "succeeded", a_workload("QuotaReserved Finished"), "let go a; release workload", id="all is told"
        ),
        pytest.param("succeeded", None, "let go a", id="done, its workload gone"),
        pytest.param(
            "running-gone",
            a_workload("QuotaReserved Admitted"),
            "let go a; status Finished=True:OwnerNotFound; release workload",
            id="it is being deleted",
        ),
        pytest.param(
            "gated",
            a_workload("not-QuotaReserved", same=False),
            "release workload; delete workload; +DeletedWorkload",
            id="a workload of another shape",
        ),
    ],
)
def test_a_pod_and_its_workload(state: str, workload: Workload | None, want: str) -> None:
    owned = [] if workload is None else [workload]
    assert show(plan(a_pod("a", state, group=""), *owned)) == want


@pytest.mark.parametrize(
    ("state", "named", "want"),
    [
        pytest.param("gated", None, "", id="not made yet"),
        pytest.param(
            "running", None, "say a NoMatchingWorkload; delete a; +Stopped", id="not made, but it runs"
        ),
        pytest.param("gated", a_workload(of=""), "own", id="nobody's"),
        pytest.param("gated", a_workload(of="b"), "", id="another's"),
        pytest.param("gated", a_workload("QuotaReserved Admitted"), "ungate a; +Started", id="admitted"),
        pytest.param(
            "gated", a_workload(same=False), "status Finished=True:OutOfSync", id="of another shape"
        ),
    ],
)
def test_a_pod_that_names_its_workload(state: str, named: Workload | None, want: str) -> None:
    pod = a_pod("a", state, group="", labels=PREBUILT)
    assert show(plan(pod, prebuilt=named)) == want


@pytest.mark.parametrize(
    ("state", "queue", "managed", "child", "want"),
    [
        pytest.param("gated", "queue", True, False, "let go a", id="it is taken in"),
        pytest.param("gated", "", True, False, "", id="it asks for no queue"),
        pytest.param("gated", "queue", False, False, "", id="its namespace is not managed"),
        pytest.param("gated", "queue", True, True, "", id="it is a part of a job"),
        pytest.param("pending", "queue", True, False, "!NotGated", id="it has no gate"),
        pytest.param("pending", "queue", True, True, "", id="a part needs no gate"),
        pytest.param("succeeded", "queue", True, False, "", id="it has ended"),
    ],
)
def test_a_pod_that_no_webhook_saw(state: str, queue: str, managed: bool, child: bool, want: str) -> None:
    pod = a_pod("a", state, group="", queue=queue, held=False)
    labels = {key: text for key, text in pod.metadata.labels.items() if key != "kueue.x-k8s.io/managed"}
    stray = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))
    got = adoption_plan(stray, namespace_managed=managed, is_child=child, without_queue_name=False)
    assert show(got) == want
