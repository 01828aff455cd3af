"""Tasks that wait for other tasks of their job: in which order pods are made, and of whom yet."""

from collections.abc import Iterable, Iterator, Sequence

from quorate.api.volcano.job import Job, TaskSpec, task_min_available
from quorate.controllers.volcano.job.job_pods import JobPod


def creatable_tasks(job: Job, members: Sequence[JobPod]) -> Iterator[TaskSpec]:
    """The tasks whose pods may be made now, those that others depend on first, else in their order.

    A task may go once all tasks it depends on (or any, if it says so) have as many pods ready, or done, as
    they need at least.  Who depends on an unknown task, or on itself by whatever way, waits for ever.
    """
    ready = {
        task.name: sum(1 for each in members if each.task == task.name and _counts(each))
        >= task_min_available(task)
        for task in job.spec.tasks
    }
    for task in dependency_order(job.spec.tasks):
        depends = task.depends_on
        answers = [] if depends is None else [ready.get(name, False) for name in depends.name]
        enough = any(answers) if depends is not None and depends.iteration == "any" else all(answers)
        if enough or not answers:
            yield task


def _counts(member: JobPod) -> bool:
    return member.is_ready and not member.is_terminating


def dependency_order(tasks: Iterable[TaskSpec]) -> list[TaskSpec]:
    """``tasks`` with each after those it depends on, as far as that can be."""
    by_name = {task.name: task for task in tasks}
    apply_policies: dict[str, TaskSpec] = {}
    begun: set[str] = set()

    def add(task: TaskSpec) -> None:
        if task.name in begun:
            return
        begun.add(task.name)
        for name in () if task.depends_on is None else task.depends_on.name:
            if name in by_name:
                add(by_name[name])
        apply_policies[task.name] = task

    for task in by_name.values():
        add(task)
    return list(apply_policies.values())
