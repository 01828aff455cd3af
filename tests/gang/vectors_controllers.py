"""Vectors for the decisions of controllers.

Each function runs one case of a kind (``minres``, ``vcjob``, ``queue_state``) and returns the differences
from quorate.api.core.pod import Pod
from quorate.api.core.pod import PodCondition
from quorate.api.core.pod import PodMeta
from what it expects, as messages.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from quorate.api import codec
from quorate.api.core import ContainerState, ContainerStateTerminated
from quorate.api.core.pod import ContainerStatus, Pod, PodCondition, PodMeta, PodStatus
from quorate.api.meta import Key, ObjectMeta, Uid, at_epoch
from quorate.api.names.volcano import JOB_RETRY_COUNT, JOB_VERSION, TASK_INDEX, TASK_SPEC
from quorate.api.quantity import parse_quantity
from quorate.api.volcano import PodGroup, PodGroupStatus
from quorate.api.volcano.job import Command, Job, with_defaults
from quorate.controllers.volcano.job.job_phases import ACTIVE, RESTART, TRANSITIONS, ActionScope
from quorate.controllers.volcano.job.job_pod_group import build_pod_group, group_name, min_task_member
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod
from quorate.controllers.volcano.job.job_sync import JobInfo, JobPlan, decide
from quorate.controllers.volcano.job.lifecycle_policies import POD_EVICTED, POD_FAILED, TASK_FAILED
from quorate.controllers.volcano.queue_controller import RootQueueCannotClose, next_state

Json = dict[str, Any]
NOW = 1_000_000.0
MANY = 1000  # restarts of a container: more than any case allows
_JOB_UID = Uid("uid-of-job")


def run_minres(given: Json, expect: Json) -> list[str]:
    """Run a case: minAvailable, and tasks with replicas, minAvailable, priority, requests, limits."""
    tasks = [_task_of(index, task) for index, task in enumerate(given["tasks"])]
    spec = {"minAvailable": given.get("minAvailable", 0), "tasks": tasks}
    job = with_defaults(codec.convert(Job, {"metadata": {"name": "job"}, "spec": spec}))
    priorities = {f"class-{index}": task.get("priority", 0) for index, task in enumerate(given["tasks"])}
    wanted = {name: parse_quantity(str(amount)) for name, amount in expect.get("minResources", {}).items()}
    return [
        *_differences("minResources", build_pod_group(job, priorities).spec.min_resources or {}, wanted),
        *_differences("minTaskMember", min_task_member(job), expect.get("minTaskMember", {})),
    ]


def _task_of(index: int, task: Json) -> Json:
    resources = {
        name: {key: str(amount) for key, amount in task.get(name, {}).items()}
        for name in ("requests", "limits")
    }
    containers = [{"name": "main", "resources": resources}]
    template = {"spec": {"containers": containers, "priorityClassName": f"class-{index}"}}
    return {**_taken(task, "name", "replicas", "minAvailable"), "template": template}


def run_vcjob(given: Json, expect: Json) -> list[str]:
    """Run a case: the job and its pods in short form, and the event; see ``_case_of``."""
    case = _case_of(given)
    plan = decide(case)
    return _differences("job", _outcome(case, plan), expect)


def _outcome(case: JobInfo, plan: JobPlan) -> Json:
    status = plan.status or case.job.status
    return {
        "phase": status.state.phase,
        "createPods": len(plan.pods_to_create),
        "deletePods": len(plan.pods_to_delete),
        "retryCount": status.retry_count,
        "version": status.version,
        "action": plan.action,
        "deletePodGroup": plan.group_to_delete is not None,
    }


def _case_of(given: Json) -> JobInfo:
    """Return the job, its pods by phase, the phase of its group, and the event.

    ``job``: replicas, or tasks; minAvailable, minSuccess, maxRetry, policies, version.  ``pods`` counts the
    pods of its only task by phase, ``taskPods`` those of each.  ``event`` is one of ``task``, by default the
    first; ``eventVersion`` is the version of the job its pods were made for.  ``action`` is a command's; no
    command names the target of one upon a task or a pod, so that is called for by an eviction.
    """
    if TRANSITIONS["Running"].get(given.get("action", ""), RESTART).scope is not ActionScope.JOB:
        policies = [{"event": POD_EVICTED, "action": given["action"]}]
        given = {**given, "event": POD_EVICTED, "action": "", "job": {**given["job"], "policies": policies}}
    short = given["job"]
    tasks = short.get("tasks") or [{"name": "task", "replicas": short["replicas"]}]
    version = short.get("version", given.get("version", 0))
    phase = given.get("phase", "Pending")
    status = {"state": {"phase": phase}, "version": version, "retryCount": given.get("retryCount", 0)}
    spec = {**_taken(short, "minAvailable", "minSuccess", "maxRetry", "policies"), "tasks": tasks}
    metadata = {"name": "job", "namespace": "default", "uid": _JOB_UID}
    job = codec.convert(Job, {"metadata": metadata, "spec": spec, "status": status})
    task = given.get("task", with_defaults(job).spec.tasks[0].name)
    counts = given.get("taskPods") or {task: given.get("pods", {})}
    pods = [each for name, of in counts.items() for each in _replicas(name, of)]
    if given.get("event") == POD_FAILED and all(phase != "Failed" for _, _, phase in pods):
        replicas = next(each.replicas for each in with_defaults(job).spec.tasks if each.name == task)
        index = min(sum(counts.get(task, {}).values()), replicas - 1)
        pods = [*(each for each in pods if each[:2] != (task, index)), (task, index, "Failed")]
    pod_version = given.get("eventVersion", version)
    job_pods = [_job_pod(given, pod_version, *each) for each in pods]
    return JobInfo(
        job=job,
        pods=job_pods,
        group=_a_group(given, job),
        commands=_commands(given),
        lost=_lost(given, pod_version, task),
        priorities={},
        now=NOW,
    )


def _replicas(task: str, counts: Mapping[str, int]) -> Iterator[tuple[str, int, str]]:
    phases = [phase for phase, count in counts.items() for _ in range(count)]
    yield from ((task, index, phase) for index, phase in enumerate(phases))


def _job_pod(given: Json, version: int, task: str, index: int, phase: str) -> JobPod:
    exit_code = given.get("exitCode", 1 if phase == "Failed" else 0)
    ended = (
        ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code))
        if phase == "Failed"
        else ContainerState()
    )
    restarts = MANY if given.get("event") == TASK_FAILED and given.get("task", task) == task else 0
    pod = Pod(
        metadata=PodMeta(
            name=f"job-{task}-{index}",
            namespace="default",
            uid=Uid(f"uid-of-{task}-{index}"),
            annotations={
                TASK_SPEC: task, TASK_INDEX: str(index),
                JOB_VERSION: str(version), JOB_RETRY_COUNT: str(given.get("retryCount", 0)),
            },
            creation_timestamp=at_epoch(NOW - 60),
            deletion_timestamp=at_epoch(NOW) if phase == "Terminating" else None,
        ),
        node_name="" if phase == "Pending" else "node",
        status=PodStatus(
            phase="Running" if phase == "Terminating" else phase,
            conditions=(PodCondition(type="Ready", status="True"),) if phase == "Running" else (),
            container_statuses=(ContainerStatus(restart_count=restarts, state=ended),),
        ),
    )  # fmt: skip
    return JobPod(pod)


def _a_group(given: Json, job: Job) -> PodGroup | None:
    """Return the group; None for null; by default a running one if the job has pods to run."""
    usual = "Running" if given.get("phase", "Pending") in ACTIVE else None
    phase = given.get("podGroupPhase", "Unknown" if given.get("event") == "Unknown" else usual)
    if phase is None:
        return None
    metadata = ObjectMeta(name=group_name(job), namespace="default", uid=Uid("uid-of-group"))
    return PodGroup(metadata=metadata, status=PodGroupStatus(phase=phase))


def _commands(given: Json) -> list[Command]:
    action = given.get("action", "")
    return [Command(metadata=ObjectMeta(name="order", uid=Uid("1")), action=action)] if action else []


def _lost(given: Json, version: int, task: str) -> list[LostPod]:
    if given.get("event") != POD_EVICTED:
        return []
    key = Key("default", f"job-{task}-0")
    return [LostPod(key, Uid(f"uid-of-{task}-0"), task, 0, "", version, NOW)]


def run_queue_state(given: Json, expect: Json) -> list[str]:
    """Run a case: queue (optional), state, action and the number of its podGroups."""
    state, failed = given.get("state", ""), False
    try:
        state = next_state(given.get("queue", "research"), state, given["action"], given.get("podGroups", 0))
    except RootQueueCannotClose:
        failed = True
    got = {"state": state, "error": failed}
    return _differences("queue", got, {"error": False, **expect})


def _taken(short: Json, *names: str) -> Json:
    return {name: short[name] for name in names if name in short}


def _differences(what: str, got: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the differences of the wanted names."""
    return [
        f"{what}: {name} is {got.get(name)}, not {value}"
        for name, value in wanted.items()
        if got.get(name) != value
    ]
