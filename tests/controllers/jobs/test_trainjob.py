"""TrainJob: the pods of its runtime, and its start and stop in steps."""

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.field_path import InvalidTemplate, look_up
from quorate.controllers.jobframework.interface import JobState
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.training_runtime import PATCHED_JOBS, strategically_merged
from quorate.controllers.jobs.trainjob import RuntimeSnapshots, TrainJob
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.patches import merged
from quorate.kube.writes import Patch, Write
from tests.controllers.jobs.test_unstructured import MANAGED, foreign_job, with_sections
from tests.controllers.objects import a_workload
from tests.kube.fake_server import Answer, FakeServer, Request, refusal

KIND = TrainJob()

JOB, RUNTIME = foreign_job({}), foreign_job({"mlPolicy": {"numNodes": 1}})
STORED = {"mlPolicy": {"numNodes": 2}}


def step(name: str, of: str, container: str = "", **fields: Any) -> dict[str, Any]:
    """Return a replicated job for the step ``of`` of a training."""
    pods = {"spec": {"containers": [{"name": container or name, "image": "runtime"}]}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": of}
    return {
        "name": name,
        "template": {"metadata": {"labels": labels}, "spec": {"template": pods}},
        **fields,
    }


def a_job(*steps: Any, policy: Any = None, status: Any = None, **spec: Any) -> UnstructuredJob:
    runtime = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(steps)}}}
    job = foreign_job({"suspend": True, "runtimeRef": {"name": "torch"}, **spec}, status)
    return msgspec.structs.replace(job, referenced_spec=copy.deepcopy(runtime))


def sized(replicated: dict[str, Any], **size: int) -> dict[str, Any]:
    return merged(replicated, {"template": {"spec": size}})


NODE = step("node", "trainer")
LAUNCHER = step("launcher", "")
MPI = {"numNodes": 1, "mpi": {"runLauncherAsNode": True}}
PLAIN_MPI = {"numNodes": 1, "mpi": {}}
MPI_NODE, MPI_LAUNCHER = step("node", ""), step("launcher", "trainer", "node")  # as in the trainer's runtimes


def sizes(job: UnstructuredJob) -> dict[str, int]:
    return {each.name: each.count for each in KIND.pod_sets(job)}


def containers(job: UnstructuredJob) -> list[dict[str, Any]]:
    templates = [codec.decode(dict[str, Any], each.template) for each in KIND.pod_sets(job)]
    return [template["spec"]["containers"][0] for template in templates]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(a_job(NODE), {"node": 1}, id="one node"),
        pytest.param(a_job(NODE, policy={"numNodes": 4}), {"node": 4}, id="the number of the runtime"),
        pytest.param(
            a_job(NODE, policy={"numNodes": 4}, trainer={"numNodes": 2}),
            {"node": 2},
            id="the number of the job",
        ),
        pytest.param(
            a_job(NODE, LAUNCHER, policy=MPI, trainer={"numNodes": 4}),
            {"node": 3, "launcher": 1},
            id="the launcher is a node",
        ),
        pytest.param(
            a_job(MPI_NODE, MPI_LAUNCHER, policy=MPI, trainer={"numNodes": 4}),
            {"node": 3, "launcher": 1},
            id="the launcher is the step that trains, and one of the nodes",
        ),
        pytest.param(
            a_job(MPI_NODE, MPI_LAUNCHER, policy=MPI, trainer={"numNodes": 1}),
            {"node": 1, "launcher": 1},
            id="beside the launcher is a node at least",
        ),
        pytest.param(
            a_job(MPI_NODE, MPI_LAUNCHER, policy=PLAIN_MPI, trainer={"numNodes": 4}),
            {"node": 4, "launcher": 1},
            id="the launcher only launches",
        ),
        pytest.param(
            a_job(sized(MPI_NODE, parallelism=2), MPI_LAUNCHER, policy={**MPI, "numNodes": 3}),
            {"node": 2, "launcher": 3},
            id="the number of the runtime is of the step that trains",
        ),
        pytest.param(
            a_job(step("data", "dataset-initializer", replicas=3)),
            {"data": 1},
            id="an initializer has one pod",
        ),
        pytest.param(
            a_job(sized(NODE, parallelism=0), sized(LAUNCHER, parallelism=0)),
            {"node": 1, "launcher": 1},
            id="parallelism 0 counts as 1",
        ),
        pytest.param(a_job(NODE, policy={"numNodes": 0}), {"node": 1}, id="no nodes count as 1"),
        pytest.param(
            a_job(sized(LAUNCHER, parallelism=3, completions=1)),
            {"launcher": 3},
            id="the trainer sets completions to parallelism",
        ),
        pytest.param(a_job({**LAUNCHER, "replicas": 2}), {"launcher": 2}, id="another step is unchanged"),
    ],
)
def test_the_pods_of_a_training(job: UnstructuredJob, want: dict[str, int]) -> None:
    assert sizes(job) == want


