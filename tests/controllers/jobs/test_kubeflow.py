"""Jobs of Kubeflow: pod sets by replica type, priority classes, and the minimum workers of an MPIJob."""

from collections.abc import Sequence
from typing import Any

import pytest

from quorate.api.batch import decode_template
from quorate.controllers.jobs.kubeflow import TRAINING_JOBS, MPIJob, PyTorchJob
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.patches import merged
from tests.controllers.jobs.test_unstructured import PODS, foreign_job


def pods(priority_class: str = "") -> dict[str, Any]:
    return {"spec": {**PODS["spec"], "priorityClassName": priority_class}}


def mpi_job(workers: int = 4, launcher: Any = PODS, worker: Any = PODS, **policy: Any) -> UnstructuredJob:
    specs = {"Worker": {"replicas": workers, "template": worker}, "Launcher": {"template": launcher}}
    return foreign_job({"runPolicy": {"schedulingPolicy": policy}, "mpiReplicaSpecs": specs})


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param({}, None, id="all workers"),
        pytest.param({"minAvailable": 3}, 3, id="a smaller minimum"),
        pytest.param({"minAvailable": 5}, 4, id="all pods including the launcher"),
        pytest.param({"minAvailable": 0}, None, id="no value"),
    ],
)
def test_the_minimum_of_workers(policy: dict[str, int], want: int | None) -> None:
    launcher, worker = MPIJob().pod_set_specs(mpi_job(**policy))
    assert (launcher.name, launcher.count, launcher.min_count) == ("launcher", 1, None)
    assert (worker.name, worker.count, worker.min_count) == ("worker", 4, want)


def test_the_minimum_stays_when_fewer_workers_run() -> None:
    (_, worker) = MPIJob().pod_set_specs(mpi_job(workers=3, minAvailable=3))
    assert (worker.count, worker.min_count) == (3, 3)


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param({}, 1, id="changed while running"),
        pytest.param({"minAvailable": 2}, 4, id="partially admitted"),
    ],
)
def test_a_stop_restores_the_number_of_workers_after_partial_admission(
    policy: dict[str, int], want: int
) -> None:
    originals = MPIJob().pod_sets(mpi_job(workers=4, **policy))
    job = mpi_job(workers=1, **policy)
    (stop,) = MPIJob().stop(job, originals).patches
    assert merged(job.spec, stop.body["spec"])["mpiReplicaSpecs"]["Worker"]["replicas"] == want


def test_a_stop_leaves_no_empty_maps_in_the_templates() -> None:
    plain = {"spec": {"containers": [{"name": "main"}]}}
    started = {
        "metadata": {"labels": {"podset": "worker"}, "annotations": {"workload": "train"}},
        "spec": {**plain["spec"], "nodeSelector": {"zone": "a"}},
    }
    originals = MPIJob().pod_sets(mpi_job(launcher=plain, worker=plain))
    job = mpi_job(launcher=started, worker=started)
    (stop,) = MPIJob().stop(job, originals).patches
    for replicas in merged(job.spec, stop.body["spec"])["mpiReplicaSpecs"].values():
        assert replicas["template"] == {"metadata": {}, **plain}


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(mpi_job(), "", id="none"),
        pytest.param(mpi_job(worker=pods("low")), "low", id="the workers'"),
        pytest.param(
            mpi_job(worker=pods("low"), launcher=pods("mid")),
            "mid",
            id="the launcher's takes precedence",
        ),
        pytest.param(
            mpi_job(launcher=pods("mid"), priorityClass="high"), "high", id="the policy's takes precedence"
        ),
    ],
)
def test_the_priority_class(job: UnstructuredJob, want: str) -> None:
    assert MPIJob().priority_class(job) == want


def test_absent_replica_types_have_no_pod_set() -> None:
    worker = {"replicas": 3, "template": PODS}
    job = foreign_job({"tfReplicaSpecs": {"Worker": worker, "PS": {"template": PODS}, "Chief": None}})
    pod_set_specs = TRAINING_JOBS["kubeflow.org/tfjob"].pod_set_specs(job)
    assert [(pod_set.name, pod_set.count, pod_set.min_count) for pod_set in pod_set_specs] == [
        ("ps", 1, None),
        ("worker", 3, None),
    ]


def requesting(**requests: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}


@pytest.mark.parametrize(
    ("requests", "types", "waiting"),
    [
        pytest.param({"cpu": "1", "memory": "1Gi"}, ("Master", "Worker"), [], id="the worker requests more"),
        pytest.param(
            {"cpu": "10m", "memory": "1Gi"}, ("Master", "Worker"), [{"cpu": "50m"}], id="less of one"
        ),
        pytest.param(
            {"cpu": "10m", "memory": "1Mi"},
            ("Master", "Worker"),
            [{"cpu": "50m", "memory": "10Mi"}],
            id="less",
        ),
        pytest.param({"nvidia.com/gpu": "1"}, ("Master", "Worker"), [], id="neither"),
        pytest.param({"cpu": "10m"}, ("Worker",), [], id="without a master no worker waits"),
    ],
)
def test_a_worker_requests_at_least_as_much_as_the_container_that_waits_for_the_master(
    requests: dict[str, str], types: Sequence[str], waiting: list[dict[str, str]]
) -> None:
    replicas = {type_: {"template": requesting(**requests)} for type_ in types}
    *masters, workers = PyTorchJob().pod_sets(foreign_job({"pytorchReplicaSpecs": replicas}))
    assert [
        {name: str(amount) for name, amount in container.resources.requests.items()}
        for container in decode_template(workers.template).spec.init_containers
    ] == waiting
    assert all(not decode_template(master.template).spec.init_containers for master in masters)


def test_an_mpi_job_has_no_workers_by_default() -> None:
    job = foreign_job({"mpiReplicaSpecs": {"Worker": {"template": PODS}, "Launcher": {"template": PODS}}})
    assert [(spec.name, spec.count) for spec in MPIJob().pod_set_specs(job)] == [
        ("launcher", 1),
        ("worker", 0),
    ]
