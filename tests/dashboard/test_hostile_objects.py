"""Hostile objects break no view: what can be decoded is shown, and every answer can be encoded."""

import json
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.meta import Key
from quorate.dashboard.history.recorder import Recorder
from quorate.dashboard.history.timeline import group_milestones, milestones_of
from quorate.dashboard.model.changes import Changed
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.informers import informers_of
from quorate.dashboard.queries import (
    ADMINISTRATOR,
    NO_ESTIMATES,
    Gang,
    PodGroupQuery,
    Viewer,
    WorkloadQuery,
)
from quorate.dashboard.views import (
    node_views,
    overview,
    pod_group_views,
    queue_views,
    search,
    workload_views,
)
from quorate.dashboard.views.workload_detail import pod_set_rows
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.rest.config import RestConfig
from quorate.kube.selection import Selection, Watched
from quorate.queueing.nodes.occupants import usage_on_node
from tests.dashboard.objects import NOW, tenant
from tests.fuzz.attacks import _object
from tests.fuzz.kinds import KINDS, NAMESPACE, FuzzedKind
from tests.fuzz.mutations import mutate
from tests.fuzz.schemas import ANY, FieldSchema, schema_of
from tests.kube.virtual_clock import VirtualClock

OBJECTS = 600


def put_hostile_objects(informers: list[Informer[Any]], rng: random.Random) -> int:
    """Put objects into the informers as a watch does; return how many of them can be decoded."""
    by_kind = {(each.resource.api_version, each.resource.kind): each for each in informers}
    kinds = [each for each in KINDS if (each.resource.api_version, each.resource.kind) in by_kind]
    decoded = 0
    for number in range(OBJECTS):
        kind = rng.choices(kinds, [each.weight for each in kinds])[0]
        informer = by_kind[kind.resource.api_version, kind.resource.kind]
        body = a_hostile_object(kind, rng, f"object-{number % (OBJECTS // 2)}", number)
        try:
            obj = codec.decode(informer.resource.type, json.dumps(body).encode())
            key = obj.metadata.key
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
            continue
        decoded += 1
        informer._put(key, obj)
        if rng.random() < 0.1:
            informer._put(key, None)
    return decoded


def a_hostile_object(kind: FuzzedKind, rng: random.Random, name: str, version: int) -> dict[str, Any]:
    body = _object(kind, rng, name, rng.choice((0, 1, 1, 2, 3, 6)))
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        metadata = body["metadata"] = {"name": name}
    metadata |= {
        "name": name, "uid": f"{kind.resource.plural}-{name}", "resourceVersion": str(version + 1),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    if kind.resource.namespaced:
        metadata["namespace"] = NAMESPACE
    if kind.status is not None and rng.random() < 0.7:
        schema = schema_of(kind.resource.api_version, kind.resource.kind).properties.get("status", ANY)
        status = mutate(
            {"x": kind.status(rng)}, FieldSchema("object", {"x": schema}), rng, rng.choice((0, 1, 2))
        )
        body["status"] = status.get("x")
    return body


def answers(data: ClusterData, viewer: Viewer) -> list[object]:
    found: list[object] = [
        overview.overview(data, viewer, NOW),
        queue_views.cluster_queues(data, viewer, NOW),
        queue_views.local_queues(data, viewer, NOW),
        pod_group_views.gang_queues(data, viewer),
        search.search(data, viewer, "object", 100),
        *(node_views.nodes(data, viewer, name, Gang(8, {"cpu": 1_000})) for name in ("", *data.topologies)),
        node_views.gang_placement(data, viewer, Gang(8, {"cpu": 1_000})),
        *(queue_views.cluster_queue(data, viewer, name, NOW, ()) for name in data.cluster_queues(viewer)),
    ]
    found += [
        workload_views.workloads(data, viewer, WorkloadQuery(sort=sort, limit=500), NO_ESTIMATES)
        for sort in workload_views.SORTS
    ]
    found += [
        pod_group_views.pod_groups(data, viewer, PodGroupQuery(sort=sort, limit=500))
        for sort in pod_group_views.SORTS
    ]
    for listed in data.workloads.by_key.values():
        found.append(milestones_of(listed.workload, (), None, str))
        found.append(tuple(pod_set_rows(data, listed.workload)))
    found += [group_milestones(group, (), str) for group in data.pod_groups.values()]
    return found


def filled_by(watched: list[Watched]) -> list[Informer[Any]]:
    """Return the informers, each once, of which some are read by selections."""
    informers = (each.informer if isinstance(each, Selection) else each for each in watched)
    return list(dict.fromkeys(informers))


@pytest.mark.parametrize("seed", range(4))
def test_every_view_of_hostile_objects_can_be_encoded(seed: int) -> None:
    rng = random.Random(seed)
    data, notes = ClusterData(default_configuration()), list[Changed]()
    client = Client(RestConfig("http://127.0.0.1:9"), random.Random(1))  # never entered: it sends nothing
    informers = filled_by(informers_of(data, client, VirtualClock(NOW), notes.append))
    assert put_hostile_objects(informers, rng) > OBJECTS // 3
    data.state.nodes.set_has_nodes(True)
    assert len(data.workloads.by_key) > 10
    assert data.pod_groups
    assert notes
    for viewer in (ADMINISTRATOR, tenant(NAMESPACE)):
        for answer in answers(data, viewer):
            assert codec.encode(answer)
    recorder = Recorder()
    for listed in list(data.workloads.by_key.values()):
        recorder.workload_changed(data, None, listed.workload)
    assert codec.encode([list(recorder.samples(data, NOW)), recorder.pending])


def test_the_groups_of_workloads_are_those_of_the_remaining_objects() -> None:
    """The index after many changes is the index of the last objects alone."""
    rng = random.Random(7)
    data = ClusterData(default_configuration())
    client = Client(RestConfig("http://127.0.0.1:9"), random.Random(1))
    informers = filled_by(informers_of(data, client, VirtualClock(NOW), lambda change: None))
    put_hostile_objects(informers, rng)
    index = data.workloads
    assert {key for members in index.groups.values() for key in members} == index.by_key.keys()
    assert all(
        listed.group == group for group, members in index.groups.items() for listed in members.values()
    )
    fresh = type(index)()
    for listed in index.by_key.values():
        fresh.put(listed.workload)
    assert {group: set(members) for group, members in fresh.groups.items()} == {
        group: set(members) for group, members in index.groups.items()
    }
    used = Counter[str]()
    for pod in next(each for each in informers if each.resource.kind == "Pod"):
        if pod.uses_node:
            used.update(usage_on_node(pod))
    assert {name: amount for name, amount in used.items() if amount} == dict(data.used)
    for key in list(index.by_key):
        informers_by_kind = {each.resource.kind: each for each in informers}
        informers_by_kind["Workload"]._put(Key(key.namespace, key.name), None)
    assert (index.by_key, index.groups) == ({}, {})
