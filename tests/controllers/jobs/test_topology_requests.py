"""The topology request of each kind of job: its annotations, and how the kind numbers its pods."""

import copy
from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.kueue import PodSet
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.api.volcano import job as volcano_job
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.controllers.jobframework.interface import JobKind
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobframework.topology import with_topology_requests
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.kubeflow import MPIJob
from quorate.controllers.jobs.spark import SparkApplication
from quorate.controllers.volcano.job.queued_job import VolcanoJob
from quorate.kube.patches import merged
from quorate.kube.writes import Patch
from tests.controllers.jobs.test_appwrapper import an_object, wrapped
from tests.controllers.jobs.test_ray import HEAD, a_ray_job
from tests.controllers.jobs.test_trainjob import MPI, NODE, step
from tests.controllers.jobs.test_trainjob import a_job as a_train_job
from tests.controllers.jobs.test_unstructured import a_job_set, foreign_job, replicated, with_sections
from tests.controllers.objects import a_job, template
from tests.e2e.kinds import EXAMPLES

Json = dict[str, Any]
ON = TopologyGates()
RACK = {"kueue.x-k8s.io/podset-required-topology": "rack"}
PODS: Json = {"metadata": {"annotations": RACK}, "spec": {"containers": [{"name": "main"}]}}
PLAIN: Json = {"spec": {"containers": [{"name": "main"}]}}

COMPLETION = "podIndexLabel=batch.kubernetes.io/job-completion-index"
REPLICA = "podIndexLabel=training.kubeflow.org/replica-index"
IN_JOB_SET = f"{COMPLETION} subGroupCount=2 subGroupIndexLabel=jobset.sigs.k8s.io/job-index"


def requests(kind: JobKind[Any], job: Any) -> dict[str, str]:
    """Return the request of each pod set, as ``field=value`` in the order of the fields."""
    pod_sets = with_topology_requests(kind.pod_sets(job), kind.topology_sources(job), ON)
    return {each.name: show(each) for each in pod_sets}


def show(pod_set: PodSet) -> str:
    if pod_set.topology_request is msgspec.UNSET:
        return ""
    fields = codec.to_builtins(pod_set.topology_request)
    return " ".join(f"{name}={fields[name]}" for name in sorted(fields))


def a_volcano_job(template: Json) -> volcano_job.Job:
    spec = {"queue": "q", "tasks": [{"name": "worker", "replicas": 2, "template": template}]}
    return codec.convert(
        volcano_job.Job, {"metadata": {"name": "train", "namespace": "default"}, "spec": spec}
    )


def of(name: str) -> JobKind[Any]:
    return FRAMEWORK_KINDS[name]


