"""A compact notation for jobs, their pods and plans.

Pods: ``worker: running failed=137 pending@ -``, in the order of their index.  ``-`` is a missing pod; after
the state, ``@`` means without a node and ``~`` terminating.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.core import ContainerState, ContainerStateTerminated
from quorate.api.core.pod import ContainerStatus, Pod, PodCondition, PodMeta, PodStatus
from quorate.api.meta import Key, ObjectMeta, Uid, at_epoch
from quorate.api.names.volcano import JOB_NAME, JOB_RETRY_COUNT, JOB_VERSION, TASK_INDEX, TASK_SPEC
from quorate.api.volcano import PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus
from quorate.api.volcano.job import Command, Job
from quorate.controllers.volcano.job.assume_cache import LostPods
from quorate.controllers.volcano.job.job_pod_group import group_name, owner_reference_to
from quorate.controllers.volcano.job.job_pods import (
    JobPod,
    LostPod,
)
from quorate.controllers.volcano.job.job_sync import JobInfo, JobPlan, decide
from tests.kube.virtual_clock import VirtualClock

NOW = 1_000_000.0
UID = Uid("uid-of-train")


def a_job(
    tasks: Any = "worker=3",
    *,
    phase: str = "Pending",
    version: int = 0,
    retries: int = 0,
    since: float = NOW - 100,
    message: str = "",
    **spec: Any,
) -> Job:
    """``tasks``: ``name=replicas`` or ``name=minimum/replicas``, or whole task specs."""
    body = {
        "metadata": {"name": "train", "namespace": "default", "uid": UID, "resourceVersion": "1"},
        "spec": {"tasks": list(map(_a_task, tasks.split())) if isinstance(tasks, str) else tasks, **spec},
        "status": {
            "state": {"phase": phase, "lastTransitionTime": at_epoch(since), "message": message},
            "version": version,
            "retryCount": retries,
        },
    }
    return codec.convert(Job, body)


def _a_task(word: str) -> dict[str, Any]:
    name, _, counts = word.partition("=")
    minimum, _, replicas = counts.rpartition("/")
    task: dict[str, Any] = {"name": name, "replicas": int(replicas), "template": {"spec": {"containers": []}}}
    return task | ({"minAvailable": int(minimum)} if minimum else {})


def job_pods(line: str, *, version: int = 0, retry: int = 0, age: float = 60.0) -> list[JobPod]:
    """Return the pods of ``line``, with tasks separated by ``;``."""
    pods = []
    for part in filter(None, map(str.strip, line.split(";"))):
        task, _, states = part.partition(":")
        for index, state in enumerate(states.split()):
            if state != "-":
                pods.append(_job_pod(task, index, state, version, retry, age))
    return pods


def _job_pod(task: str, index: int, word: str, version: int, retry: int, age: float) -> JobPod:
    state, _, code = word.rstrip("~@").partition("=")
    phase = state.capitalize()
    ended = ContainerState()
    if phase in ("Failed", "Succeeded"):
        exit_code = int(code or (1 if phase == "Failed" else 0))
        ended = ContainerState(
            terminated=ContainerStateTerminated(exit_code=exit_code, finished_at=at_epoch(NOW - age))
        )
    pod = Pod(
        metadata=PodMeta(
            name=f"train-{task}-{index}",
            namespace="default",
            uid=Uid(f"{task}-{index}-{version}"),
            labels={JOB_NAME: "train"},
            annotations={
                TASK_SPEC: task, TASK_INDEX: str(index),
                JOB_VERSION: str(version), JOB_RETRY_COUNT: str(retry),
            },
            creation_timestamp=at_epoch(NOW - age),
            deletion_timestamp=at_epoch(NOW) if "~" in word else None,
            owner_references=(owner_reference_to(a_job()),),
        ),
        node_name="" if "@" in word else "node-1",
        status=PodStatus(
            phase=phase,
            conditions=(PodCondition(type="Ready", status="True" if phase == "Running" else "False"),),
            container_statuses=(ContainerStatus(restart_count=int(code or 0) if phase == "Running" else 0,
                                                state=ended),),
        ),
    )  # fmt: skip
    return JobPod(pod)


def changed(pod: JobPod, **fields: Any) -> JobPod:
    """Return the pod with other fields."""
    return JobPod(msgspec.structs.replace(pod.pod, **fields))


def a_group(phase: str, reason: str = "", *, terminating: bool = False) -> PodGroup:
    condition = PodGroupCondition(
        type="Unschedulable", status="True", reason=reason, message="short of cpu",
        last_transition_time=at_epoch(NOW - 30),
    )  # fmt: skip
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(a_job()),
            namespace="default",
            uid=Uid("uid-of-group"),
            resource_version="7",
            deletion_timestamp=at_epoch(NOW) if terminating else None,
        ),
        spec=PodGroupSpec(),
        status=PodGroupStatus(phase=phase, conditions=(condition,) if reason else ()),
    )


def a_command(action: str, name: str = "command-1") -> Command:
    return Command(metadata=ObjectMeta(name=name, namespace="default", uid=Uid(f"uid-{name}")), action=action)


def planned(
    job: Job,
    pods: list[JobPod] | str = "",
    group: PodGroup | str | None = "Inqueue",
    *,
    commands: Iterable[Command] = (),
    lost: Iterable[LostPod] | None = None,
    now: float = NOW,
    keep_pending: bool = False,
    is_queued: bool = False,
) -> JobPlan:
    own = job_pods(pods, version=job.status.version) if isinstance(pods, str) else pods
    stored = a_group(group) if isinstance(group, str) else group
    if lost is None:  # a terminating pod is seen for the first time
        lost = LostPods(VirtualClock(now)).of_job(job, own, lambda uid: False)
    return decide(JobInfo(job, own, stored, tuple(commands), tuple(lost), {}, now, keep_pending, is_queued))


def a_lost_pod(task: str, index: int, *, version: int = 0) -> LostPod:
    name = f"train-{task}-{index}"
    return LostPod(Key("default", name), Uid(f"{task}-{index}-{version}"), task, index, "", version, at=NOW)


def show(plan: JobPlan) -> str:
    """Return the steps of the plan in the order of execution."""
    parts = []
    if plan.pods_to_delete:
        parts.append(
            f"delete {' '.join(each.metadata.name.removeprefix('train-') for each in plan.pods_to_delete)}"
        )
    if plan.group_to_delete is not None:
        parts.append("delete group")
    if plan.pods_to_create:
        parts.append(f"create {' '.join(f'{each.task}-{each.index}' for each in plan.pods_to_create)}")
    if plan.status is not None and plan.status.state.phase != plan.job.status.state.phase:
        parts.append(f"become {plan.status.state.phase}")
    if plan.status is not None and plan.status.retry_count != plan.job.status.retry_count:
        parts.append(f"retry {plan.status.retry_count}")
    if plan.handled_commands:
        parts.append(f"delete command {' '.join(each.metadata.name for each in plan.handled_commands)}")
    if plan.patch is not None:
        annotations = plan.patch.body["metadata"]["annotations"]
        parts.append(f"remove {' '.join(key.partition('/')[2] for key in annotations)}")
    if plan.delete_job:
        parts.append("delete job")
    return "; ".join(parts)


def after(plan: JobPlan) -> Job:
    """Return the job after the plan is executed."""
    assert plan.status is not None
    return msgspec.structs.replace(plan.job, status=plan.status)
