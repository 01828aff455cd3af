"""The plans for a single pod, one state per line."""

import msgspec
import pytest

from quorate.api import codec
from quorate.api.core import Resources
from quorate.api.core.pod import Pod
from quorate.api.kueue import Admission, PodSet, PodSetAssignment, Workload, WorkloadSpec, WorkloadStatus
from quorate.api.meta import Condition, ObjectMeta, OwnerReference, Uid
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.pods.defaulting import adoption_plan
from quorate.controllers.pods.pod_kind import PodKind
from quorate.controllers.pods.pod_writes import template_of
from quorate.kube.writes import Patch
from tests.controllers.pods.notation import NOW, START, a_pod, show, with_spec

PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "made"}


def plan(pod: Pod, *workloads: Workload, prebuilt: Workload | None = None) -> JobPlan:
    context = ReconcileContext(flavors={}, workload_classes={}, pod_classes={}, prebuilt=prebuilt)
    return decide(PodKind(), pod, workloads, context, JobOptions(), NOW)


def a_workload(conditions: str = "", of: str = "a", name: str = "pod-a-00000", same: bool = True) -> Workload:
    """Return a workload controlled by pod ``of``, if not empty; ``same``: equivalent to the pod."""
    found = [
        Condition(
            type=word.removeprefix("not-"),
            status="False" if word.startswith("not-") else "True",
            reason="Why",
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
        pytest.param("gated", None, "create pod-a-5b54b main=1; +CreatedWorkload", id="a new pod"),
        pytest.param("gated", a_workload("not-QuotaReserved"), "", id="pending"),
        pytest.param("gated", a_workload("QuotaReserved Admitted"), "ungate a; +Started", id="admitted"),
        pytest.param("running", a_workload("QuotaReserved Admitted"), "", id="running"),
        pytest.param(
            "running",
            a_workload("QuotaReserved Admitted Evicted"),
            "end a WorkloadEvictedDueToWhy; delete a; "
            "status QuotaReserved=False:PendingEvaluation Admitted=False:NoReservation "
            "Requeued=False:Why; +Stopped",
            id="evicted: the quota is released with the deletion, without requeueing",
        ),
        pytest.param(
            "running",
            a_workload("not-QuotaReserved"),
            "end a NotAdmitted; delete a; +Stopped",
            id="running without quota",
        ),
        pytest.param(
            "running", None, "end a NoMatchingWorkload; delete a; +Stopped", id="the workload is missing"
        ),
        pytest.param(
            "succeeded",
            a_workload("QuotaReserved Admitted"),
            "status Finished=True:Succeeded",
            id="succeeded",
        ),
        pytest.param(
            "failed", a_workload("QuotaReserved Admitted"), "status Finished=True:Failed", id="failed"
        ),
        pytest.param(
            "succeeded",
            a_workload("QuotaReserved Finished"),
            "release a; release workload",
            id="the workload has finished",
        ),
        pytest.param("succeeded", None, "release a", id="succeeded, the workload is missing"),
        pytest.param(
            "running-gone",
            a_workload("QuotaReserved Admitted"),
            "release a; status Finished=True:OwnerNotFound; release workload",
            id="the pod is deleted",
        ),
        pytest.param(
            "gated",
            a_workload("not-QuotaReserved", same=False),
            "release workload; delete workload; +DeletedWorkload",
            id="a workload that is not equivalent",
        ),
    ],
)
def test_a_pod_and_its_workload(state: str, workload: Workload | None, want: str) -> None:
    owned = [] if workload is None else [workload]
    assert show(plan(a_pod("a", state, group=""), *owned)) == want


@pytest.mark.parametrize(
    ("state", "named", "want"),
    [
        pytest.param("gated", None, "", id="the workload does not exist yet"),
        pytest.param(
            "running",
            None,
            "end a NoMatchingWorkload; delete a; +Stopped",
            id="running without the workload",
        ),
        pytest.param("gated", a_workload(of=""), "own", id="a workload without a controller"),
        pytest.param("gated", a_workload(of="b"), "!WorkloadNameConflict", id="a workload of another pod"),
        pytest.param("gated", a_workload("QuotaReserved Admitted"), "ungate a; +Started", id="admitted"),
        pytest.param("gated", a_workload(same=False), "status Finished=True:OutOfSync", id="not equivalent"),
    ],
)
def test_a_pod_with_a_prebuilt_workload(state: str, named: Workload | None, want: str) -> None:
    pod = a_pod("a", state, group="", labels=PREBUILT)
    assert show(plan(pod, prebuilt=named)) == want