@pytest.mark.parametrize(
    ("kind", "job", "want"),
    [
        pytest.param(
            BatchJob(), a_job(template=template(annotations=RACK)), {"main": f"{COMPLETION} required=rack"},
            id="a Job",
        ),
        pytest.param(BatchJob(), a_job(), {"main": COMPLETION}, id="a Job without annotations"),
        pytest.param(
            of("jobset.x-k8s.io/jobset"),
            a_job_set(replicated("a", PODS, replicas=2, parallelism=3), replicated("b", PLAIN, replicas=2)),
            {"a": f"{COMPLETION} required=rack {IN_JOB_SET.partition(' ')[2]}", "b": IN_JOB_SET},
            id="a JobSet",
        ),
        pytest.param(
            of("kubeflow.org/pytorchjob"),
            foreign_job(
                {"pytorchReplicaSpecs": {"Master": {"template": PLAIN}, "Worker": {"template": PODS}}}
            ),
            {"master": REPLICA, "worker": f"{REPLICA} required=rack"}, id="a PyTorchJob",
        ),
        pytest.param(
            MPIJob(),
            foreign_job({"mpiReplicaSpecs": {"Launcher": {"template": PLAIN}, "Worker": {"template": PODS}}}),
            {"launcher": REPLICA, "worker": f"{REPLICA} required=rack"}, id="an MPIJob",
        ),
        pytest.param(
            of("ray.io/raycluster"),
            foreign_job(
                {
                    "headGroupSpec": {"template": HEAD},
                    "workerGroupSpecs": [{"groupName": "w", "template": merged(HEAD, PODS)}],
                }
            ),
            {"head": "", "w": "required=rack"}, id="a RayCluster",
        ),
        pytest.param(
            of("ray.io/rayjob"), a_ray_job(submitterPodTemplate=PODS),
            {"head": "", "workers": "", "submitter": "required=rack"}, id="a RayJob",
        ),
        pytest.param(
            of("ray.io/rayservice"), foreign_job({"rayClusterConfig": {"headGroupSpec": {"template": PODS}}}),
            {"head": "required=rack"}, id="a RayService",
        ),
        pytest.param(
            of("trainer.kubeflow.org/trainjob"),
            a_train_job(
                merged(NODE, {"template": {"spec": {"template": PODS}}}), step("launcher", ""), policy=MPI
            ),
            {
                "node": f"{COMPLETION} required=rack subGroupCount=1 "
                "subGroupIndexLabel=jobset.sigs.k8s.io/job-index",
                "launcher": f"{COMPLETION} subGroupCount=1 subGroupIndexLabel=jobset.sigs.k8s.io/job-index",
            }, id="a TrainJob",
        ),
        pytest.param(
            SparkApplication(),
            foreign_job({"driver": {"annotations": RACK}, "executor": {"template": PODS}}),
            {"driver": "required=rack", "executor": "required=rack"}, id="a SparkApplication",
        ),
        pytest.param(
            of("workload.codeflare.dev/appwrapper"),
            foreign_job(
                {
                    "components": [
                        wrapped({"apiVersion": "v1", "kind": "Pod", **PODS}),
                        wrapped(an_object("batch/v1", "Job", template=PODS)),
                        wrapped(
                            an_object("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[
                                replicated("a", PLAIN, replicas=2)
                            ])
                        ),
                        wrapped(
                            an_object(
                                "kubeflow.org/v1", "PyTorchJob",
                                pytorchReplicaSpecs={"Worker": {"template": PODS}},
                            )
                        ),
                        wrapped(
                            an_object("ray.io/v1", "RayCluster", headGroupSpec={"template": HEAD})
                        ),
                        wrapped(
                            an_object("example.com/v1", "Any", pods=PODS),
                            {
                                "path": "template.spec.pods",
                                "annotations": {
                                    "workload.codeflare.dev.appwrapper/tas-pod-index-label": "i",
                                    "workload.codeflare.dev.appwrapper/tas-sub-group-index-label": "g",
                                    "workload.codeflare.dev.appwrapper/tas-sub-group-count": "4",
                                },
                            },
                        ),
                        wrapped(
                            an_object("example.com/v1", "Any", pods=PLAIN),
                            {
                                "path": "template.spec.pods",
                                "annotations": {
                                    "workload.codeflare.dev.appwrapper/tas-sub-group-count": "many"
                                },
                            },
                        ),
                    ]
                }
            ),
            {
                "train-0": "required=rack",
                "train-1": f"{COMPLETION} required=rack",
                "train-2": IN_JOB_SET,
                "train-3": f"{REPLICA} required=rack",
                "train-4": "",
                "train-5": "podIndexLabel=i required=rack subGroupCount=4 subGroupIndexLabel=g",
                "train-6": "",
            }, id="an AppWrapper",
        ),
        pytest.param(
            VolcanoJob(), a_volcano_job(PODS),
            {"worker": "podIndexLabel=volcano.sh/task-index required=rack"}, id="a Volcano Job",
        ),
    ],
)  # fmt: skip
def test_the_request_of_each_kind(kind: JobKind[Any], job: Any, want: dict[str, str]) -> None:
    assert requests(kind, job) == want


def test_every_kind_of_the_configuration_tells_where_its_annotations_are() -> None:
    for name, kind in FRAMEWORK_KINDS.items():
        (example,) = (each for each in EXAMPLES if each.resource == kind.resource)
        job = codec.convert(kind.resource.type, document(example.spec))
        if name != "trainer.kubeflow.org/trainjob":  # needs its runtime
            paths = [source.path for source in kind.topology_sources(job)]
            assert len(paths) == len(kind.pod_sets(job)), name
            assert all(path.startswith("spec.") and path.endswith(".annotations") for path in paths), name


