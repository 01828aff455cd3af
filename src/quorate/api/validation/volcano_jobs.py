"""Validation of Volcano jobs beyond the schema of their CRD.

A job is validated with its defaults set (``volcano.job.with_defaults``). Source: Volcano (1.15).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from quorate.api.codec import Json
from quorate.api.findings import Finding, child_path, quote_value
from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.api.syntax import (
    InvalidDuration,
    is_dns_label,
    is_dns_subdomain,
    is_qualified_name,
    parse_duration,
)
from quorate.api.validation.fields import Findings, join_names, known_names_text
from quorate.api.validation.pod_groups import queue_state_findings, topology_findings
from quorate.api.validation.pod_templates import pod_template_findings, whole_cpu_findings
from quorate.api.validation.volcano_queues import Queues
from quorate.api.volcano import QUEUE_NOT_OPEN, ROOT_QUEUE
from quorate.api.volcano.job import Job, JobSpec, LifecyclePolicy, TaskSpec, VolumeSpec, task_min_available
from quorate.api.volcano.plugin_arguments import flags

EVENTS: Final = (
    "*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated",
)  # fmt: skip
ACTIONS: Final = (
    "AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob",
    "ResumeJob",
)  # fmt: skip
PLUGINS: Final = ("env", "svc", "ssh", "pytorch", "tensorflow", "mpi", "ray", "hcclrank")
_MPI: Final = "mpi"
_MASTER: Final = "master"  # the argument of the plugin, and its default
_ANY: Final = "*"
_PENDING: Final = "PodPending"
_UNKNOWN: Final = "Unknown"
_RESTART_PARTITION: Final = "RestartPartition"
_PARTIAL: Final = ("RestartTask", "RestartPod", _RESTART_PARTITION)  # actions on pods of the event
_NAME: Final = "cannot be the start of pod names (at most 63 letters, digits, '-', '_' or '.')"


def volcano_job_findings(job: Job) -> Findings:
    """Validate a new job by itself."""
    spec = job.spec
    if not is_qualified_name(job.metadata.name):
        yield Finding("metadata.name", job.metadata.name, _NAME)
    yield from _replica_counts(job)
    if not spec.tasks:
        yield Finding("spec.tasks", [], "is empty, must list at least one task")
    names: dict[str, int] = {}
    for at, task in enumerate(spec.tasks):
        path = f"spec.tasks[{at}]"
        yield from _task_name(path, task, job.metadata.name)
        first = names.setdefault(task.name, at)
        if first != at:
            rule = f"is given already in spec.tasks[{first}] (name it otherwise)"
            yield Finding(f"{path}.name", task.name, rule)
        yield from _policies(f"{path}.policies", task.policies)
        yield from _partitions(path, task)
        yield from pod_template_findings(f"{path}.template", task.template)
        if task.topology_policy not in ("", "none"):
            yield from whole_cpu_findings(f"{path}.template", task.template)
    yield from _dependencies(spec.tasks)
    yield from _policies("spec.policies", spec.policies)
    for name in spec.plugins:
        if name not in PLUGINS:
            rule = f"is not a plugin ({known_names_text(PLUGINS)})"
            yield Finding(child_path("spec.plugins", name), name, rule)
    yield from _mpi_master(spec)
    yield from _volumes(spec.volumes)
    yield from topology_findings("spec.networkTopology", spec.network_topology)


def volcano_job_queue_findings(job: Job, queues: Queues) -> Findings:
    """Validate that a new job may use its queue; ``queues`` are all queues."""
    where, name = "spec.queue", job.spec.queue
    if name == ROOT_QUEUE:
        rule = "is the root of all queues (name another one)"
        yield Finding(where, name, rule, reason=QUEUE_NOT_OPEN)
        return
    yield from queue_state_findings(where, name, queues.get(name))
    children = sorted(queue.metadata.name for queue in queues.values() if queue.parent == name)
    if children:
        yield Finding(where, name, f"is a parent of queues (name one of them: {join_names(children)})")


def volcano_job_update_findings(old: Json, new: Json, job: Job) -> Findings:
    """Validate an update from document ``old`` to ``new``; ``job`` is ``new`` with defaults.

    Replicas, minimums and priority of a running job may change. Other changes would not reach existing pods.
    """
    if old.get("spec") == new.get("spec"):
        return
    yield from _replica_counts(job)
    for at, task in enumerate(job.spec.tasks):
        yield from _partitions(f"spec.tasks[{at}]", task)
    for path, was, value in _changes("spec", _immutable_spec(old), _immutable_spec(new)):
        previous = "not set" if was is None else quote_value(was)
        rule = f"cannot change (it was {previous}; make another job instead)"
        yield Finding(path, value, rule)


def volcano_job_warnings(job: Job) -> Iterable[str]:
    """Return warnings about settings that are valid but have no useful effect."""
    lists = {"spec.policies": (job.spec.policies, job.spec.tasks)} | {
        f"spec.tasks[{at}].policies": (task.policies, (task,)) for at, task in enumerate(job.spec.tasks)
    }
    for path, (policies, tasks) in lists.items():
        for at, policy in enumerate(policies):
            if _PENDING in (policy.event, *policy.events) and not policy.timeout:
                yield f"{path}[{at}]: event {_PENDING} without a timeout never acts (set one, such as 10m)"
            if policy.action in _PARTIAL and _UNKNOWN in (policy.event, *policy.events):
                yield f"{path}[{at}]: event {_UNKNOWN} concerns no pod, so that {policy.action} never acts"
            if policy.action == _RESTART_PARTITION and not any(task.partition_policy for task in tasks):
                yield f"{path}[{at}]: {_RESTART_PARTITION} never acts on tasks without a partitionPolicy"
    yield from _unreachable_min_available(job)


def _unreachable_min_available(job: Job) -> Iterable[str]:
    """Warn about a minimum that counts pods which are created only after the gang starts.

    A task that depends on others gets its pods when those run, but the gang starts only when it is complete.
    """
    tasks = job.spec.tasks
    later = [task for task in tasks if task.depends_on is not None and task.depends_on.name]
    most = sum(task.replicas for task in tasks) - sum(task.replicas for task in later)
    each_counts = job.spec.min_available >= sum(task_min_available(task) for task in tasks)
    if not later:
        return
    if job.spec.min_available > most:
        yield (
            f"spec.minAvailable: {job.spec.min_available} pods are to start together, and tasks that depend "
            f"on others have none until those run: the job never starts (write at most {most})"
        )
    elif each_counts and any(task_min_available(task) for task in later):
        yield (
            "spec.tasks: every task is to start with its minAvailable, and those that depend on others have "
            "no pods until those run: the job never starts (give them minAvailable 0)"
        )


def _replica_counts(job: Job) -> Findings:
    """Validate the numbers that may change while the job runs."""
    spec = job.spec
    for field, number in (("maxRetry", spec.max_retry), ("minAvailable", spec.min_available)):
        if number < 0:
            yield Finding(f"spec.{field}", number, "is negative, must be at least 0")
    ttl = spec.ttl_seconds_after_finished
    if ttl is not None and ttl < 0:
        yield Finding("spec.ttlSecondsAfterFinished", ttl, "is negative, must be at least 0")
    for at, task in enumerate(spec.tasks):
        path, minimum = f"spec.tasks[{at}]", task.min_available
        if task.replicas < 0:
            yield Finding(f"{path}.replicas", task.replicas, "is negative, must be at least 0")
        if minimum is not None and minimum < 0:
            yield Finding(f"{path}.minAvailable", minimum, "is negative, must be at least 0")
        elif minimum is not None and minimum > task.replicas:
            rule = f"is more than the replicas of the task, at most {task.replicas}"
            yield Finding(f"{path}.minAvailable", minimum, rule)
    replicas = sum(task.replicas for task in spec.tasks)
    if spec.min_available > replicas:
        rule = f"is more than the replicas of all tasks, at most {replicas}"
        yield Finding("spec.minAvailable", spec.min_available, rule)


def _task_name(path: str, task: TaskSpec, job: str) -> Findings:
    last = f"{job}-{task.name}-{max(0, task.replicas - 1)}"
    if not is_dns_label(task.name):
        rule = "is not the name of a task (at most 63 lower case letters, digits and '-')"
        yield Finding(f"{path}.name", task.name, rule)
    elif is_qualified_name(job) and not is_qualified_name(last):
        yield Finding(f"{path}.name", task.name, f"makes pods such as {last!r}, which exceed 63 characters")


def _partitions(of_task: str, task: TaskSpec) -> Findings:
    policy = task.partition_policy
    if policy is None:
        return
    path = f"{of_task}.partitionPolicy"
    for field, number in (
        ("totalPartitions", policy.total_partitions),
        ("partitionSize", policy.partition_size),
    ):
        if number < 1:
            yield Finding(f"{path}.{field}", number, "is too small, must be at least 1")
    product = policy.total_partitions * policy.partition_size
    if min(policy.total_partitions, policy.partition_size) > 0 and task.replicas != product:
        rule = f"is not totalPartitions * partitionSize of its partitionPolicy (write {product})"
        yield Finding(f"{of_task}.replicas", task.replicas, rule)
    minimum = policy.min_partitions * policy.partition_size
    if policy.min_partitions > 0 and task.min_available not in (None, minimum):
        rule = (
            f"is not minPartitions * partitionSize of its partitionPolicy (leave it out, or write {minimum})"
        )
        yield Finding(f"{of_task}.minAvailable", task.min_available, rule)
    if not 0 <= policy.min_partitions <= policy.total_partitions:
        rule = f"is out of bounds (write 0 to {policy.total_partitions}, which is totalPartitions)"
        yield Finding(f"{path}.minPartitions", policy.min_partitions, rule)
    yield from topology_findings(f"{path}.networkTopology", policy.network_topology)


def _mpi_master(spec: JobSpec) -> Findings:
    if _MPI not in spec.plugins:
        return
    master = flags(spec.plugins[_MPI], {_MASTER: _MASTER})[_MASTER]
    if all(task.name != master for task in spec.tasks):
        rule = f"has no task {master!r} for its master (name a task so, or pass --{_MASTER}=TASK)"
        yield Finding(f"spec.plugins.{_MPI}", list(spec.plugins[_MPI]), rule)


def _policies(path: str, policies: Sequence[LifecyclePolicy]) -> Findings:
    """Validate that each event and exit code has one policy, and that any-event stands alone."""
    seen_events: dict[str, str] = {}
    seen_codes: dict[int, str] = {}
    for at, policy in enumerate(policies):
        where = f"{path}[{at}]"
        events = tuple(dict.fromkeys((*policy.events, *((policy.event,) if policy.event else ()))))
        if events and policy.exit_code is not None:
            yield Finding(f"{where}.exitCode", policy.exit_code, "is given together with an event (keep one)")
        elif not events and policy.exit_code is None:
            yield Finding(where, policy.action, "has neither an event nor an exitCode (give one)")
        if policy.action not in ACTIONS:
            yield Finding(f"{where}.action", policy.action, f"is not an action ({known_names_text(ACTIONS)})")
        for event in events:
            if event not in EVENTS:
                yield Finding(f"{where}.event", event, f"is not an event ({known_names_text(EVENTS)})")
            elif event in seen_events:
                rule = f"is given already in {seen_events[event]} (keep one of them)"
                yield Finding(f"{where}.event", event, rule)
            seen_events.setdefault(event, where)
        yield from _exit_code(where, policy.exit_code, seen_codes)
        yield from _timeout(where, policy.timeout)
    if _ANY in seen_events and len(seen_events) > 1:
        listed = join_names([event for event in seen_events if event != _ANY])
        rule = f"means every event, and there are policies for {listed} (leave these out, or list events)"
        yield Finding(f"{seen_events[_ANY]}.event", _ANY, rule)


def _exit_code(where: str, code: int | None, seen: dict[int, str]) -> Findings:
    if code is None:
        return
    if code == 0:
        yield Finding(
            f"{where}.exitCode", code, "is not a failure (write another code, or event TaskCompleted)"
        )
    elif code in seen:
        yield Finding(f"{where}.exitCode", code, f"is given already in {seen[code]} (keep one of them)")
    seen.setdefault(code, where)


def _timeout(where: str, timeout: str) -> Findings:
    if not timeout:
        return
    try:
        parse_duration(timeout)
    except InvalidDuration:
        yield Finding(f"{where}.timeout", timeout, "is not a duration (write 10m, 1h30m or 500ms)")


def _dependencies(tasks: Sequence[TaskSpec]) -> Findings:
    """Validate that dependencies exist and have no cycle: its tasks would never be created."""
    names = {task.name for task in tasks}
    tasks_text = known_names_text(names)
    waits_for: dict[str, set[str]] = {}
    for at, task in enumerate(tasks):
        needed = () if task.depends_on is None else task.depends_on.name
        for position, name in enumerate(needed):
            if name not in names:
                path = f"spec.tasks[{at}].dependsOn.name[{position}]"
                yield Finding(path, name, f"is not a task of this job ({tasks_text})")
        waits_for[task.name] = names.intersection(needed)
    if waiting := _waiting_forever(waits_for):
        rule = "wait for each other in a circle (leave one of the dependencies out)"
        yield Finding("spec.tasks", join_names(waiting), rule)


def _waiting_forever(waits_for: Mapping[str, Collection[str]]) -> list[str]:
    """Return the tasks that are in a cycle of ``waits_for``, or wait for a task in a cycle."""
    waiting: dict[str, list[str]] = {}
    for name, needed in waits_for.items():
        for dependency in needed:
            waiting.setdefault(dependency, []).append(name)
    left = {name: len(needed) for name, needed in waits_for.items()}
    free = [name for name, number in left.items() if not number]
    while free:
        for name in waiting.get(free.pop(), ()):
            left[name] -= 1
            if not left[name]:
                free.append(name)
    return [name for name, number in left.items() if number]


def _volumes(volumes: Sequence[VolumeSpec]) -> Findings:
    seen: dict[str, str] = {}
    for at, volume in enumerate(volumes):
        path = f"spec.volumes[{at}]"
        if not volume.mount_path:
            yield Finding(
                f"{path}.mountPath", "", "is missing (write where containers are to see the volume)"
            )
        elif volume.mount_path in seen:
            rule = f"is given already in {seen[volume.mount_path]} (keep one of them)"
            yield Finding(f"{path}.mountPath", volume.mount_path, rule)
        seen.setdefault(volume.mount_path, path)
        name = volume.volume_claim_name
        if name and not is_dns_subdomain(name):
            rule = "is not the name of a claim (lower case letters, digits, '-' and '.')"
            yield Finding(f"{path}.volumeClaimName", name, rule)
        if not name and bytes(volume.volume_claim) in _NO_CLAIM:
            rule = "has neither volumeClaimName nor volumeClaim (give one of them)"
            yield Finding(path, volume.mount_path, rule)
        if name and bytes(volume.volume_claim) not in _NO_CLAIM:
            yield Finding(f"{path}.volumeClaimName", name, "is given together with volumeClaim (keep one)")


_NO_CLAIM: Final = (b"", b"{}", b"null")
_MUTABLE_FIELDS: Final = ("minAvailable", "priorityClassName")
_MUTABLE_TASK_FIELDS: Final = ("replicas", "minAvailable")
_QUANTITIES: Final = ("requests", "limits", "overhead")


def _immutable_spec(document: Json) -> Json:
    """Return the spec of a job without its mutable fields, and with plugins that are not empty."""
    spec = {key: value for key, value in document.get("spec", {}).items() if key not in _MUTABLE_FIELDS}
    spec["plugins"] = {
        name: arguments or "without arguments" for name, arguments in (spec.get("plugins") or {}).items()
    }
    spec["tasks"] = [
        {key: value for key, value in task.items() if key not in _MUTABLE_TASK_FIELDS}
        for task in spec.get("tasks") or ()
    ]
    spec["volumes"] = [
        # The name of a claim that the job creates is filled in later.
        {key: value for key, value in volume.items() if key != "volumeClaimName"}
        if volume.get("volumeClaim")
        else volume
        for volume in spec.get("volumes") or ()
    ]
    return spec


def _changes(path: str, old: Any, new: Any) -> Iterable[tuple[str, Any, Any]]:
    """Return the differences of two documents with both values; empty values equal absent ones."""
    match old, new:
        case (Mapping(), Mapping() | None) | (None, Mapping()):
            before, after = old or {}, new or {}
            for key in dict.fromkeys((*before, *after)):
                yield from _changes(child_path(path, key), before.get(key), after.get(key))
        case (list(), list()) if len(old) == len(new):
            for at, pair in enumerate(zip(old, new, strict=True)):
                yield from _changes(f"{path}[{at}]", *pair)
        case _:
            if old != new and (old or new) and not _is_same_quantity(path, old, new):
                yield path, old, new


def _is_same_quantity(path: str, old: Any, new: Any) -> bool:
    """Return True for equal quantities: clients normalize 1000m to 1."""
    if not any(f".{name}" in path for name in _QUANTITIES):
        return False
    try:
        return parse_quantity(old) == parse_quantity(new)
    except InvalidQuantity:
        return False
