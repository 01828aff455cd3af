"""How a job starts: what it needs, and what is injected into its pod templates."""

from typing import Any

import msgspec

from quorate.api.configuration.feature_gates import Gates
from quorate.api.core import Toleration
from quorate.api.kueue import (
    AdmissionCheckState,
    PodSetUpdate,
    WorkloadStatus,
)
from quorate.api.meta import Key
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan
from quorate.controllers.jobframework.podset_info import Membership
from quorate.kube.writes import Patch
from tests.controllers.jobframework.plans import (
    events,
    plan,
    reasons,
    show,
    written,
)
from tests.controllers.objects import a_job, a_workload, template


def test_an_admitted_job_starts_with_the_fields_of_its_flavor() -> None:
    got = plan(a_job(), a_workload(admitted_to=["spot"]))
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert patch.body == {
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {
                    "labels": {
                        "kueue.x-k8s.io/podset": "main",
                        "kueue.x-k8s.io/local-queue-name": "queue",
                        "kueue.x-k8s.io/cluster-queue-name": "research",
                    },
                    "annotations": {"kueue.x-k8s.io/workload": "job-train-e4af4"},
                },
                "spec": {"nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot"}]},
            },
        }
    }
    (event,) = events(got)
    assert (event.reason, event.message) == ("Started", "Admitted by clusterQueue research")


def test_a_queue_name_that_is_not_a_label_value_is_not_injected() -> None:
    workload = a_workload(admitted_to=["spot"], queue="a.dotted.name")
    job = a_job(queue="a.dotted.name")
    (patch,) = plan(job, workload).writes
    assert isinstance(patch, Patch)
    labels = patch.body["spec"]["template"]["metadata"]["labels"]
    assert sorted(labels) == ["kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/podset"]


def test_a_job_that_conflicts_with_its_flavor_fails_to_start() -> None:
    job = a_job(template=template(nodeSelector={"pool": "dear"}))
    got = plan(job, a_workload(admitted_to=["spot"]))
    assert show(got) == ["patch Workload/status status.conditions"]
    assert written(got, "Finished") == (
        "True",
        "FailedToStart",
        "pod set main: nodeSelector[pool] is 'dear' in the pod template "
        "but 'spot' is required where it was admitted",
    )


def test_a_job_waits_for_a_missing_flavor() -> None:
    got = plan(a_job(), a_workload(admitted_to=["spot"]), flavors=[])
    assert got == JobPlan(missing_dependency="ResourceFlavor spot doesn't exist")


def test_the_condition_admitted_without_an_admission_starts_nothing() -> None:
    got = plan(a_job(), a_workload("QuotaReserved", "Admitted"))
    assert got.writes == ()
    (event,) = events(got)
    assert (event.type, event.reason) == ("Warning", "NotStarted")
    assert event.message == (
        "workload default/job-train-e4af4: status.admission: nothing while the condition Admitted is True, "
        "but says where the pods run (leave the condition to the controllers, or write both)"
    )


def test_an_admission_without_a_pod_set_fails_to_start() -> None:
    admitted = a_workload(admitted_to=["spot"])
    assert admitted.status.admission is not None
    short = msgspec.structs.replace(admitted.status.admission, pod_set_assignments=())
    status = msgspec.structs.replace(admitted.status, admission=short)
    got = plan(a_job(), msgspec.structs.replace(admitted, status=status))
    status_, reason, message = written(got, "Finished")
    assert (status_, reason) == ("True", "FailedToStart")
    assert "podSetAssignments: 0 for 1 pod sets" in message


def started_with(**update: Any) -> JobPlan:
    check = AdmissionCheckState(
        name="prov", state="Ready", pod_set_updates=(PodSetUpdate(name="main", **update),)
    )
    admitted = a_workload(admitted_to=["spot"], status=WorkloadStatus(admission_checks=(check,)))
    return plan(a_job(), admitted)


def test_a_job_starts_with_the_updates_of_its_checks() -> None:
    got = started_with(
        labels={"l": "1"}, annotations={"a": "2"}, node_selector={"zone": "b"},
        tolerations=(Toleration(key="spot"), Toleration(key="new")),
    )  # fmt: skip
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    template = patch.body["spec"]["template"]
    assert template["metadata"]["labels"]["l"] == "1"
    assert template["metadata"]["annotations"]["a"] == "2"
    assert template["spec"]["nodeSelector"] == {"pool": "spot", "zone": "b"}
    assert [each["key"] for each in template["spec"]["tolerations"]] == ["spot", "new"]


def test_a_check_that_conflicts_with_the_flavor_fails_the_start() -> None:
    _, reason, message = written(started_with(node_selector={"pool": "dear"}), "Finished")
    assert reason == "FailedToStart"
    assert message == (
        "pod set main: nodeSelector[pool]: 'dear' is wanted by admission check prov, "
        "but 'spot' already where it was admitted"
    )


def test_pods_have_labels_of_their_queues_with_the_gate() -> None:
    labelled, bare = (
        plan(
            a_job(),
            a_workload(admitted_to=["spot"]),
            options=JobOptions(gates=Gates(assign_queue_labels_for_pods=on)),
        )
        for on in (True, False)
    )
    names = [
        sorted(write.body["spec"]["template"]["metadata"]["labels"])
        for got in (labelled, bare)
        for write in got.writes
        if isinstance(write, Patch)
    ]
    assert names == [
        ["kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/local-queue-name", "kueue.x-k8s.io/podset"],
        ["kueue.x-k8s.io/podset"],
    ]


def test_a_job_in_a_pod_group_starts_when_quota_and_group_are_admitted() -> None:
    group = Key("default", "podgroup-1")
    pending = plan(a_job(), a_workload(admitted_to=["spot"]), membership=Membership(group, admitted=False))
    assert (show(pending), reasons(pending)) == ([], ["PodGroupPending"])
    starts = plan(a_job(), a_workload(admitted_to=["spot"]), membership=Membership(group, admitted=True))
    (patch,) = starts.writes
    assert isinstance(patch, Patch)
    annotations = patch.body["spec"]["template"]["metadata"]["annotations"]
    assert annotations["scheduling.k8s.io/group-name"] == "podgroup-1"
    assert reasons(starts) == ["Started"]


def test_a_job_waits_admitted_while_its_pod_group_is_pending_again() -> None:
    suspended_again = a_job(status={"active": 0, "startTime": "2024-01-01T00:00:00Z"})
    group = Membership(Key("default", "podgroup-1"), admitted=False)
    assert show(plan(suspended_again, a_workload(admitted_to=["spot"]), membership=group)) == []
