"""Pseudonyms: no name is left, and the world is played with the same result."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml
from msgspec import inspect

from quorate.api.batch import decode_template
from quorate.kube.resources import PLACEABLE_NODES
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.inputs import pseudonyms
from quorate.simulate.inputs.pseudonyms import pseudonymised
from quorate.simulate.inputs.world import read_world
from quorate.simulate.kinds import KINDS

KUEUE = "kueue.x-k8s.io/v1beta2"
SIMULATE = "simulate.quorate.dev/v1alpha1"
RACK, HOST = "cloud.provider/rack", "kubernetes.io/hostname"
Json = dict[str, Any]

# Fields with strings that are no names, or that refer to no object: see the module.
KEPT = frozenset(
    (
        "annotations{}", "apiGroup", "apiVersion", "controllerName", "coveredResources[]", "effect", "group",
        "image", "key", "kind", "levels[]", "nodeLabel", "operator", "podIndexLabel", "recurrence",
        "podSetSliceRequiredTopology", "preferred", "prefix", "protocol", "reason", "required",
        "resourceVersion", "restartPolicy", "schedulerName", "subGroupIndexLabel", "suffix", "topology",
        "type", "uid", "underlyingCause",
    )
)  # fmt: skip


SETTINGS = {
    "backfill": "EASY",
    "on-overrun": "Evict",
    "priority-aging": "{every: 10m, atMost: 5}",
    "node-fit": "Require",
}


def an_object(kind: str, name: str, spec: Json | None = None, **metadata: Any) -> Json:
    group = {"Node": "v1", "Namespace": "v1", "Scenario": SIMULATE}.get(kind, KUEUE)
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}}


def a_node(number: int) -> Json:
    name = f"acme-host-{number}"
    labels = {HOST: name, RACK: f"acme-rack-{number // 2}", "gen": str(number)}
    node = an_object("Node", name, labels=labels)
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "acme kubelet"}]
    resources = {"cpu": "4", "pods": "110"}
    return {**node, "status": {"allocatable": resources, "capacity": resources, "conditions": conditions}}


def a_queue(name: str, cpu: int, **spec: Any) -> Iterator[Json]:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    flavors = [{"name": "acme-racks", "resources": resources}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "acme-team"}}
    yield an_object(
        "ClusterQueue",
        name,
        {"resourceGroups": groups, "cohortName": "acme-all", "namespaceSelector": selector, **spec},
    )
    yield an_object("LocalQueue", f"{name}-local", {"clusterQueue": name}, namespace="acme-team")


def a_workload(number: int, queue: str, hosts: tuple[str, ...] = (), **pods: Any) -> Json:
    gen = {"key": "gen", "operator": "Gt", "values": ["0"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [gen]}]}
    container = {"name": "acme-main", "image": "", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "restartPolicy": "Never", **pods}
    if number % 3 == 0:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pod_set = {
        "name": "acme-workers",
        "count": 3,
        "template": {"spec": spec},
        "topologyRequest": {"required": RACK if number % 2 else HOST},
    }
    workload = an_object(
        "Workload",
        f"acme-job-{number}",
        {"queueName": f"{queue}-local", "priority": number % 2 * 10, "podSets": [pod_set]},
        namespace="acme-team",
        uid=f"uid-{number:03}",
        creationTimestamp="2026-01-05T00:00:00Z",
        labels={"owner": "acme-user"},
        annotations={"kueue.x-k8s.io/podset-group-name": "acme-group"},
        ownerReferences=[
            {"apiVersion": "batch/v1", "kind": "Job", "name": f"acme-job-{number}", "uid": f"job-{number}"}
        ],
    )
    if not hosts:
        return workload
    roots = {"prefix": "acme-host-", "roots": list(hosts)}
    part = {
        "domainCount": len(hosts),
        "valuesPerLevel": [{"individual": roots}],
        "podCounts": {"individual": [2, 1]},
    }
    assignment = {
        "name": "acme-workers", "count": 3, "flavors": {"cpu": "acme-racks"}, "resourceUsage": {"cpu": "3"},
        "topologyAssignment": {"levels": [HOST], "slices": [part]},
    }  # fmt: skip
    conditions = [
        {"type": type_, "status": "True", "reason": "Test", "message": "by acme-user",
         "lastTransitionTime": "2026-01-05T00:00:00Z"}
        for type_ in ("QuotaReserved", "Admitted")
    ]  # fmt: skip
    admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
    return {**workload, "status": {"admission": admission, "conditions": conditions}}


def a_snapshot() -> list[str]:
    """Ties everywhere: workloads of one time and priority, equal nodes and queues."""
    scenario = {
        "apiVersion": SIMULATE, "kind": "Scenario", "begins": "2026-01-05T00:01:00Z", "jobs": [],
        "existing": [
            {"name": f"acme-class-{queue}", "namespace": "acme-team", "queues": [f"acme-{queue}-local"],
             "runs": {"choice": [20, 60, 90, 300]}}
            for queue in ("b", "a")
        ],
    }  # fmt: skip
    levels = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    objects = [
        an_object("Namespace", "acme-team", labels={"kubernetes.io/metadata.name": "acme-team"}),
        an_object("Topology", "acme-topology", levels),
        an_object("ResourceFlavor", "acme-racks", {"nodeLabels": {}, "topologyName": "acme-topology"}),
        *a_queue("acme-b", 9, preemption=preemption),
        *a_queue("acme-a", 6, preemption=preemption),
        *map(a_node, range(5)),
        a_workload(10, "acme-b", hosts=("0", "3")),
        *(a_workload(number, "acme-b" if number % 4 < 2 else "acme-a") for number in range(9)),
    ]
    return [yaml.safe_dump(scenario), *(json.dumps(each) + "\n" for each in objects)]


def played(documents: list[str], directory: Path) -> Run:
    file = directory / "snapshot.yaml"
    file.write_text("---\n".join(documents))
    return play(read_world(file))


def test_a_snapshot_with_pseudonyms_is_played_with_the_same_result(tmp_path: Path) -> None:
    original = a_snapshot()
    before, after = (played(each, tmp_path) for each in (original, pseudonymised(original)))
    assert len(before.jobs) == 10
    assert len(set(before.jobs.admitted_ms)) > 3  # they wait for each other
    for column in ("admitted_ms", "ended_ms", "outcome", "class_index"):
        assert list(getattr(before.jobs, column)) == list(getattr(after.jobs, column)), column


def test_no_name_and_no_value_of_a_label_is_left() -> None:
    text = "".join(pseudonymised(a_snapshot()))
    assert "acme" not in text
    assert RACK in text
    assert '"nominalQuota":9' in text


def test_the_values_of_labels_that_are_compared_as_numbers_stay() -> None:
    nodes = [json.loads(each) for each in pseudonymised(a_snapshot()) if '"Node"' in each]
    assert [each["metadata"]["labels"]["gen"] for each in nodes] == ["0", "1", "2", "3", "4"]
    assert all(each["metadata"]["labels"][HOST] == each["metadata"]["name"] for each in nodes)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            {"metadata": {"name": "b", "labels": {"team": "a"}}, "status": {"message": "secret"}},
            {"metadata": {"name": "n2", "labels": {"team": "n1"}}, "status": {}},
            id="numbers are in the order of the names",
        ),
        pytest.param(
            {"spec": {"flavors": [{"name": "a", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}},
            {"spec": {"flavors": [{"name": "n1", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}},
            id="names of resources stay",
        ),
        pytest.param(
            {"owners": {"clusterQueues": ["b"], "localQueues": [{"namespace": "d", "name": "c"}]},
             "amounts": [{"flavor": "a", "resources": {"cpu": 1}}], "nodes": {"names": ["e"]}},
            {"owners": {"clusterQueues": ["n2"], "localQueues": [{"namespace": "n4", "name": "n3"}]},
             "amounts": [{"flavor": "n1", "resources": {"cpu": 1}}], "nodes": {"names": ["n5"]}},
            id="what a Reservation reserves, and its owners",
        ),
        pytest.param(
            {"metadata": {"annotations": {"x/slice-of": "b/a", "x/boost": "-5", "x/a-topology": "r"}}},
            {"metadata": {"annotations": {"x/slice-of": "n2/n1", "x/boost": "-5", "x/a-topology": "r"}}},
            id="references in annotations, numbers and levels",
        ),
        pytest.param(
            {"metadata": {"annotations": {f"quorate.dev/{key}": text for key, text in SETTINGS.items()}}},
            {"metadata": {"annotations": {f"quorate.dev/{key}": text for key, text in SETTINGS.items()}}},
            id="settings of queues and flavors stay",
        ),
        pytest.param(
            {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "namespace": "a", "labels": {"name": "kept"},
             "managedJobsNamespaceSelector": {"matchLabels": {"team": "b"}}},
            {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "namespace": "n1", "labels": {"name": "kept"},
             "managedJobsNamespaceSelector": {"matchLabels": {"team": "n2"}}},
            id="of a Configuration only selectors and the namespace",
        ),
    ],
)  # fmt: skip
def test_names_by_field(document: Json, expected: Json) -> None:
    (text,) = pseudonymised([json.dumps(document)])
    assert json.loads(text) == expected


def test_each_field_of_a_snapshot_with_strings_is_known() -> None:
    """A new field of a kind in the snapshot is either a name or kept: this has to be decided."""
    template = get_type_hints(decode_template)["return"]
    types = [*(resource.type for resource in (*KINDS, PLACEABLE_NODES)), template]
    fields = {field for each in types for field in _string_fields(inspect.type_info(each), "", set())}
    known = {
        *pseudonyms.NAMES,
        *(f"{each}[]" for each in pseudonyms.LISTS_OF_NAMES),
        *(f"{each}{{}}" for each in pseudonyms.MAPS_TO_NAMES),
        *pseudonyms.LEFT_OUT,
        *(f"{each}[]" for each in pseudonyms.LEFT_OUT),
        "recoveryTimeout", "schedulingTimeout", "timeout",  # durations
    }  # fmt: skip
    assert fields - known - KEPT == set()
    assert {"queueName", "values[]", "nodeSelector{}"} <= fields


def _string_fields(type_: inspect.Type, path: str, seen: set[type]) -> Iterator[str]:
    match type_:
        case inspect.StrType():
            yield path
        case inspect.StructType(cls=cls, fields=fields) if cls not in seen:
            seen.add(cls)
            for field in fields:
                yield from _string_fields(field.type, field.encode_name, seen)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _string_fields(each, path, seen)
        case inspect.DictType(value_type=inner):
            yield from _string_fields(inner, f"{path}{{}}", seen)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            yield from _string_fields(inner, f"{path}[]", seen)
        case inspect.FrozenSetType(item_type=inner) | inspect.SetType(item_type=inner):
            yield from _string_fields(inner, f"{path}[]", seen)
        case _:
            pass
