"""What the smallest useful part of a job needs: the ``minResources`` of its pod group.

Source: Volcano's Job controller.  The replicas that make up ``minAvailable`` are chosen by the priority of
their tasks; what they use of a quota is added up, exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quorate.api.batch import decode_template
from quorate.api.core import Resources
from quorate.api.core.pod_resources import quota_usage, sum_resources
from quorate.api.volcano.job import Job, task_min_available


@dataclass(frozen=True, slots=True)
class TaskReplicas:
    """A task as the choice sees it."""

    replicas: int
    minimum: int
    priority: int


def min_resources(job: Job, priorities: Mapping[str, int]) -> Resources:
    """The usage of the ``minAvailable`` most important replicas of a completed job.

    ``priorities`` are those of the PriorityClasses by name; a class that is not there counts as 0.
    """
    templates = [decode_template(task.template) for task in job.spec.tasks]
    parts = [
        TaskReplicas(
            task.replicas, task_min_available(task), priorities.get(template.spec.priority_class_name, 0)
        )
        for task, template in zip(job.spec.tasks, templates, strict=True)
    ]
    chosen = replicas_by_priority(parts, job.spec.min_available)
    return sum_resources(
        multiply(quota_usage(template.spec), count)
        for template, count in zip(templates, chosen, strict=True)
        if count
    )


def replicas_by_priority(parts: Sequence[TaskReplicas], wanted: int) -> list[int]:
    """How many replicas of each part are among the ``wanted`` most important ones.

    Parts are walked from the highest priority down, equals in their order.  When fewer are wanted than the
    parts need at least, the walk takes whole parts; else every part gets its minimum first, as far as it
    goes, and a second walk fills up from what is left of each.
    """
    walk = sorted(range(len(parts)), key=lambda index: -parts[index].priority)
    if wanted < sum(part.minimum for part in parts):
        return _taken(walk, [part.replicas for part in parts], wanted)
    first = _taken(walk, [part.minimum for part in parts], wanted)
    spare = [max(part.replicas - part.minimum, 0) for part in parts]
    second = _taken(walk, spare, wanted - sum(first))
    return [one + other for one, other in zip(first, second, strict=True)]


def _taken(walk: Iterable[int], offers: Sequence[int], wanted: int) -> list[int]:
    taken = [0] * len(offers)
    for index in walk:
        taken[index] = min(offers[index], wanted)
        wanted -= taken[index]
    return taken


def min_task_member(job: Job) -> dict[str, int]:
    """How many pods of each task must be there, by the task's name."""
    return {task.name: task_min_available(task) for task in job.spec.tasks}


def multiply(resources: Resources, count: int) -> Resources:
    return {name: amount * count for name, amount in resources.items()}