def test_the_trainer_fields_override_the_runtime() -> None:
    trainer = {
        "image": "mine",
        "command": ["train"],
        "env": [{"name": "A", "value": "1"}],
        "resourcesPerNode": {"requests": {"cpu": "2"}},
    }
    assert containers(a_job(NODE, policy={}, trainer=trainer)) == [
        {
            "name": "node",
            "image": "mine",
            "command": ["train"],
            "env": [{"name": "A", "value": "1"}],
            "resources": {"requests": {"cpu": "2"}},
        }
    ]
    assert containers(a_job(LAUNCHER, trainer=trainer))[0]["image"] == "runtime", "it has no training step"
    node, launcher = containers(a_job(MPI_NODE, MPI_LAUNCHER, policy=MPI, trainer=trainer))
    assert node == {
        "name": "node",
        "image": "runtime",
        "env": [{"name": "A", "value": "1"}],
        "resources": {"requests": {"cpu": "2"}},
    }
    assert (launcher["image"], launcher["resources"]) == ("mine", node["resources"])


def test_resources_of_a_node_take_precedence_resource_by_resource() -> None:
    stated = {
        "requests": {"cpu": "4", "memory": "8Gi"},
        "limits": {"nvidia.com/gpu": 8},
        "claims": [{"name": "x"}],
    }
    runtime = copy.deepcopy(NODE)
    runtime["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = stated
    (container,) = containers(
        a_job(runtime, policy={"numNodes": 1}, trainer={"resourcesPerNode": {"requests": {"cpu": "1"}}})
    )
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "8Gi"},
        "limits": {"nvidia.com/gpu": 8},
    }


def test_the_initializer_fields_override_the_runtime() -> None:
    dataset = {"storageUri": "s3://data", "env": [{"name": "A", "value": "1"}], "secretRef": {"name": "key"}}
    job = a_job(step("dataset-initializer", "dataset-initializer"), initializer={"dataset": dataset})
    (container,) = containers(job)
    assert container["env"] == [{"name": "STORAGE_URI", "value": "s3://data"}, {"name": "A", "value": "1"}]
    assert container["envFrom"] == [{"secretRef": {"name": "key"}}]


def test_runtime_patches_apply_except_our_own() -> None:
    def patch(manager: str, name: str) -> dict[str, Any]:
        pods = {"spec": {"containers": [{"name": "node", "env": [{"name": name, "value": "1"}]}]}}
        jobs = [{"name": "node", "template": {"spec": {"template": pods}}}]
        spec = {"template": {"spec": {"replicatedJobs": jobs}}}
        return {"manager": manager, "trainingRuntimeSpec": spec}

    patches = [patch("me", "MINE"), patch("kueue.x-k8s.io/manager", "OURS")]
    (container,) = containers(a_job(NODE, runtimePatches=patches))
    assert (container["image"], container["env"]) == ("runtime", [{"name": "MINE", "value": "1"}])


@pytest.mark.parametrize(
    ("document", "patch", "want"),
    [
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}, id="maps merge"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes a field"),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}]},
            {"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]},
            {"env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]},
            id="lists merge by key",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]},
            id="a list without keys is replaced",
        ),
    ],
)  # fmt: skip
def test_strategic_merge(document: Any, patch: Any, want: Any) -> None:
    assert strategically_merged(document, patch) == want


def test_a_job_waits_for_its_runtime() -> None:
    with pytest.raises(InvalidTemplate, match=r"spec.runtimeRef: names a runtime that doesn't exist"):
        KIND.pod_sets(msgspec.structs.replace(a_job(NODE), referenced_spec=None))


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        ({"name": "torch"}, ("ClusterTrainingRuntime", "torch")),
        ({"name": "torch", "kind": "ClusterTrainingRuntime"}, ("ClusterTrainingRuntime", "torch")),
        ({"name": "torch", "kind": "TrainingRuntime"}, ("TrainingRuntime", "default/torch")),
        ({"name": 3}, None),
        ("torch", None),
    ],
)
def test_the_runtime_of_a_job(reference: Any, want: tuple[str, str] | None) -> None:
    needed = KIND.referenced_object(foreign_job({"runtimeRef": reference}))
    with_our_patch = None if needed is None else (needed.resource.kind, str(needed.key).removeprefix("/"))
    assert with_our_patch == want