def document(spec: Json) -> Json:
    metadata = {"name": "train", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": copy.deepcopy(spec)}


@pytest.mark.parametrize("name", [name for name in FRAMEWORK_KINDS if "trainjob" not in name])
def test_pods_of_a_placed_job_are_gated_until_it_stops(name: str) -> None:
    kind = of(name)
    (example,) = (each for each in EXAMPLES if each.resource == kind.resource)
    body = document(example.spec)
    job = codec.convert(kind.resource.type, body)
    originals = kind.pod_sets(job)
    patches = kind.start(
        job,
        [
            PodSetInfo(name=each.name, count=each.count, scheduling_gates=(TOPOLOGY_GATE,))
            for each in originals
        ],
    )
    assert not isinstance(patches, InjectionConflict)
    started = apply(body, patches)
    assert codec.encode(started).count(b'"name":"kueue.x-k8s.io/topology"') == len(originals)
    stop = kind.stop(codec.convert(kind.resource.type, started), originals)
    stopped = apply(started, stop.patches)
    assert b"kueue.x-k8s.io/topology" not in codec.encode(stopped)
    assert kind.pod_sets(codec.convert(kind.resource.type, stopped)) == originals


def apply(body: Json, patches: tuple[Patch, ...]) -> Json:
    for patch in patches:
        if not patch.subresource:
            body = merged(body, codec.to_builtins(patch.body))
    return body


def test_a_job_set_is_gated_beside_the_gates_of_its_template() -> None:
    (patch,) = start(
        BatchJob(),
        a_job(template=template(schedulingGates=[{"name": "own"}])),
        "main",
        gates=(TOPOLOGY_GATE,),
    )
    gates = patch.body["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == [{"name": "own"}, {"name": TOPOLOGY_GATE}]


def start(kind: JobKind[Any], job: Any, *names: str, gates: tuple[str, ...]) -> tuple[Patch, ...]:
    patches = kind.start(job, [PodSetInfo(name=name, count=1, scheduling_gates=gates) for name in names])
    assert not isinstance(patches, InjectionConflict)
    return patches


def test_a_template_that_spark_needs_for_the_gate_is_removed_with_it() -> None:
    kind = SparkApplication()
    application = foreign_job({"driver": {}, "executor": {"instances": 2}, "suspend": True})
    originals = kind.pod_sets(application)
    (patch,) = start(kind, application, "driver", "executor", gates=(TOPOLOGY_GATE,))
    started = merged(application.spec, patch.body["spec"])
    assert started["executor"]["template"]["spec"] == {
        "containers": [{"name": "spark-kubernetes-executor"}],
        "schedulingGates": [{"name": TOPOLOGY_GATE}],
    }
    stop = kind.stop(with_sections(application, spec=started), originals)
    assert merged(started, stop.patches[0].body["spec"]) == application.spec


@pytest.mark.parametrize(
    ("spec", "worker", "gates", "want"),
    [
        pytest.param({"runLauncherAsWorker": True}, PODS, (TOPOLOGY_GATE,), "1", id="the launcher is rank 0"),
        pytest.param({}, PODS, (TOPOLOGY_GATE,), None, id="the launcher has no rank"),
        pytest.param({"runLauncherAsWorker": True}, PODS, (), None, id="no places"),
        pytest.param(
            {"runLauncherAsWorker": True},
            {**PODS, "metadata": {"annotations": {"kueue.x-k8s.io/pod-index-offset": "3"}}},
            (TOPOLOGY_GATE,), None, id="the user knows better",
        ),
    ],
)  # fmt: skip
def test_workers_of_an_mpi_job_are_numbered_after_a_working_launcher(
    spec: Json, worker: Json, gates: tuple[str, ...], want: str | None
) -> None:
    specs = {"Launcher": {"template": PODS}, "Worker": {"template": worker}}
    (patch,) = start(
        MPIJob(), foreign_job({"mpiReplicaSpecs": specs, **spec}), "launcher", "worker", gates=gates
    )
    added = patch.body["spec"].get("mpiReplicaSpecs", {})
    metadata = added.get("Worker", {}).get("template", {}).get("metadata", {})
    assert metadata.get("annotations", {}).get("kueue.x-k8s.io/pod-index-offset") == want
    launcher = added.get("Launcher", {}).get("template", {}).get("metadata", {})
    assert "annotations" not in launcher


def test_a_group_of_launcher_and_workers_needs_no_offset() -> None:
    grouped = {**PODS, "metadata": {"annotations": {**RACK, "kueue.x-k8s.io/podset-group-name": "g"}}}
    specs = {"Launcher": {"template": grouped}, "Worker": {"template": grouped}}
    job = foreign_job({"mpiReplicaSpecs": specs, "runLauncherAsWorker": True})
    (patch,) = start(MPIJob(), job, "launcher", "worker", gates=(TOPOLOGY_GATE,))
    assert b"pod-index-offset" not in codec.encode(patch.body)


def test_a_job_is_validated_by_the_path_of_its_template() -> None:
    wrong = {"kueue.x-k8s.io/podset-slice-size": "9", "kueue.x-k8s.io/podset-slice-required-topology": "rack"}
    job = a_job_set(replicated("a", {**PODS, "metadata": {"annotations": wrong}}))
    (finding,) = of("jobset.x-k8s.io/jobset").topology_findings(job, ON)
    assert str(finding) == (
        "spec.replicatedJobs[0].template.spec.template.metadata."
        "annotations[kueue.x-k8s.io/podset-slice-size]: '9' must not be greater than pod set count 1"
    )


def test_pod_sets_of_a_group_are_compared() -> None:
    grouped = {**PODS, "metadata": {"annotations": {**RACK, "kueue.x-k8s.io/podset-group-name": "g"}}}
    findings = of("jobset.x-k8s.io/jobset").topology_findings(a_job_set(replicated("a", grouped)), ON)
    assert [each.rule for each in findings] == [
        "can only define groups of exactly 2 pod sets, got: 1 pod set(s)"
    ]


def test_a_job_has_no_metadata_of_its_own_in_requests() -> None:
    job = msgspec.structs.replace(a_job(), metadata=ObjectMeta(name="train", annotations=RACK))
    assert isinstance(job, Job)
    assert requests(BatchJob(), job) == {"main": COMPLETION}