def sized(cpu: str, memory: str = "1Gi", image: str = "i", **container: object) -> msgspec.Raw:
    """Return the spec of a running pod with a sidecar of a constant size."""
    requests = {"requests": {"cpu": cpu, "memory": memory, "example.com/gpu": "1"}}
    main = {"name": "main", "image": image, "resources": requests, **container}
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    return msgspec.Raw(codec.encode({"nodeName": "n", "containers": [main], "initContainers": [sidecar]}))


STOPPED = "end a NoMatchingWorkload; delete a; release workload; delete workload; +Stopped; +DeletedWorkload"


@pytest.mark.parametrize(
    ("spec", "usage", "want"),
    [
        pytest.param(sized("2"), {"cpu": "3"}, "", id="not resized"),
        pytest.param(sized("1"), {"cpu": "3"}, "", id="smaller"),
        pytest.param(sized("1", memory="9Gi"), {"cpu": "3"}, "", id="without quota for what is more"),
        pytest.param(sized("3"), {"cpu": "4"}, "", id="more than its template, and charged for"),
        pytest.param(sized("3"), {"cpu": "3"}, STOPPED, id="more than is charged"),
        pytest.param(sized("1", image="other"), {"cpu": "3"}, STOPPED, id="another pod"),
        pytest.param(sized("1", env=[{"name": "A"}]), {"cpu": "3"}, STOPPED, id="another variable"),
    ],
)
def test_a_pod_that_is_resized_in_place_runs_on_with_the_quota_it_has(
    spec: msgspec.Raw, usage: dict[str, str], want: str
) -> None:
    workload = a_workload("QuotaReserved Admitted")
    pods = PodSet(template=msgspec.Raw(codec.encode({"spec": sized("2")})))
    assigned = PodSetAssignment(count=1, resource_usage=codec.convert(Resources, usage))
    status = msgspec.structs.replace(
        workload.status, admission=Admission(cluster_queue="research", pod_set_assignments=(assigned,))
    )
    spec_of_workload = msgspec.structs.replace(workload.spec, pod_sets=(pods,))
    workload = msgspec.structs.replace(workload, spec=spec_of_workload, status=status)
    decided = plan(with_spec(a_pod("a", "running", group=""), spec), workload)
    assert show(decided) == want
    if usage == {"cpu": "3"} and b'"cpu":"3"' in bytes(spec):
        assert decided.events[0].event.message == (
            "It was resized to more than quota is charged for: cpu 4, charged 3"
        )


@pytest.mark.parametrize(
    ("state", "queue", "managed", "child", "want"),
    [
        pytest.param("gated", "queue", True, False, "release a", id="adopted"),
        pytest.param("gated", "", True, False, "", id="without a queue name"),
        pytest.param("gated", "queue", False, False, "", id="in a namespace that is not managed"),
        pytest.param("gated", "queue", True, True, "", id="a child of a managed job"),
        pytest.param("pending", "queue", True, False, "!NotGated", id="without the gate"),
        pytest.param("pending", "queue", True, True, "", id="a child without the gate"),
        pytest.param("succeeded", "queue", True, False, "", id="terminated"),
    ],
)
def test_adoption_of_a_pod_without_webhooks(
    state: str, queue: str, managed: bool, child: bool, want: str
) -> None:
    pod = a_pod("a", state, group="", queue=queue, has_finalizer=False)
    labels = {key: text for key, text in pod.metadata.labels.items() if key != "kueue.x-k8s.io/managed"}
    stray = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))
    got = adoption_plan(
        stray, namespace_managed=managed, is_child=child, without_queue_name=False, queue=queue
    )
    assert show(got) == want


def test_a_gated_pod_of_a_queued_native_workload_gets_its_queue() -> None:
    pod = a_pod("a", "gated", group="", queue="", has_finalizer=False)
    stray = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels={}))
    got = adoption_plan(
        stray, namespace_managed=True, is_child=False, without_queue_name=False, queue="night"
    )
    ((patch,),) = got.concurrent
    assert isinstance(patch, Patch)
    assert patch.body["metadata"]["labels"] == {
        "kueue.x-k8s.io/managed": "true",
        "kueue.x-k8s.io/queue-name": "night",
    }