INFO = PodSetInfo(name="node", count=1, node_selector={"pool": "spot"})


def test_the_runtime_patch_is_first_at_a_start_and_last_at_a_stop() -> None:
    job = a_job(NODE)
    start = KIND.start(job, [INFO])
    assert not isinstance(start, InjectionConflict)
    added, go = (patch.body for patch in start)
    assert go == {"spec": {"suspend": False}}
    running = with_sections(job, spec=merged(merged(job.spec, added["spec"]), go["spec"]))
    assert containers(running) == containers(job)

    busy = with_sections(running, status={"jobsStatus": [{"name": "node", "active": 1}]})
    begun = KIND.stop(busy, None)
    assert ([patch.body for patch in begun.patches], begun.waits_for_pods) == (
        [{"spec": {"suspend": True}}],
        True,
    )

    idle = with_sections(running, spec={**running.spec, "suspend": True})
    removed, rest = KIND.stop(idle, None).patches
    assert removed.body == {"spec": {"runtimePatches": []}}
    restored = merged(idle.spec, rest.body["spec"])
    assert restored["runtimePatches"] == [
        {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}}
    ]
    assert KIND.stop(with_sections(idle, spec=restored), None).patches == ()


def test_our_runtime_patch_exists_from_the_creation() -> None:
    foreign_patch = {"manager": "me"}
    job = a_job(NODE, runtimePatches=[foreign_patch])
    (first,) = KIND.stop(job, None).patches
    assert first.body == {"spec": {"runtimePatches": [foreign_patch, {"manager": "kueue.x-k8s.io/manager"}]}}
    with_our_patch = with_sections(job, spec=merged(job.spec, first.body["spec"]))
    assert KIND.stop(with_our_patch, None).patches == ()


def test_an_interrupted_start_is_repeated() -> None:
    job = a_job(NODE)
    first = KIND.start(job, [INFO])
    assert not isinstance(first, InjectionConflict)
    half = with_sections(job, spec=merged(job.spec, first[0].body["spec"]))
    repeated = KIND.start(half, [INFO])
    assert not isinstance(repeated, InjectionConflict)
    assert [patch.body for patch in repeated] == [{"spec": {"suspend": False}}]


ENDED = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
BUSY = {"jobsStatus": [{"name": "node", "active": 1}]}


@pytest.mark.parametrize("exists", [pytest.param(True, id="changed"), pytest.param(False, id="deleted")])
@pytest.mark.parametrize(
    ("conditions", "suspended", "status", "want"),
    [
        pytest.param((), False, BUSY, [], id="runs on"),
        pytest.param((), False, ENDED, ["Finished"], id="ends"),
        pytest.param(("Evicted",), False, BUSY, ["suspend"], id="is stopped"),
        pytest.param(("Evicted",), True, BUSY, [], id="its pods are ending"),
        pytest.param(("Evicted",), True, {}, ["!QuotaReserved"], id="releases its quota"),
    ],
)
def test_a_running_job_keeps_the_pods_of_the_runtime_with_which_it_started(
    exists: bool, conditions: tuple[str, ...], suspended: bool, status: dict[str, Any], want: list[str]
) -> None:
    job = a_job(NODE, policy={"numNodes": 2}, status=status)
    workload = a_workload(*conditions, admitted_to=["spot"], pod_sets=KIND.pod_sets(job))
    spec = {**job.spec, "suspend": suspended, "runtimePatches": [{"manager": "kueue.x-k8s.io/manager"}]}
    changed = {**(job.referenced_spec or {}), "mlPolicy": {"numNodes": 3}} if exists else None
    job = msgspec.structs.replace(with_sections(job, spec=spec), referenced_spec=changed)
    plan = decide(KIND, job, [workload], MANAGED, JobOptions(), now=2_000.0)
    assert [step for write in plan.writes for step in _steps(write)] == want


def _steps(write: Write) -> list[str]:
    """Return ``suspend``, or the conditions that a write of the status sets."""
    assert isinstance(write, Patch)
    body = codec.decode(dict[str, Any], codec.encode(write.body))
    if look_up(body, ("spec", "suspend")) is not None:
        return ["suspend"]
    set_ = {each["type"]: each["status"] for each in look_up(body, ("status", "conditions")) or ()}
    ended = ["Finished"] if set_.get("Finished") == "True" else []
    return ended or (["!QuotaReserved"] if set_.get("QuotaReserved") == "False" else [])


