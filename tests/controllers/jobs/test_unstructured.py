"""Kinds of other projects: the pod sets of a JobSet, and objects that cannot be read."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration.integrations import FRAMEWORKS
from quorate.api.field_path import InvalidTemplate
from quorate.controllers.executor import warning_event
from quorate.controllers.integrations import INTEGRATIONS
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.jobset import JobSet
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.resources import Json
from quorate.kube.writes import Patch
from tests.controllers.objects import a_workload

PODS: dict[str, Any] = {
    "spec": {"containers": [{"name": "main", "image": "busybox"}], "nodeSelector": {"zone": "a"}}
}
TEMPLATE_PATH = "spec.replicatedJobs[0].template.spec.template"
MANAGED = ReconcileContext(namespace_managed=True, flavors={}, workload_classes={}, pod_classes={})


def with_sections(job: UnstructuredJob, **sections: Json) -> UnstructuredJob:
    """Return ``job`` with another ``spec`` or ``status``."""
    encoded = {f"encoded_{name}": msgspec.Raw(codec.encode(value)) for name, value in sections.items()}
    return msgspec.structs.replace(job, **encoded)


def foreign_job(spec: Any, status: Any = None) -> UnstructuredJob:
    metadata = {
        "name": "train",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"kueue.x-k8s.io/queue-name": "queue"},
    }
    return codec.convert(UnstructuredJob, {"metadata": metadata, "spec": spec, "status": status or {}})


def replicated(name: str = "workers", template: Any = PODS, **fields: Any) -> dict[str, Any]:
    job = {key: fields.pop(key) for key in ("parallelism", "completions") if key in fields}
    return {"name": name, "template": {"spec": {**job, "template": template}}, **fields}


def a_job_set(*jobs: Any, status: Any = None, suspend: bool = True) -> UnstructuredJob:
    return foreign_job({"suspend": suspend, "replicatedJobs": list(jobs)}, status)


def test_every_framework_of_the_configuration_is_in_the_table() -> None:
    assert {*INTEGRATIONS} == {*FRAMEWORKS}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, 1, id="one pod by default"),
        pytest.param({"replicas": 3}, 3, id="one pod in each child job"),
        pytest.param({"replicas": 3, "parallelism": 2}, 6, id="parallel pods"),
        pytest.param(
            {"replicas": 3, "parallelism": 4, "completions": 2}, 6, id="not more than the completions"
        ),
        pytest.param({"replicas": 0}, 0, id="none"),
    ],
)
def test_the_pods_of_a_replicated_job(fields: dict[str, Any], want: int) -> None:
    (pod_set,) = JobSet().pod_sets(a_job_set(replicated(**fields)))
    assert pod_set.count == want


WITHOUT_CONTAINERS: list[dict[str, Any]] = [{}, {"containers": None}, {"containers": []}]


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        pytest.param(
            a_job_set({"name": "workers"}),
            f"{TEMPLATE_PATH}: is missing, must be a mapping",
            id="no pod template",
        ),
        pytest.param(a_job_set(), "spec: asks for no pods", id="no pods"),
        pytest.param(
            a_job_set(replicated(replicas="many")),
            "spec.replicatedJobs[0].replicas: is 'many', must be a whole number",
            id="not a number",
        ),
        pytest.param(
            a_job_set(replicated("A B")),
            f"{TEMPLATE_PATH}: belongs to 'A B', which cannot be the name of a pod set",
            id="no name",
        ),
        pytest.param(
            a_job_set(replicated(), replicated()),
            "spec.replicatedJobs[1].template.spec.template: "
            "belongs to 'workers', the name of another pod set, too",
            id="two pod sets with one name",
        ),
        pytest.param(
            a_job_set(replicated(template={"spec": {"containers": 3}})),
            f"{TEMPLATE_PATH}: is no pod template: Expected `array`, got `int` - at `$.spec.containers`",
            id="a mapping that is no pod template",
        ),
        pytest.param(
            a_job_set(replicated(replicas=50_000, parallelism=50_000)),
            f"{TEMPLATE_PATH}: is that of 2500000000 pods, must be of at most 2147483647",
            id="more pods than a workload can state",
        ),
        *(
            pytest.param(
                a_job_set(replicated(template={"spec": spec})),
                f"{TEMPLATE_PATH}.spec.containers: has no container",
                id=f"pods without containers: {spec}",
            )
            for spec in WITHOUT_CONTAINERS
        ),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_read_only_gets_an_event(job: UnstructuredJob, problem: str) -> None:
    plan = decide(JobSet(), job, (), MANAGED, JobOptions(), now=0.0)
    assert plan == JobPlan(events=(warning_event(JobSet().reference(job), "ErrWorkloadCompose", problem),))


@pytest.mark.parametrize(
    ("suspended", "status", "want"),
    [
        pytest.param(False, {}, [{"spec": {"suspend": True}}], id="is stopped"),
        pytest.param(True, {"replicatedJobsStatus": [{"name": "a", "active": 1}]}, [], id="has pods"),
        pytest.param(True, {}, ["released"], id="releases its quota"),
    ],
)
def test_an_evicted_job_that_cannot_be_read_is_stopped(
    suspended: bool, status: dict[str, Any], want: list[Any]
) -> None:
    job = a_job_set(replicated(replicas="many"), suspend=suspended, status=status)
    workload = a_workload("Evicted", admitted_to=["spot"])
    plan = decide(JobSet(), job, [workload], MANAGED, JobOptions(), now=0.0)
    patches = [write for write in plan.writes if isinstance(write, Patch)]
    assert [patch.body if patch.resource == JobSet().resource else "released" for patch in patches] == want
    assert [each.event.reason for each in plan.events if each.event.type == "Warning"] == [
        "ErrWorkloadCompose"
    ]


def test_malformed_conditions_are_an_invalid_template() -> None:
    with pytest.raises(InvalidTemplate, match=r"status.conditions\[0\]: is 'Completed', must be a mapping"):
        JobSet().finished(a_job_set(status={"conditions": ["Completed"]}))


def test_a_conflict_with_the_flavor_prevents_the_start() -> None:
    info = PodSetInfo(name="workers", count=1, node_selector={"zone": "b"})
    conflict = JobSet().start(a_job_set(replicated()), [info])
    assert isinstance(conflict, InjectionConflict)
    assert "nodeSelector[zone] is 'a'" in conflict.message


def test_an_admission_of_other_pod_sets_prevents_the_start() -> None:
    assert JobSet().start(a_job_set(replicated()), []) == InjectionConflict(
        "the JobSet has 1 pod sets, its workload was admitted with 0"
    )


def test_without_the_original_pod_sets_a_job_is_only_suspended() -> None:
    stop = JobSet().stop(a_job_set(replicated(), suspend=False), None)
    assert [patch.body for patch in stop.patches] == [{"spec": {"suspend": True}}]
