"""Kinds without complete pod templates: AppWrapper and SparkApplication."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import PodSet
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.controllers.jobframework.interface import Outcome, ValidationScope
from quorate.controllers.jobframework.pod_reports import are_ready
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, read_template
from quorate.controllers.jobs.spark import SparkApplication
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.patches import merged
from tests.controllers.jobs.test_unstructured import PODS, foreign_job

WRAPPER = FRAMEWORK_KINDS["workload.codeflare.dev/appwrapper"]
WORKER = {"replicas": 2, "template": PODS}


def wrapped(template: Any, *pod_sets: Any) -> Any:
    return {"podSets": list(pod_sets), "template": template} if pod_sets else {"template": template}


def an_object(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "part"}, "spec": spec}


def sizes(*components: Any) -> dict[str, int]:
    job = foreign_job({"components": list(components)})
    return {each.name: each.count for each in WRAPPER.pod_sets(job)}


ANY = an_object("example.com/v1", "Any", list=[{"template": PODS}])


@pytest.mark.parametrize(
    ("component", "want"),
    [
        pytest.param(
            wrapped(ANY, {"replicas": 3, "path": "template.spec.list[0].template"}), 3, id="declared"
        ),
        pytest.param(wrapped({"apiVersion": "v1", "kind": "Pod", **PODS}), 1, id="a pod"),
        pytest.param(
            wrapped(an_object("apps/v1", "Deployment", replicas=4, template=PODS)), 4, id="a deployment"
        ),
        pytest.param(
            wrapped(an_object("batch/v1", "Job", parallelism=3, completions=2, template=PODS)), 2, id="a job"
        ),
        pytest.param(
            wrapped(an_object("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Worker": WORKER})),
            2,
            id="a known kind",
        ),
    ],
)
def test_a_wrapper_has_the_pod_sets_of_its_components(component: Any, want: int) -> None:
    assert sizes(component) == {"train-0": want}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("example.com:5000/train", "Always"),
        ("train:latest", "Always"),
        ("example.com:5000/train:1.2", "IfNotPresent"),
        ("train@sha256:0123", "IfNotPresent"),
    ],
)
def test_the_containers_of_a_wrapper_are_those_that_a_kueue_worker_compares(image: str, policy: str) -> None:
    container = {"name": "main", "image": image, "env": [{"name": "A", "value": "b"}], "args": ["x"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    (pod_set,) = WRAPPER.pod_sets(foreign_job({"components": [wrapped(pod)]}))
    assert read_template(pod_set.template)["spec"]["containers"] == [
        {
            "name": "main",
            "image": image,
            "args": ["x"],
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": policy,
        }
    ]


def test_components_without_pods_have_no_pod_sets() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **PODS}
    assert sizes(wrapped(an_object("v1", "Service")), wrapped(pod)) == {"train-0": 1}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param(
            "spec.template", "is 'spec.template', must lead into template", id="outside the component"
        ),
        pytest.param("template..spec", "'template..spec' is not a path", id="no path"),
        pytest.param("template.spec.list[3]", "is missing, must be a mapping", id="a path without a value"),
    ],
)
def test_an_invalid_path_is_an_invalid_template(path: str, problem: str) -> None:
    with pytest.raises(InvalidTemplate, match=problem.replace("[", r"\[")):
        sizes(wrapped(ANY, {"path": path}))


def test_an_injection_that_conflicts_with_a_component_is_refused() -> None:
    job = foreign_job({"components": [wrapped({"apiVersion": "v1", "kind": "Pod", **PODS})]})
    start = WRAPPER.start(job, [PodSetInfo(name="train-0", count=1, node_selector={"zone": "b"})])
    assert isinstance(start, InjectionConflict)


@pytest.mark.parametrize(
    ("deployed", "want"), [(True, None), (False, Outcome(success=False, message="AppWrapper failed"))]
)
def test_a_wrapper_has_failed_when_its_resources_are_deleted(deployed: bool, want: Outcome | None) -> None:
    condition = {"type": "ResourcesDeployed", "status": str(deployed), "message": ""}
    job = foreign_job({}, {"phase": "Failed", "conditions": [condition]})
    assert WRAPPER.finished(job) == want


def test_the_pods_that_an_operator_adds_to_a_component_are_counted() -> None:
    cluster = {"headGroupSpec": {"template": PODS}, "workerGroupSpecs": [], "enableInTreeAutoscaling": True}
    parts = [
        an_object("ray.io/v1", "RayJob", rayClusterSpec=cluster),
        an_object("sparkoperator.k8s.io/v1beta2", "SparkApplication", driver={}, executor={"instances": 3}),
    ]
    job = foreign_job({"components": [{"template": part} for part in parts]})
    pod_sets = {pod_set.name: pod_set for pod_set in WRAPPER.pod_sets(job)}
    assert {name: pod_set.count for name, pod_set in pod_sets.items()} == {
        "train-0": 1, "train-1": 1, "train-2": 1, "train-3": 3
    }  # fmt: skip
    names = [container["name"] for container in content(pod_sets["train-0"])["spec"]["containers"]]
    assert names[-1] == "autoscaler"
    (submitter,) = content(pod_sets["train-1"])["spec"]["containers"]
    assert submitter["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
    started = WRAPPER.start(
        job, [PodSetInfo(name=name, count=pod_set.count) for name, pod_set in pod_sets.items()]
    )
    assert not isinstance(started, InjectionConflict)
    (patch,) = started
    assert [len(component["podSetInfos"]) for component in patch.body["spec"]["components"]] == [2, 2]


def an_application(driver: Any = None, executor: Any = None, **spec: Any) -> UnstructuredJob:
    return foreign_job({"mode": "cluster", "driver": driver or {}, "executor": executor or {}, **spec})


def content(pod_set: PodSet) -> dict[str, Any]:
    return codec.decode(dict[str, Any], pod_set.template)


def resources(**fields: Any) -> Any:
    driver, _ = SparkApplication().pod_sets(an_application(driver=fields))
    return content(driver)["spec"]["containers"][0].get("resources")


def test_the_requests_of_a_driver() -> None:
    assert resources(coreRequest="500m", memory="512m", coreLimit="1", memoryLimit="1G") == {
        "requests": {"cpu": "500m", "memory": "896Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert resources(memory="2Gi", gpu={"name": "nvidia.com/gpu", "quantity": 2}) == {
        "requests": {"cpu": "1", "memory": "2432Mi"},
        "limits": {"nvidia.com/gpu": "2"},
    }


@pytest.mark.parametrize(("fields", "limit"), [({}, "1024Mi"), ({"memoryLimit": "2g"}, "2Gi")])
def test_spark_replaces_the_memory_limit_of_a_template(fields: dict[str, str], limit: str) -> None:
    limits = {"cpu": "2", "memory": "600Mi"}
    container = {"name": "spark-kubernetes-driver", "resources": {"limits": limits}}
    template = {"spec": {"containers": [container]}}
    assert resources(memory="512m", memoryOverhead="512m", template=template, **fields) == {
        "requests": {"cpu": "1", "memory": "1024Mi"},
        "limits": {"cpu": "2", "memory": limit},
    }


SSD = {"disk": "ssd"}
ZONES = {
    "spark.kubernetes.node.selector.disk": "hdd",
    "spark.kubernetes.executor.node.selector.zone": "a",
    "spark.kubernetes.driver.node.selector.zone": "b",
}


def test_the_pod_template_combines_the_template_and_the_fields_beside_it() -> None:
    container = {"name": "spark-kubernetes-executor", "image": "spark"}
    executor = {
        "instances": 3,
        "labels": {"team": "a"},
        "sidecars": [{"name": "log"}, container],
        "tolerations": [{"key": "own"}],
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "first"}, container], "tolerations": [{"key": "all"}]},
        },
        "coreRequest": "2",
    }
    _, pod_set = SparkApplication().pod_sets(
        an_application(executor=executor, nodeSelector=SSD, sparkConf=ZONES)
    )
    spec = content(pod_set)["spec"]
    assert pod_set.count == 3
    assert content(pod_set)["metadata"]["labels"] == {"app": "x", "team": "a"}
    assert [each["name"] for each in spec["containers"]] == ["first", "spark-kubernetes-executor", "log"]
    assert spec["containers"][1]["resources"] == {"requests": {"cpu": "2", "memory": "1408Mi"}}
    assert spec["nodeSelector"] == SSD | {"zone": "a"}
    assert spec["tolerations"] == [{"key": "all"}, {"key": "own"}]


GPUS = "executor.resource.gpu.amount=2 executor.resource.gpu.vendor=nvidia.com"


@pytest.mark.parametrize(
    ("fields", "properties", "spec", "want"),
    [
        pytest.param("", "", "", "2 x 1, 1408Mi", id="Spark's defaults"),
        pytest.param("memory=512m instances=1", "", "", "1 x 1, 896Mi", id="at least 384 MiB more"),
        pytest.param("memory=8g", "", "", "2 x 1, 9011Mi", id="a tenth more"),
        pytest.param("memory=8g", "", "type=Python", "2 x 1, 11468Mi", id="outside of the JVM 4 tenths"),
        pytest.param("memory=8g", "", "mainApplicationFile=a.py", "2 x 1, 11468Mi", id="a file of Python"),
        pytest.param("memory=8g", "", "type=R mainApplicationFile=x", "2 x 1, 9011Mi", id="a file of a JVM"),
        pytest.param("memory=8g", "", "memoryOverheadFactor=0.25", "2 x 1, 10240Mi", id="a stated factor"),
        pytest.param("memory=8g memoryOverhead=64m", "", "", "2 x 1, 8256Mi", id="a stated overhead"),
        pytest.param("memory=1024", "", "", "2 x 1, 1408Mi", id="a number is in MiB"),
        pytest.param("memory=2048kb memoryOverhead=1", "", "", "2 x 1, 3Mi", id="kilobytes are kibibytes"),
        pytest.param("cores=4", "", "", "2 x 4, 1408Mi", id="cores"),
        pytest.param("cores=4 coreRequest=500m", "", "", "2 x 500m, 1408Mi", id="a request of cores"),
        pytest.param(
            "", "executor.memory=2g executor.memoryOverhead=1g executor.cores=3 executor.instances=7", "",
            "7 x 3, 3072Mi", id="properties in place of the fields",
        ),
        pytest.param(
            "memory=1g memoryOverhead=1g cores=1 instances=1",
            "executor.memory=2g executor.memoryOverhead=2g executor.cores=3 executor.instances=7", "",
            "1 x 1, 2048Mi", id="fields take precedence over properties",
        ),
        pytest.param(
            "cores=4", "kubernetes.executor.request.cores=2500m driver.memory=64g", "",
            "2 x 2500m, 1408Mi", id="a property of requested cores takes precedence over cores",
        ),
        pytest.param(
            "memory=8g", "kubernetes.memoryOverheadFactor=0.5", "memoryOverheadFactor=0.25",
            "2 x 1, 12288Mi", id="the property of the common factor takes precedence over the field",
        ),
        pytest.param(
            "memory=8g", "kubernetes.memoryOverheadFactor=0.5 executor.memoryOverheadFactor=0.25", "",
            "2 x 1, 10240Mi", id="a factor of executors",
        ),
        pytest.param("", "executor.minMemoryOverhead=1g", "", "2 x 1, 2048Mi", id="a stated least overhead"),
        pytest.param(
            "memory=1g", "memory.offHeap.enabled=true memory.offHeap.size=1073741824", "",
            "2 x 1, 2432Mi", id="memory outside of the heap, in bytes",
        ),
        pytest.param(
            "", "executor.pyspark.memory=512", "mainApplicationFile=a.py", "2 x 1, 1945Mi", id="Python"
        ),
        pytest.param(
            "", "memory.offHeap.size=1g executor.pyspark.memory=1g", "", "2 x 1, 1408Mi", id="unused"
        ),
        pytest.param("", GPUS, "", "2 x 1, 1408Mi, 2 nvidia.com/gpu", id="a device"),
    ],
)  # fmt: skip
def test_executors_are_charged_what_spark_requests(
    fields: str, properties: str, spec: str, want: str
) -> None:
    executor: dict[str, Any] = _assignments(fields)
    executor |= {name: int(executor[name]) for name in ("cores", "instances") if name in executor}
    configuration = {f"spark.{name}": value for name, value in _assignments(properties).items()}
    job = an_application(executor=executor, sparkConf=configuration, **_assignments(spec))
    _, executors = SparkApplication().pod_sets(job)
    (container,) = content(executors)["spec"]["containers"]
    requests, limits = container["resources"]["requests"], container["resources"].get("limits", {})
    devices = "".join(f", {amount} {name}" for name, amount in limits.items())
    assert f"{executors.count} x {requests['cpu']}, {requests['memory']}{devices}" == want


def _assignments(text: str) -> dict[str, str]:
    return dict(item.split("=") for item in text.split())


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"executor": {"memory": "much"}}, "spec.executor.memory: 'much' is not a quantity"),
        ({"sparkConf": {"spark.driver.memory": "x"}}, "spec.sparkConf.spark.driver.memory: 'x' is not"),
        ({"sparkConf": {"spark.executor.instances": "x"}}, "instances: is 'x', must be a whole number"),
        ({"memoryOverheadFactor": "some"}, "spec.memoryOverheadFactor: is 'some', not a decimal number"),
    ],
)  # fmt: skip
def test_a_setting_that_is_no_amount_is_an_invalid_template(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidTemplate, match=problem):
        SparkApplication().pod_sets(an_application(**spec))


DYNAMIC = {"enabled": True, "initialExecutors": 3, "minExecutors": 1}


def test_an_application_with_dynamic_allocation_needs_quota_for_the_most_executors() -> None:
    def executors(**dynamic: Any) -> int:
        job = an_application(executor={"instances": 2}, dynamicAllocation=dynamic, sparkConf=properties)
        return SparkApplication().pod_sets(job)[1].count

    properties: dict[str, str] = {}

    assert executors(enabled=False, maxExecutors=8) == 2
    assert executors(**DYNAMIC, maxExecutors=8) == 8
    assert executors(**DYNAMIC, maxExecutors=1) == 3
    with pytest.raises(InvalidTemplate, match=r"spec.dynamicAllocation.maxExecutors: is missing"):
        executors(**DYNAMIC)
    properties["spark.dynamicAllocation.maxExecutors"] = "6"
    assert (executors(**DYNAMIC), executors(**DYNAMIC, maxExecutors=8), executors()) == (6, 8, 2)
    properties["spark.dynamicAllocation.enabled"] = "true"
    assert (executors(), executors(maxExecutors=8)) == (
        6,
        6,
    )  # the operator passes only an enabled allocation


ON_FAILURE = {"type": "OnFailure", "onFailureRetries": 2, "onSubmissionFailureRetries": 1}


@pytest.mark.parametrize(
    ("policy", "status", "finished"),
    [
        pytest.param(ON_FAILURE, {"submissionAttempts": 1}, False, id="submitted again"),
        pytest.param(ON_FAILURE, {"submissionAttempts": 2}, True, id="no retry is left"),
        pytest.param(ON_FAILURE, {}, False, id="attempts are not counted yet"),
        pytest.param({"type": "OnFailure"}, {}, True, id="no retry is allowed"),
        pytest.param({"type": "Always"}, {"submissionAttempts": 9}, False, id="for ever"),
        pytest.param({"type": "Never", "onSubmissionFailureRetries": 3}, {}, True, id="never"),
        pytest.param({}, {}, True, id="no policy"),
    ],
)
def test_a_failed_submission_that_is_retried_is_not_the_end(
    policy: dict[str, Any], status: dict[str, Any], finished: bool
) -> None:
    state = {"applicationState": {"state": "SUBMISSION_FAILED"}}
    job = foreign_job(an_application(restartPolicy=policy).spec, state | status)
    assert (SparkApplication().finished(job) is not None) is finished


def test_an_application_that_has_failed_is_retried_as_often_as_its_policy_allows() -> None:
    def finished(attempts: int) -> bool:
        status = {"applicationState": {"state": "FAILED"}, "executionAttempts": attempts}
        job = foreign_job(an_application(restartPolicy=ON_FAILURE).spec, status)
        return SparkApplication().finished(job) is not None

    assert [finished(1), finished(2), finished(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("state", "active"),
    [
        ("RUNNING", True),
        ("RESUMING", True),
        ("PENDING_RERUN", True),
        ("SUSPENDING", True),
        ("SUSPENDED", False),
    ],
)
def test_an_application_holds_capacity_until_it_is_suspended(state: str, active: bool) -> None:
    status = {"applicationState": {"state": state}}
    assert SparkApplication().is_active(foreign_job(an_application().spec, status)) is active


def test_an_application_is_ready_when_all_executors_run() -> None:
    def ready(*states: str) -> bool:
        executors = {f"exec-{number}": state for number, state in enumerate(states)}
        job = an_application(executor={"instances": 2})
        status = {"applicationState": {"state": "RUNNING"}, "executorState": executors}
        return are_ready(SparkApplication().pod_counts(foreign_job(job.spec, status)))

    assert [ready(), ready("RUNNING", "PENDING"), ready("RUNNING", "COMPLETED")] == [False, False, True]


def test_with_dynamic_allocation_the_minimum_of_executors_must_run() -> None:
    """Spark ends executors that have nothing to do, and removes them from the status."""

    def ready(**dynamic: Any) -> bool:
        allocation = {"enabled": True, **dynamic}
        job = an_application(executor={"instances": 4}, dynamicAllocation=allocation)
        status = {"applicationState": {"state": "RUNNING"}, "executorState": {"exec-1": "RUNNING"}}
        return SparkApplication().reports_ready(foreign_job(job.spec, status))

    assert [ready(minExecutors=1), ready(minExecutors=2), ready(), ready(enabled=False)] == [
        True, False, False, False
    ]  # fmt: skip


def test_client_mode_and_dynamic_allocation_are_refused() -> None:
    job = an_application(mode="client", dynamicAllocation={"enabled": True})
    found = [
        str(each)
        for each in SparkApplication().findings(None, job, ValidationScope(queued=True, elastic=False))
    ]
    assert found == [
        "spec.mode: 'client' only Cluster mode is supported for a kueue managed job",
        "spec.dynamicAllocation.enabled: true a kueue managed job should not use dynamicAllocation: "
        "its executors are admitted together",
    ]


@pytest.mark.parametrize(
    ("admitted", "running", "want"),
    [
        pytest.param({}, {}, {"image": "spark"}, id="the number was absent"),
        pytest.param(
            {"instances": 3}, {"instances": 2}, {"instances": 3, "image": "spark"}, id="as admitted"
        ),
    ],
)
def test_a_stop_restores_the_number_of_executors(
    admitted: dict[str, int], running: dict[str, int], want: dict[str, Any]
) -> None:
    originals = SparkApplication().pod_sets(an_application(executor={**admitted, "image": "spark"}))
    job = an_application(executor={**running, "image": "spark"}, suspend=False)
    (stop,) = SparkApplication().stop(job, originals).patches
    assert merged(job.spec, stop.body["spec"])["executor"] == want


def test_driver_and_executors_with_a_common_node_selector_may_have_two_flavors() -> None:
    kind = SparkApplication()
    job = an_application(nodeSelector={"disk": "ssd"}, suspend=True)
    originals = kind.pod_sets(job)
    infos = [PodSetInfo(name=name, count=1, node_selector={"pool": name}) for name in ("driver", "executor")]
    plan = kind.start(job, infos)
    assert not isinstance(plan, InjectionConflict)
    started = merged(job.spec, plan[0].body["spec"])
    assert "nodeSelector" not in started  # the operator refuses it beside the others
    for name in ("driver", "executor"):
        assert started[name]["nodeSelector"] == {"disk": "ssd", "pool": name}
    running = foreign_job(started)
    stopped = foreign_job(merged(started, kind.stop(running, originals).patches[0].body["spec"]))
    assert kind.pod_sets(stopped) == originals


@pytest.mark.parametrize("per_component", [1, 19])
def test_a_wrapper_has_at_most_the_pod_sets_of_a_workload(per_component: int) -> None:
    entry = {"replicas": 1, "path": "template.spec.list[0].template"}
    assert len(sizes(*[wrapped(ANY, entry)] * 18)) == 18
    with pytest.raises(InvalidTemplate, match="makes more than the 18 pod sets of a workload"):
        sizes(*[wrapped(ANY, *[entry] * per_component)] * (19 // per_component))
