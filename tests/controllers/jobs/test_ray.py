"""Kinds of KubeRay: their pods including those that KubeRay adds, and their validation."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from quorate.api.batch import decode_template
from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import PodSet
from quorate.api.meta import Key
from quorate.api.names.kueue import ELASTIC_JOB
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.controllers.jobframework.interface import JobState, ValidationScope
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.ray import RAY_CLUSTERS, RayCluster, RayService
from quorate.controllers.jobs.rayjob import RayJob
from quorate.controllers.jobs.unstructured import ReferencedObject, UnstructuredJob, UnstructuredJobKind
from quorate.kube.patches import merged
from tests.controllers.jobs.test_unstructured import MANAGED, foreign_job, with_sections

UPGRADES = (
    "spec.upgradeStrategy.type: '' would start a second cluster, for which there is no quota (write None, or "
    'make the service elastic by the annotation kueue.x-k8s.io/elastic-job: "true")'
)
HEAD = {"spec": {"containers": [{"name": "ray", "image": "ray:2"}]}}
CLUSTER: dict[str, Any] = {
    "headGroupSpec": {"template": HEAD},
    "workerGroupSpecs": [{"groupName": "Workers", "replicas": 3, "numOfHosts": 2, "template": HEAD}],
}


def a_cluster(annotations: Mapping[str, str] | None = None, **fields: Any) -> UnstructuredJob:
    job = foreign_job(copy.deepcopy({**CLUSTER, **fields}))
    metadata = msgspec.structs.replace(job.metadata, annotations=annotations or {})
    return msgspec.structs.replace(job, metadata=metadata)


def a_ray_job(cluster: Mapping[str, Any] | None = None, **spec: Any) -> UnstructuredJob:
    spec = {
        "suspend": True,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {**CLUSTER, **(cluster or {})},
    } | spec
    return foreign_job(copy.deepcopy(spec))


def a_service(**cluster: Any) -> UnstructuredJob:
    return foreign_job(copy.deepcopy({"rayClusterConfig": {**CLUSTER, **cluster}}))


def with_child(
    job: UnstructuredJob, status: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], elastic: bool = True
) -> UnstructuredJob:
    """Return an elastic job, and the worker groups of the RayCluster that KubeRay made for it."""
    annotations = {ELASTIC_JOB: "true"} if elastic else {}
    metadata = msgspec.structs.replace(job.metadata, annotations=annotations, generation=4)
    job = with_sections(msgspec.structs.replace(job, metadata=metadata), status=dict(status))
    return msgspec.structs.replace(job, referenced_spec={"workerGroupSpecs": groups}, referenced_generation=7)


SCALED = [{"groupName": "Workers", "replicas": 5, "numOfHosts": 2}]
JOB_STATUS = {"rayClusterName": "train-x"}
SERVICE_STATUS = {"activeServiceStatus": {"rayClusterName": "train-x"}}


@pytest.mark.parametrize(
    ("kind", "job", "status"),
    [
        pytest.param(
            RayJob(),
            a_ray_job({"enableInTreeAutoscaling": True}, submissionMode="HTTPMode"),
            JOB_STATUS,
            id="job",
        ),
        pytest.param(RayService(), a_service(enableInTreeAutoscaling=True), SERVICE_STATUS, id="service"),
    ],
)
def test_an_autoscaler_changes_the_size_of_the_child_cluster(
    kind: UnstructuredJobKind, job: UnstructuredJob, status: dict[str, Any]
) -> None:
    scaled = with_child(job, status, SCALED)
    assert kind.referenced_object(scaled) == ReferencedObject(RAY_CLUSTERS, Key("default", "train-x"))
    assert sizes(kind, scaled) == {"head": 1, "workers": 10}
    assert sizes(kind, with_child(job, status, [{"groupName": "workers"}])) == {"head": 1, "workers": 6}
    assert kind.pods_label(scaled) == ("ray.io/cluster", "train-x")
    assert kind.size_version(scaled) == "4_7"
    with pytest.raises(InvalidTemplate, match="lacks group 'other' of the RayCluster"):
        kind.pod_sets(with_child(job, status, [{"groupName": "other", "replicas": 1}]))
    for fixed in (job, with_child(job, status, SCALED, elastic=False), with_child(job, {}, SCALED)):
        assert kind.referenced_object(fixed) is None
    assert kind.pods_label(job) == ("ray.io/cluster", "")
    assert kind.size_version(job) == "0"


def test_the_templates_of_an_elastic_ray_job_are_gated_but_not_its_submitter() -> None:
    kind, job = RayJob(), a_ray_job()
    (patch,) = kind.gate(job)
    gated = merged(job.spec, patch.body["spec"])
    cluster = gated["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["spec"]["schedulingGates"] == [{"name": ELASTIC_JOB}]
    assert "submitterPodTemplate" not in gated
    assert kind.is_gated(foreign_job(gated))
    assert not kind.is_gated(job)


def requested_by_containers(pod_set: PodSet) -> list[str]:
    """Return the containers of one pod as ``name: cpu memory``."""
    containers = decode_template(pod_set.template).spec.containers
    return [
        " ".join(
            [
                f"{each.name}:",
                *(str(each.resources.requests[name]) for name in sorted(each.resources.requests)),
            ]
        )
        for each in containers
    ]


def sizes(kind: UnstructuredJobKind, job: UnstructuredJob) -> dict[str, int]:
    return {each.name: each.count for each in kind.pod_sets(job)}


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param({"replicas": 3, "numOfHosts": 2}, 6, id="all hosts of all replicas"),
        pytest.param({}, 1, id="one by default"),
        pytest.param({"replicas": 0, "minReplicas": 3, "numOfHosts": 2}, 6, id="at least the minimum"),
        pytest.param({"replicas": 5, "minReplicas": 0, "maxReplicas": 2}, 2, id="at most the maximum"),
        pytest.param({"replicas": 5, "minReplicas": 3, "suspend": True}, 0, id="none of a suspended group"),
    ],
)
def test_the_pods_of_a_worker_group(group: dict[str, Any], want: int) -> None:
    job = a_cluster(workerGroupSpecs=[{"groupName": "w", "template": HEAD, **group}])
    assert sizes(RayCluster(), job) == {"head": 1, "w": want}


def requesting(**requests: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", "resources": {"requests": requests}}]}}


@pytest.mark.parametrize(
    ("requests", "waiting"),
    [
        pytest.param({"cpu": "1", "memory": "1Gi"}, [], id="the worker requests more"),
        pytest.param({"cpu": "100m", "memory": "1Gi"}, [{"cpu": "200m"}], id="less of one"),
        pytest.param({"cpu": "50m", "memory": "1Mi"}, [{"cpu": "200m", "memory": "256Mi"}], id="less"),
        pytest.param({"nvidia.com/gpu": "1"}, [], id="neither"),
    ],
)
def test_a_worker_requests_at_least_as_much_as_the_container_that_waits_for_the_head(
    requests: dict[str, str], waiting: list[dict[str, str]]
) -> None:
    job = a_cluster(workerGroupSpecs=[{"groupName": "w", "template": requesting(**requests)}])
    template = decode_template(RayCluster().pod_sets(job)[1].template)
    assert [
        {name: str(amount) for name, amount in each.resources.requests.items()}
        for each in template.spec.init_containers
    ] == waiting


def test_the_collector_of_the_history_server_is_in_all_pods() -> None:
    job = a_cluster(historyServerOptions={"collectorOptions": {}}, enableInTreeAutoscaling=True)
    head, workers = map(requested_by_containers, RayCluster().pod_sets(job))
    assert sorted(head) == ["autoscaler: 500m 512Mi", "collector: 50m 64Mi", "ray:"]
    assert workers == ["ray:", "collector: 50m 64Mi"]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(a_cluster(), ["ray:"], id="as specified"),
        pytest.param(
            a_cluster(enableInTreeAutoscaling=True),
            ["ray:", "autoscaler: 500m 512Mi"],
            id="with an autoscaler",
        ),
        pytest.param(
            a_cluster(
                enableInTreeAutoscaling=True,
                autoscalerOptions={"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            ),
            ["ray:", "autoscaler: 1 1Gi"],
            id="with the resources of the autoscaler",
        ),
        pytest.param(a_cluster(gcsFaultToleranceOptions={}), ["ray: 200m 256Mi"], id="with state in Redis"),
        pytest.param(
            a_cluster({"ray.io/ft-enabled": "True"}),
            ["ray: 200m 256Mi"],
            id="with state in Redis by annotation",
        ),
    ],
)
def test_containers_that_kuberay_adds_to_the_head_are_counted(job: UnstructuredJob, want: list[str]) -> None:
    assert requested_by_containers(RayCluster().pod_sets(job)[0]) == want


def test_the_head_requests_at_least_as_much_as_the_redis_cleanup() -> None:
    head = requesting(cpu="2", memory="1Mi")
    job = a_cluster(gcsFaultToleranceOptions={}, headGroupSpec={"template": head})
    assert requested_by_containers(RayCluster().pod_sets(job)[0]) == ["ray: 2 256Mi"]


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param(
            {}, {"head": ["ray:"], "submitter": ["ray-job-submitter: 500m 200Mi"]}, id="submitted by a job"
        ),
        pytest.param(
            {"submissionMode": "SidecarMode"},
            {"head": ["ray:", "ray-job-submitter: 500m 200Mi"]},
            id="submitted by a sidecar of the head",
        ),
        pytest.param({"submissionMode": "HTTPMode"}, {"head": ["ray:"]}, id="submitted over HTTP"),
        pytest.param(
            {"submitterPodTemplate": {"spec": {"containers": [{"name": "mine"}]}}},
            {"head": ["ray:"], "submitter": ["mine:"]},
            id="with a submitter template",
        ),
    ],
)
def test_the_submitter_is_counted(mode: dict[str, Any], want: dict[str, list[str]]) -> None:
    pod_sets = RayJob().pod_sets(a_ray_job(**mode))
    assert {each.name: requested_by_containers(each) for each in pod_sets if each.name != "workers"} == want


def test_the_default_submitter_is_written_at_the_start_and_removed_at_the_stop() -> None:
    kind, job = RayJob(), a_ray_job()
    originals = kind.pod_sets(job)
    infos = [
        PodSetInfo(name=each.name, count=each.count, labels={"queue": "q"}, node_selector={"pool": "spot"})
        for each in originals
    ]
    start = kind.start(job, infos)
    assert not isinstance(start, InjectionConflict)
    running = merged(job.spec, start[0].body["spec"])
    submitter = running["submitterPodTemplate"]
    assert submitter["spec"]["nodeSelector"] == {"pool": "spot"}
    assert submitter["spec"]["containers"][0]["image"] == "ray:2", "the image of the head"
    (stop,) = kind.stop(foreign_job(running), originals).patches
    restored = merged(running, stop.body["spec"])
    assert "submitterPodTemplate" not in restored
    assert not restored["rayClusterSpec"]["headGroupSpec"]["template"]["spec"].get("nodeSelector")


@pytest.mark.parametrize(("reason", "on_hold"), [("ValidationFailed", True), ("Initializing", False)])
def test_a_service_that_kuberay_refuses_is_on_hold(reason: str, on_hold: bool) -> None:
    ready = {"type": "Ready", "status": "False", "reason": reason}
    service = with_sections(a_service(suspend=False), status={"conditions": [ready]})
    state = JobState.of(RayService(), service, MANAGED, JobOptions(), now=0.0)
    assert state.kind.is_on_hold(state) == on_hold


def test_a_job_that_selects_a_cluster_is_skipped() -> None:
    job = a_ray_job(clusterSelector={"ray.io/cluster": "shared"}, suspend=False)
    assert decide(RayJob(), job, (), MANAGED, JobOptions(), now=0.0) == IDLE


@pytest.mark.parametrize(
    ("kind", "job", "elastic", "want"),
    [
        pytest.param(RayCluster(), a_cluster(), False, [], id="a valid cluster"),
        pytest.param(
            RayCluster(), a_cluster(enableInTreeAutoscaling=True), False,
            ["spec.enableInTreeAutoscaling: true a kueue managed job should only use autoscaling when "
             "workload slicing is enabled"], id="a cluster with an autoscaler",
        ),
        pytest.param(
            RayCluster(), a_cluster(enableInTreeAutoscaling=True), True, [], id="elastic with autoscaler"
        ),
        pytest.param(
            RayCluster(), a_cluster(enableInTreeAutoscaling=True, managedBy=MULTIKUEUE), True,
            ["spec.enableInTreeAutoscaling: true in-tree autoscaling is not supported for a "
             "MultiKueue-managed elastic RayCluster"],
            id="elastic with autoscaler in a worker cluster",
        ),
        pytest.param(
            RayCluster(), a_cluster(workerGroupSpecs=[{"groupName": "head", "template": HEAD}]), False,
            ["spec.workerGroupSpecs[0].groupName: 'head' is reserved for the head group"], id="group head",
        ),
        pytest.param(
            RayCluster(), a_cluster(workerGroupSpecs=[{"groupName": f"g{i}"} for i in range(18)]), False,
            ["spec.workerGroupSpecs: 18 make 19 pod sets with the head, more than the 18 of a workload"],
            id="more worker groups than pod sets of a workload",
        ),
        pytest.param(RayJob(), a_ray_job(), False, [], id="a valid job"),
        pytest.param(
            RayJob(), a_ray_job({"enableInTreeAutoscaling": True}), True, [],
            id="an elastic job with an autoscaler",
        ),
        pytest.param(
            RayService(), a_service(enableInTreeAutoscaling=True), True, [],
            id="an elastic service with an autoscaler",
        ),
        pytest.param(
            RayService(), a_service(enableInTreeAutoscaling=True), False,
            ["spec.rayClusterConfig.enableInTreeAutoscaling: true a kueue managed job should only use "
             "autoscaling when workload slicing is enabled", UPGRADES], id="a service with an autoscaler",
        ),
        pytest.param(
            RayJob(), a_ray_job({"enableInTreeAutoscaling": True}), False,
            ["spec.rayClusterSpec.enableInTreeAutoscaling: true a kueue managed job should only use "
             "autoscaling when workload slicing is enabled"], id="a job with an autoscaler",
        ),
        pytest.param(
            RayJob(), a_ray_job(clusterSelector={"a": "b"}), False,
            ['spec.clusterSelector: {"a": "b"} a kueue managed job should not use an existing cluster'],
            id="a cluster spec and a cluster selector",
        ),
        pytest.param(
            RayJob(), a_ray_job(clusterSelector={"a": "b"}, rayClusterSpec=None), False, [],
            id="a cluster selector",
        ),
        pytest.param(
            RayJob(), a_ray_job(rayClusterSpec=None), False,
            ["spec.rayClusterSpec: null rayClusterSpec is required for Kueue-managed jobs that don't use "
             "clusterSelector"], id="no cluster",
        ),
        pytest.param(
            RayJob(), a_ray_job({"enableInTreeAutoscaling": True}, shutdownAfterJobFinishes=False), False,
            ["spec.shutdownAfterJobFinishes: false a kueue managed job should delete the cluster after "
             "finishing",
             "spec.rayClusterSpec.enableInTreeAutoscaling: true a kueue managed job should only use "
             "autoscaling when workload slicing is enabled"], id="all findings at once",
        ),
    ],
)  # fmt: skip
def test_findings(kind: UnstructuredJobKind, job: UnstructuredJob, elastic: bool, want: list[str]) -> None:
    assert [
        str(each) for each in kind.findings(None, job, ValidationScope(queued=True, elastic=elastic))
    ] == want
    assert list(kind.findings(None, job, ValidationScope(queued=False, elastic=elastic))) == []


@pytest.mark.parametrize(
    ("strategy", "elastic", "gate", "want"),
    [
        pytest.param({}, False, True, [UPGRADES], id="the default of KubeRay starts a second cluster"),
        pytest.param({"type": "None"}, False, True, [], id="no upgrade"),
        pytest.param(
            {"type": "NewCluster"},
            False,
            True,
            [UPGRADES.replace("''", "'NewCluster'")],
            id="a second cluster",
        ),
        pytest.param({"type": "NewCluster"}, True, True, [], id="elastic"),
        pytest.param({"type": "NewCluster"}, False, False, [], id="without the gate"),
    ],
)
def test_a_queued_service_starts_no_second_cluster(
    strategy: dict[str, str], elastic: bool, gate: bool, want: list[str]
) -> None:
    service = foreign_job({"rayClusterConfig": copy.deepcopy(CLUSTER), "upgradeStrategy": strategy})
    scope = ValidationScope(queued=True, elastic=elastic, upgrade_strategy=gate)
    assert [str(each) for each in RayService().findings(None, service, scope)] == want
    delegated = foreign_job({**service.spec, "managedBy": MULTIKUEUE})
    assert not [*RayService().findings(None, delegated, scope)], "its worker cluster validates the copy"