WORKLOAD = a_workload(admitted_to=["spot"])
USERS = {"manager": "example.com/user", "time": "2026-01-01T00:00:00Z"}


def planned(job: UnstructuredJob, step: str) -> Sequence[Write]:
    """Return the writes that start, stop or first suspend a job."""
    context = ReconcileContext(flavors={}, workload_classes={}, pod_classes={})
    state = JobState.of(KIND, job, context, JobOptions(), 2_000.0)
    if step == "start":
        plan = KIND.start_plan(state, WORKLOAD, [INFO])
    else:
        plan = KIND.stop_plan(state, WORKLOAD if step == "stop" else None, "reason", "message")
    assert not isinstance(plan, InjectionConflict)
    return plan.writes


def is_rewritten(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return True if the defaulting of the trainer changes an update, by the rules of its version 2.3."""
    before = {each["manager"]: each for each in old.get("runtimePatches", [])}
    return any(
        each != before[each["manager"]] if each["manager"] in before else "time" not in each
        for each in new.get("runtimePatches", [])
    )


STEPS = st.tuples(st.sampled_from(("start", "stop", "suspend")), st.integers(1, 3))


@given(
    patches=st.sampled_from(([], [USERS], [USERS, {"manager": "kueue.x-k8s.io/manager"}])),
    steps=st.lists(STEPS, max_size=6),
)
def test_the_trainer_has_nothing_to_write_into_our_changes(
    patches: list[dict[str, Any]], steps: list[tuple[str, int]]
) -> None:
    """If it changes a job, it writes ``cpu: 1`` as text, which is refused as the change of a fixed field.

    Each step ends after some of its writes, as if the process had ended, and is repeated or another follows.
    """
    job = a_job(NODE, trainer={"resourcesPerNode": {"requests": {"cpu": 1}}}, runtimePatches=patches)
    for step, sent in steps:
        for write in planned(job, step)[:sent]:
            assert isinstance(write, Patch)
            body = codec.decode(dict[str, Any], codec.encode(write.body))
            changed = with_sections(job, spec=merged(job.spec, body["spec"]))
            assert not is_rewritten(job.spec, changed.spec), body
            assert USERS not in patches or USERS in changed.spec["runtimePatches"]
            job = changed
    for write in planned(job, "start"):
        assert isinstance(write, Patch)
        job = with_sections(job, spec=merged(job.spec, write.body["spec"]))
    assert job.spec["suspend"] is False
    (ours,) = [each for each in job.spec["runtimePatches"] if each["manager"] == "kueue.x-k8s.io/manager"]
    assert [each["name"] for each in look_up(ours, PATCHED_JOBS)] == ["node"]


def changed(obj: UnstructuredJob, **metadata: Any) -> UnstructuredJob:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **metadata))


def snapshot(request: Request) -> Answer:
    owner = {"uid": JOB.metadata.uid, "controller": True, "apiVersion": "v1", "kind": "TrainJob", "name": "a"}
    metadata = {"name": request.path.rpartition("/")[2], "namespace": "default", "ownerReferences": [owner]}
    return Answer(200, {"metadata": metadata, "data": {"runtime": json.dumps({"spec": STORED})}})


def absent(request: Request) -> Answer:
    return Answer(404, refusal(404, "NotFound"))


@pytest.mark.parametrize(
    ("answer", "then", "requests"),
    [
        pytest.param(absent, (JOB, RUNTIME), 1, id="nothing changed"),
        pytest.param(absent, (changed(JOB, resource_version="9"), RUNTIME), 2, id="the job changed"),
        pytest.param(absent, (JOB, changed(RUNTIME, generation=9)), 2, id="the runtime changed"),
        pytest.param(absent, (JOB, changed(RUNTIME, uid="another")), 2, id="the runtime was created again"),
        pytest.param(absent, (JOB, None), 2, id="the runtime was deleted"),
        pytest.param(
            snapshot, (changed(JOB, resource_version="9"), None), 1, id="a snapshot is never read again"
        ),
    ],
)
def test_a_snapshot_is_read_again_when_the_answer_may_have_changed(
    answer: Any, then: tuple[UnstructuredJob, UnstructuredJob | None], requests: int
) -> None:
    async def run() -> None:
        async with FakeServer(answer) as server, server.client() as client:
            snapshots = RuntimeSnapshots(client)
            specs = [await snapshots.of(JOB, RUNTIME), await snapshots.of(*then)]
        assert specs == [STORED if answer is snapshot else None] * 2
        assert len(server.requests) == requests

    asyncio.run(run())
