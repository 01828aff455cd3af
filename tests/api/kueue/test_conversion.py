"""Conversion between v1beta1 and v1beta2: renamed, moved and dropped fields."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.kueue.conversion import V1BETA1, V1BETA2, UnknownVersion, convert_version
from quorate.api.kueue.topology import topology_assignment

Json = dict[str, Any]


def an_object(kind: str, api_version: str, spec: Json, status: Json | None = None) -> Json:
    body: Json = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return body if status is None else body | {"status": status}


def assigned(topology: Json) -> Json:
    return {"admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": topology}]}}


DOMAINS = {
    "levels": ["rack", "host"],
    "domains": [{"values": ["r1", "a"], "count": 2}, {"values": ["r1", "b"], "count": 3}],
}
SLICES = {
    "levels": ["rack", "host"],
    "slices": [
        {
            "domainCount": 2,
            "podCounts": {"individual": [2, 3]},
            "valuesPerLevel": [{"universal": "r1"}, {"individual": {"roots": ["a", "b"]}}],
        }
    ],
}
OWN = "kueue.x-k8s.io"


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        pytest.param(
            "Workload",
            ({"priorityClassName": "high", "priorityClassSource": f"{OWN}/workloadpriorityclass"},),
            ({"priorityClassRef": {"group": OWN, "kind": "WorkloadPriorityClass", "name": "high"}},),
            id="a workload's own class",
        ),
        pytest.param(
            "Workload",
            ({"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"},),
            ({"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}},),
            id="a pod's class",
        ),
        pytest.param(
            "Workload",
            ({}, {"accumulatedPastExexcutionTimeSeconds": 7}),
            ({}, {"accumulatedPastExecutionTimeSeconds": 7}),
            id="the misspelled field name",
        ),
        pytest.param("Workload", ({}, assigned(DOMAINS)), ({}, assigned(SLICES)), id="domains and slices"),
        pytest.param("ClusterQueue", ({"cohort": "all"},), ({"cohortName": "all"},), id="cohort"),
        pytest.param(
            "LocalQueue", ({}, {"flavorUsage": [1]}), ({}, {"flavorsUsage": [1]}), id="flavor usage"
        ),
        pytest.param(
            "MultiKueueCluster",
            ({"kubeConfig": {"location": "a"}},),
            ({"clusterSource": {"kubeConfig": {"location": "a"}}},),
            id="a cluster's source",
        ),
        pytest.param(
            "ResourceFlavor",
            ({"nodeLabels": {"a": "b"}},),
            ({"nodeLabels": {"a": "b"}},),
            id="a kind with one schema",
        ),
    ],
)
def test_conversion_in_both_directions(kind: str, older: tuple[Json, ...], newer: tuple[Json, ...]) -> None:
    old, new = an_object(kind, V1BETA1, *older), an_object(kind, V1BETA2, *newer)
    assert convert_version(old, V1BETA2) == new
    assert convert_version(new, V1BETA1) == old


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        pytest.param(
            "Workload", ({"priorityClassName": "high"},), ({},), id="a class with an unknown source"
        ),
        pytest.param(
            "ClusterQueue",
            (
                {
                    "admissionChecks": ["a", "b"],
                    "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]},
                },
            ),
            ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}},),
            id="the short list of checks wins",
        ),
        pytest.param(
            "ClusterQueue",
            ({"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},),
            ({"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}},),
            id="old values of fungibility",
        ),
        pytest.param(
            "ClusterQueue",
            (
                {},
                {
                    "pendingWorkloadsStatus": {},
                    "fairSharing": {"admissionFairSharingStatus": {}, "weightedShare": 1},
                },
            ),
            ({}, {"fairSharing": {"weightedShare": 1}}),
            id="dropped fields of a cluster queue's status",
        ),
        pytest.param("LocalQueue", ({}, {"flavors": [1]}), ({}, {}), id="a local queue's flavors"),
        pytest.param(
            "Cohort",
            ({}, {"fairSharing": {"admissionFairSharingStatus": {}}}),
            ({}, {"fairSharing": {}}),
            id="a cohort's admission fair sharing",
        ),
    ],
)
def test_conversion_to_v1beta2_only(kind: str, older: tuple[Json, ...], newer: tuple[Json, ...]) -> None:
    assert convert_version(an_object(kind, V1BETA1, *older), V1BETA2) == an_object(kind, V1BETA2, *newer)


@pytest.mark.parametrize(
    ("kind", "newer", "older"),
    [
        pytest.param(
            "Workload",
            (
                {
                    "preemptionGates": [{"name": "g"}],
                    "podSets": [
                        {"topologyRequest": {"required": "r", "podsetSliceRequiredTopologyConstraints": [{}]}}
                    ],
                },
                {"preemptionGates": [{"name": "g"}]},
            ),
            ({"podSets": [{"topologyRequest": {"required": "r"}}]}, {}),
            id="gates and slice constraints",
        ),
        pytest.param("ClusterQueue", ({"concurrentAdmissionPolicy": {}},), ({},), id="concurrent admission"),
        pytest.param(
            "Workload",
            (
                {},
                assigned(
                    {
                        "levels": ["host"],
                        "slices": [
                            {
                                "domainCount": 2,
                                "podCounts": {"universal": 4},
                                "valuesPerLevel": [
                                    {"individual": {"prefix": "n-", "suffix": ".x", "roots": ["1", "2"]}}
                                ],
                            },
                            {
                                "domainCount": 1,
                                "podCounts": {"individual": [5]},
                                "valuesPerLevel": [{"universal": "last"}],
                            },
                        ],
                    }
                ),
            ),
            (
                {},
                assigned(
                    {
                        "levels": ["host"],
                        "domains": [
                            {"values": ["n-1.x"], "count": 4},
                            {"values": ["n-2.x"], "count": 4},
                            {"values": ["last"], "count": 5},
                        ],
                    }
                ),
            ),
            id="several slices with affixes",
        ),
    ],
)
def test_conversion_to_v1beta1_only(kind: str, newer: tuple[Json, ...], older: tuple[Json, ...]) -> None:
    assert convert_version(an_object(kind, V1BETA2, *newer), V1BETA1) == an_object(kind, V1BETA1, *older)


def test_the_same_version_is_a_copy() -> None:
    body = an_object("Workload", V1BETA2, {"podSets": []})
    copy = convert_version(body, V1BETA2)
    assert copy == body
    assert copy["spec"] is not body["spec"]


@pytest.mark.parametrize(
    ("have", "want", "unknown"),
    [("batch/v1", V1BETA2, "batch/v1"), (None, V1BETA2, None), (V1BETA2, f"{OWN}/v1", f"{OWN}/v1")],
)
def test_an_unknown_version_is_rejected(have: str | None, want: str, unknown: object) -> None:
    with pytest.raises(UnknownVersion) as refusal:
        convert_version({"apiVersion": have, "kind": "Workload"}, want)
    assert refusal.value.api_version == unknown


names = st.sampled_from(["a", "b", "node-1", "node-2", "rack"])


hosts = st.sampled_from(["pool-a-1", "pool-a-2", "pool-b-1", "pool-b-2.x", "node-1", "node"])


@st.composite
def slices(draw: st.DrawFn) -> Json:
    """Return an assignment in the encoding that this module writes."""
    level = draw(st.sampled_from(["host", "kubernetes.io/hostname"]))
    values = draw(st.lists(st.tuples(names, hosts), unique=True, max_size=6))
    domains = [(each, draw(st.integers(1, 9))) for each in values]
    found: Json = codec.to_builtins(topology_assignment(("rack", level), domains))
    return found


@st.composite
def newer_objects(draw: st.DrawFn) -> Json:
    """Generate v1beta2 objects without fields that v1beta1 lacks."""
    classes = [(OWN, "WorkloadPriorityClass"), ("scheduling.k8s.io", "PriorityClass")]
    group, kind = draw(st.sampled_from(classes))
    parts: dict[str, list[tuple[str, Any]]] = {
        "Workload": [
            ("spec.priorityClassRef", {"group": group, "kind": kind, "name": draw(names)}),
            ("spec.queueName", draw(names)),
            ("status.accumulatedPastExecutionTimeSeconds", draw(st.integers(0, 99))),
            ("status.admission", assigned(draw(slices()))["admission"]),
        ],
        "ClusterQueue": [
            ("spec.cohortName", draw(names)),
            (
                "spec.admissionChecksStrategy",
                {"admissionChecks": [{"name": draw(names), "onFlavors": ["f"]}]},
            ),
            (
                "spec.flavorFungibility",
                {"whenCanBorrow": draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"]))},
            ),
            ("status.fairSharing", {"weightedShare": 3}),
        ],
        "LocalQueue": [("spec.clusterQueue", draw(names)), ("status.flavorsUsage", [{"name": draw(names)}])],
        "Cohort": [("spec.parentName", draw(names)), ("status.fairSharing", {"weightedShare": 1})],
        "MultiKueueCluster": [
            ("spec.clusterSource", {draw(st.sampled_from(["kubeConfig", "clusterProfileRef"])): {}})
        ],
        "ResourceFlavor": [("spec.nodeLabels", {draw(names): "x"})],
    }
    chosen = draw(st.sampled_from(sorted(parts)))
    body: Json = {"apiVersion": V1BETA2, "kind": chosen, "metadata": {"name": draw(names)}}
    for path, value in parts[chosen]:
        if draw(st.booleans()):
            section, field = path.split(".")
            body.setdefault(section, {})[field] = value
    return body


@given(newer_objects())
def test_a_round_trip_is_the_identity_and_does_not_mutate_its_input(body: Json) -> None:
    before = deepcopy(body)
    older = convert_version(body, V1BETA1)
    assert convert_version(older, V1BETA2) == body == before
