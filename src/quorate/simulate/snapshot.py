"""Snapshots: a world made of the objects of a live cluster, which ``world`` reads.

Workloads that have not finished are in it with their status; finished ones tell how long the jobs of their
queue run.  Of pod templates only what decides about admission and placement is kept: no commands, no
environment, no images.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.configuration import Configuration
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import ObjectMeta, at_epoch, epoch, find_condition
from quorate.api.syntax import is_dns_label
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from quorate.queueing import conditions as c
from quorate.simulate.distributions import Choice
from quorate.simulate.scenario import API_VERSION, Arrivals, JobClass, Scenario
from quorate.simulate.world import World

# In the order of the file.  Nodes are added where a flavor has a Topology.
KINDS: Final[tuple[Resource[Any], ...]] = (
    NAMESPACES,
    LIMIT_RANGES,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    RESOURCE_FLAVORS,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
    COHORTS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    WORKLOADS,
)
MOST_RUN_TIMES: Final = 50  # of a class: quantiles of those that were seen
_OWN_DOMAINS: Final = ("kueue.x-k8s.io/", "quorate.dev/")

Queue = tuple[str, str]  # namespace and name of a local queue


class RunTimes(msgspec.Struct, frozen=True):
    """How long the jobs of a queue run, and where that is from."""

    queue: Queue
    seconds: tuple[float, ...]  # equally likely, ascending
    origin: str  # a sentence


def run_times(workloads: Sequence[Workload], assumed_s: float) -> Iterator[RunTimes]:
    """Yield the run times of each queue with workloads that have not finished and declare none, by name.

    They are those of the finished workloads of the queue; if there are none, of all queues; if there are none
    at all, ``assumed_s``.
    """
    seen: dict[Queue, list[float]] = {}
    for each in workloads:
        if (seconds := _ran_s(each)) is not None:
            seen.setdefault(_queue(each), []).append(seconds)
    everywhere = sorted(seconds for several in seen.values() for seconds in several)
    wanted = {
        _queue(each)
        for each in workloads
        if not c.is_finished(each)
        and (each.spec.maximum_execution_time_seconds is None or _queue(each) in seen)
    }
    for queue in sorted(wanted):
        own = sorted(seen.get(queue, ()))
        name = "/".join(queue)
        if own:
            yield RunTimes(queue, quantiles(own), f"{name}: {len(own)} finished workloads")
        elif everywhere:
            yield RunTimes(
                queue, quantiles(everywhere),
                f"{name}: none has finished; those of the {len(everywhere)} finished workloads of all queues",
            )  # fmt: skip
        else:
            yield RunTimes(
                queue, (assumed_s,), f"{name}: no workload has finished; {assumed_s:g} s is assumed"
            )


def snapshot_world(
    objects: Mapping[Resource[Any], Iterable[Any]],
    times: Iterable[RunTimes],
    now: float,
    configuration: Configuration,
) -> World:
    """Return the world of ``objects`` at ``now``, as it would be read from the file of a snapshot."""
    existing = tuple(
        JobClass(
            name=_class_name(each.queue, number),
            namespace=each.queue[0],
            queues=(each.queue[1],),
            arrivals=Arrivals(),
            pod_sets=(),
            runs=Choice(each.seconds, tuple(map(float, range(1, len(each.seconds) + 1)))),
        )
        for number, each in enumerate(times)
    )
    found = {
        (resource.api_version, resource.kind, each.metadata.key): each
        for resource, several in objects.items()
        for each in several
    }
    return World(Path(), Scenario(begins_s=now, existing=existing), configuration, found)


def documents(
    objects: Mapping[Resource[Any], Iterable[Any]], times: Iterable[RunTimes], now: float, configuration: str
) -> Iterator[str]:
    """Yield the documents of the file, in YAML, the scenario first; ``configuration`` is in YAML or empty."""
    yield yaml.safe_dump(_scenario(list(times), now), sort_keys=False, width=120)
    if configuration:
        yield configuration
    for resource, found in objects.items():
        for each in found:
            if resource is not WORKLOADS:
                yield _document(resource, msgspec.structs.replace(each, metadata=_trimmed(each.metadata)))
            elif not c.is_finished(each):
                yield _document(resource, _without_details(each))


def _scenario(times: Sequence[RunTimes], now: float) -> dict[str, Any]:
    existing = [
        {
            "name": _class_name(each.queue, number),
            "namespace": each.queue[0],
            "queues": [each.queue[1]],
            "runs": {"choice": [round(seconds, 3) for seconds in each.seconds]},
        }
        for number, each in enumerate(times)
    ]
    moment: datetime = at_epoch(now)
    return {
        "apiVersion": API_VERSION,
        "kind": "Scenario",
        "begins": moment.isoformat().replace("+00:00", "Z"),
        "existing": existing,
        "jobs": [],
    }


def _class_name(queue: Queue, number: int) -> str:
    name = "-".join(queue)
    return name if is_dns_label(name) else f"queue-{number}"


def _document(resource: Resource[Any], obj: Any) -> str:
    # JSON is YAML, and is written and read much faster.
    return resource.encode(obj).decode() + "\n"


def _trimmed(metadata: ObjectMeta) -> ObjectMeta:
    annotations = {
        name: value
        for name, value in metadata.annotations.items()
        if any(domain in name for domain in _OWN_DOMAINS)
    }
    return msgspec.structs.replace(metadata, annotations=annotations)


def _without_details(workload: Workload) -> Workload:
    pod_sets = tuple(
        msgspec.structs.replace(each, template=_template(each)) for each in workload.spec.pod_sets
    )
    return msgspec.structs.replace(
        workload,
        metadata=_trimmed(workload.metadata),
        spec=msgspec.structs.replace(workload.spec, pod_sets=pod_sets),
    )


def _template(pod_set: PodSet) -> msgspec.Raw:
    template = decode_template(pod_set.template)
    spec = template.spec
    containers, init_containers = (
        tuple(msgspec.structs.replace(each, image="") for each in several)
        for several in (spec.containers, spec.init_containers)
    )
    spec = msgspec.structs.replace(spec, containers=containers, init_containers=init_containers)
    return msgspec.Raw(codec.encode(msgspec.structs.replace(template, spec=spec)))


def _queue(workload: Workload) -> Queue:
    return workload.metadata.namespace, workload.spec.queue_name


def _ran_s(workload: Workload) -> float | None:
    """Return how long a finished workload ran in its last admission; None if that is not known."""
    if not c.is_finished(workload):
        return None
    ended, began = (find_condition(workload.status.conditions, each) for each in (c.FINISHED, c.ADMITTED))
    if ended is None or began is None or began.status != "True":
        return None
    if ended.last_transition_time is None or began.last_transition_time is None:
        return None
    return max(0.0, epoch(ended.last_transition_time) - epoch(began.last_transition_time))


def quantiles(ascending: Sequence[float]) -> tuple[float, ...]:
    """Return at most ``MOST_RUN_TIMES`` of the values, at equal distances of rank."""
    count = min(len(ascending), MOST_RUN_TIMES)
    return tuple(ascending[(2 * at + 1) * len(ascending) // (2 * count)] for at in range(count))
