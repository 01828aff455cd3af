"""Snapshots: a world made of the objects of a live cluster, which ``world`` reads.

Workloads that have not finished are in it with their status; finished ones tell how long others of their
kind, or of their queue, run.  Of pod templates only what decides about admission and placement is kept: no
commands, no environment, no images.
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
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.api.syntax import is_dns_label
from quorate.kube.resources import WORKLOADS, Resource
from quorate.queueing import conditions as c
from quorate.queueing.planning.work_kinds import WorkKind, kind_of, queue_of
from quorate.simulate.estimates.expected_arrivals import Expected, can_be_played, equally_likely
from quorate.simulate.estimates.run_time_store import RunTimeStore, learned_from
from quorate.simulate.inputs.scenario import API_VERSION, CLASS_ANNOTATION, Arrivals, JobClass, Scenario
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import FEWEST_RUN_TIMES, HORIZON_S, MAX_RUN_TIMES

# In the order of the file.  Nodes are added where a flavor has a Topology.
_OWN_DOMAINS: Final = ("kueue.x-k8s.io/", "quorate.dev/")


class RunTimes(msgspec.Struct, frozen=True):
    """Run times of the jobs of a queue, or of one kind of work in it, and their origin."""

    kind: WorkKind
    seconds: tuple[float, ...]  # equally likely, ascending
    origin: str  # a sentence


def run_times(
    workloads: Iterable[Workload], assumed_s: float, store: RunTimeStore | None = None
) -> Iterator[RunTimes]:
    """Yield the run times of unfinished work: by queue, then by kind of work with known run times.

    The run times come from ``store``, by default from the finished ``workloads``.  Without run times of a
    queue, its workloads run as long as they declare.  Workloads that declare nothing get the run times of all
    queues if at least ``FEWEST_RUN_TIMES`` are known, otherwise ``assumed_s``.
    """
    workloads = list(workloads)
    store = learned_from(workloads) if store is None else store
    kinds: set[WorkKind] = set()  # learned
    unknown: set[WorkKind] = set()  # queues
    for workload in workloads:
        if c.is_finished(workload):
            continue
        best = store.best_kind(kind_of(workload))
        if best is not None:
            kinds |= {best, WorkKind(best.queue)}
        elif workload.spec.maximum_execution_time_seconds is None:
            unknown.add(WorkKind(queue_of(workload)))
    for kind in sorted(kinds | unknown):  # a queue sorts before its kinds, and none of its kinds is unknown
        if kind in kinds:
            own = store.times_of(kind)
            yield RunTimes(kind, own, f"{kind}: {len(own)} finished workloads")
        elif len(everywhere := store.everywhere()) >= FEWEST_RUN_TIMES:
            origin = f"none has finished; those of the {len(everywhere)} finished workloads of all queues"
            yield RunTimes(kind, quantiles(everywhere), f"{kind}: {origin}")
        else:
            finished = f"only {len(everywhere)} in all queues" if everywhere else "none"
            origin = f"workloads that have finished: {finished}; {assumed_s:g} s is assumed"
            yield RunTimes(kind, (assumed_s,), f"{kind}: {origin}")


def snapshot_world(
    objects: Mapping[Resource[Any], Iterable[Any]],
    times: Iterable[RunTimes],
    now: float,
    configuration: Configuration,
) -> World:
    """Return the world of ``objects`` at ``now``, as it would be read from the file of a snapshot."""
    by_key = {
        (resource.api_version, resource.kind, obj.metadata.key): obj
        for resource, several in objects.items()
        for obj in several
    }
    world = World(Path(), Scenario(begins_s=now), configuration, by_key)
    return with_run_times(world, times)


def with_run_times(world: World, times: Iterable[RunTimes]) -> World:
    """Return ``world`` with these run times of its existing workloads."""
    times = tuple(times)
    named = _names_of_kinds(times)
    existing = tuple(
        JobClass(
            name=_class_name(time.kind, number),
            namespace=time.kind.queue[0],
            queues=(time.kind.queue[1],),
            arrivals=Arrivals(),
            pod_sets=(),
            runs=equally_likely(time.seconds),
        )
        for number, time in enumerate(times)
    )
    workloads = [_with_class(workload, named) for workload in world.of_kind(WORKLOADS)] if named else ()
    scenario = msgspec.structs.replace(world.scenario, existing=existing)
    return msgspec.structs.replace(world.with_objects(WORKLOADS, workloads), scenario=scenario)


def with_expected(world: World, expected: Expected) -> World:
    """Return ``world`` in which these jobs are submitted, and which ends at the horizon of forecasts."""
    classes = tuple(sorted(expected.classes, key=lambda job_class: job_class.name))
    scenario = msgspec.structs.replace(world.scenario, classes=classes, until_s=HORIZON_S)
    return msgspec.structs.replace(world, scenario=scenario)


def documents(
    objects: Mapping[Resource[Any], Iterable[Any]], times: Iterable[RunTimes], now: float, configuration: str
) -> Iterator[str]:
    """Yield the documents of the file, in YAML, the scenario first; ``configuration`` is in YAML or empty."""
    times = tuple(times)
    named = _names_of_kinds(times)
    yield yaml.safe_dump(_scenario(times, now), sort_keys=False, width=120)
    if configuration:
        yield configuration
    for resource, stored in objects.items():
        for obj in stored:
            if resource is not WORKLOADS:
                yield _document(resource, msgspec.structs.replace(obj, metadata=_trimmed(obj.metadata)))
            elif not c.is_finished(obj) and can_be_played(obj):
                yield _document(resource, _with_class(_without_details(obj), named))


def _scenario(times: Sequence[RunTimes], now: float) -> dict[str, Any]:
    existing = [
        {
            "name": _class_name(time.kind, number),
            "namespace": time.kind.queue[0],
            "queues": [time.kind.queue[1]],
            "runs": {"choice": [round(seconds, 3) for seconds in time.seconds]},
        }
        for number, time in enumerate(times)
    ]
    moment: datetime = at_epoch(now)
    return {
        "apiVersion": API_VERSION,
        "kind": "Scenario",
        "begins": moment.isoformat().replace("+00:00", "Z"),
        "existing": existing,
        "jobs": [],
    }


def _class_name(kind: WorkKind, number: int) -> str:
    if kind.pattern:
        return f"kind-{number}"
    name = "-".join(kind.queue)
    return name if is_dns_label(name) else f"queue-{number}"


def _names_of_kinds(times: Iterable[RunTimes]) -> dict[WorkKind, str]:
    """Return the class names of kinds with a pattern; other workloads have the first class of their queue."""
    return {
        time.kind: _class_name(time.kind, number) for number, time in enumerate(times) if time.kind.pattern
    }


def _with_class(workload: Workload, named: Mapping[WorkKind, str]) -> Workload:
    name = named.get(kind_of(workload))
    if name is None:
        return workload
    annotations = {**workload.metadata.annotations, CLASS_ANNOTATION: name}
    metadata = msgspec.structs.replace(workload.metadata, annotations=annotations)
    return msgspec.structs.replace(workload, metadata=metadata)


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
        msgspec.structs.replace(pod_set, template=_template(pod_set)) for pod_set in workload.spec.pod_sets
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
        tuple(msgspec.structs.replace(container, image="") for container in several)
        for several in (spec.containers, spec.init_containers)
    )
    spec = msgspec.structs.replace(spec, containers=containers, init_containers=init_containers)
    return msgspec.Raw(codec.encode(msgspec.structs.replace(template, spec=spec)))


def quantiles(ascending: Sequence[float]) -> tuple[float, ...]:
    """Return at most ``MAX_RUN_TIMES`` of the values, at equal distances of rank."""
    count = min(len(ascending), MAX_RUN_TIMES)
    return tuple(ascending[(2 * at + 1) * len(ascending) // (2 * count)] for at in range(count))
