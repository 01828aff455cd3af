"""Validation of the annotations that request places in a topology, with Kueue's texts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.kueue.topology_annotations import topology_request
from quorate.api.validation.topology import (
    AnnotatedPodSet,
    annotated_topology_findings,
    pod_set_group_findings,
    topology_request_findings,
)
from tests import fast_yaml

PREFIX = "kueue.x-k8s.io/podset-"
LAYERS = "slice-required-topology-constraints"
NO_KEY = "is not the key of a label (write name or example.com/name)"
IN_RACK = "{required-topology: rack, group-name: g}"
CONSISTENT = "must specify 'required-topology' or 'preferred-topology' topology consistent with"


def layers(*pairs: tuple[str, int]) -> str:
    return json.dumps([{"topology": topology, "size": size} for topology, size in pairs])


ONE_LAYER = layers(("b", 4))


def a_pod_set(text: str, count: int | None = 4, path: str = "t") -> AnnotatedPodSet:
    annotations: dict[str, Any] = fast_yaml.load(text) or {}
    return AnnotatedPodSet(path, count, {f"{PREFIX}{key}": value for key, value in annotations.items()})


def short(findings: Any) -> list[str]:
    return [str(each).replace(PREFIX, "") for each in findings]


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param("", [], id="none"),
        pytest.param("required-topology: example.com/rack", [], id="a level"),
        pytest.param(
            "{required-topology: rack, unconstrained-topology: 'true'}",
            [
                't: ["required-topology", "unconstrained-topology"] must not contain more than one topology '
                'annotation: ["required-topology", "preferred-topology", "unconstrained-topology"]'
            ], id="two modes",
        ),
        pytest.param(
            "{preferred-topology: a/b/c, slice-required-topology: '', slice-size: '2'}",
            [
                f"t[preferred-topology]: 'a/b/c' {NO_KEY}",
                f"t[slice-required-topology]: '' {NO_KEY}",
            ], id="levels that are no label keys",
        ),
        pytest.param(
            "unconstrained-topology: maybe", ["t[unconstrained-topology]: 'maybe' must be a boolean value"],
            id="neither true nor false",
        ),
        pytest.param(
            "{slice-required-topology: rack, slice-size: two}",
            ["t[slice-size]: 'two' must be a numeric value"], id="a size in words",
        ),
        pytest.param(
            "{slice-required-topology: rack, slice-size: '0'}",
            ["t[slice-size]: '0' must be greater than or equal to 1"], id="an empty slice",
        ),
        pytest.param(
            "{slice-required-topology: rack, slice-size: '5'}",
            ["t[slice-size]: '5' must not be greater than pod set count 4"], id="a slice of too many pods",
        ),
        pytest.param("{slice-required-topology: rack, slice-size: '4'}", [], id="one slice of all pods"),
        pytest.param(
            "slice-required-topology: rack",
            ["t[slice-size]: null must be set when 'slice-required-topology' is specified"],
            id="no slice size",
        ),
        pytest.param(
            "slice-size: '2'",
            ["t[slice-size]: '2' may not be set when 'slice-required-topology' is not specified"],
            id="no slice level",
        ),
        pytest.param("{preferred-topology: rack, group-name: leader-and-workers}", [], id="a group"),
        pytest.param(
            "{required-topology: rack, group-name: '42'}", ["t[group-name]: '42' must not be a number"],
            id="a group with a number as its name",
        ),
        pytest.param(
            f"{{required-topology: rack, group-name: '{2**64}'}}", [], id="more digits than a number has"
        ),
        pytest.param(
            "group-name: g",
            [
                "t[group-name]: 'g' may not be set when neither 'preferred-topology' nor 'required-topology' "
                "is specified"
            ], id="a group without a level",
        ),
        pytest.param(
            "{required-topology: rack, group-name: g, slice-required-topology: rack, slice-size: '2'}", [],
            id="a group with slices",
        ),
        pytest.param(f"{LAYERS}: '{layers(('b', 4), ('r', 2))}'", [], id="slices within slices"),
        pytest.param(
            f"{LAYERS}: '[]'",
            [f"t[{LAYERS}]: '[]' topology constraints must contain between 1 and 3 entries"], id="no layer",
        ),
        pytest.param(
            f"{LAYERS}: '{layers(('b', 8), ('b', 3), ('-', 0))}'",
            [
                f"t[{LAYERS}][1].topology: 'b' is a duplicate (also at index 0)",
                f"t[{LAYERS}][1].size: 3 must evenly divide the parent layer size 8",
                f"t[{LAYERS}][2].topology: '-' {NO_KEY}",
                f"t[{LAYERS}][2].size: 0 must be greater than or equal to 1",
                f"t[{LAYERS}]: 8 must not be greater than pod set count 4",
            ], id="layers with every mistake",
        ),
        pytest.param(
            f"{{{LAYERS}: '{ONE_LAYER}', slice-required-topology: r, slice-size: '2', "
            "required-topology: z, group-name: g}",
            [
                f"t[{LAYERS}]: '{ONE_LAYER}' may not be set when 'slice-required-topology' is specified",
                f"t[{LAYERS}]: '{ONE_LAYER}' may not be set when 'slice-size' is specified",
            ], id="layers beside all that they exclude",
        ),
    ],
)  # fmt: skip
def test_annotations_of_a_pod_set(annotations: str, want: list[str]) -> None:
    assert short(annotated_topology_findings(a_pod_set(annotations))) == want


@pytest.mark.parametrize("text", ["{", "3", '{"topology": "b"}', '[{"topology": 3}]', "[" * 100_000])
def test_layers_that_are_no_list_are_refused(text: str) -> None:
    pod_set = AnnotatedPodSet("t", 4, {f"{PREFIX}{LAYERS}": text})
    (finding,) = annotated_topology_findings(pod_set)
    assert finding.rule.startswith("must be a valid JSON array: ")


def test_layers_are_refused_without_their_gate() -> None:
    pod_set = a_pod_set(f"{LAYERS}: '[]'")
    assert short(annotated_topology_findings(pod_set, TopologyGates(multi_layer=False))) == [
        f"t[{LAYERS}]: '[]' the TASMultiLayerTopology feature gate must be enabled to use this annotation"
    ]


@pytest.mark.parametrize(
    ("value", "gate", "want"),
    [
        ("true", True, []),
        ("false", False, []),
        (
            "false",
            True,
            ["""t[unconstrained-topology]: 'false' must be "true" (or leave the annotation out)"""],
        ),
    ],
)
def test_a_false_annotation_is_refused_with_its_gate(value: str, gate: bool, want: list[str]) -> None:
    gates = TopologyGates(reject_false_unconstrained=gate)
    pod_set = a_pod_set(f"unconstrained-topology: '{value}'")
    assert short(annotated_topology_findings(pod_set, gates)) == want


@pytest.mark.parametrize(
    ("offset", "group", "want"),
    [
        pytest.param("1", False, [], id="alone"),
        pytest.param("-1", False, ["'-1' must be a non-negative integer"], id="negative"),
        pytest.param("one", False, ["'one' must be a non-negative integer"], id="no integer"),
        pytest.param(
            "1", True, [f"'1' may not be set when '{PREFIX}group-name' is specified"], id="beside a group"
        ),
    ],
)
def test_the_index_offset(offset: str, group: bool, want: list[str]) -> None:
    annotations = dict(a_pod_set(IN_RACK if group else "").annotations)
    key = "kueue.x-k8s.io/pod-index-offset"
    pod_set = AnnotatedPodSet("t", 4, annotations | {key: offset})
    assert [str(each) for each in annotated_topology_findings(pod_set)] == [
        f"t[{key}]: {each}" for each in want
    ]


def test_sizes_are_not_compared_with_an_unknown_number_of_pods() -> None:
    pod_set = a_pod_set("{slice-required-topology: rack, slice-size: '500'}", count=None)
    assert short(annotated_topology_findings(pod_set)) == []


@pytest.mark.parametrize(
    ("pod_sets", "want"),
    [
        pytest.param(
            [(IN_RACK, 1), (IN_RACK, 4)], [], id="a leader and its workers",
        ),
        pytest.param(
            [(IN_RACK, 1)],
            ["p0[group-name]: 'g' can only define groups of exactly 2 pod sets, got: 1 pod set(s)"],
            id="a leader alone",
        ),
        pytest.param(
            [(IN_RACK, 1)] * 3,
            [
                f"p{at}[group-name]: 'g' can only define groups of exactly 2 pod sets, got: 3 pod set(s)"
                for at in range(3)
            ], id="three pod sets",
        ),
        pytest.param(
            [(IN_RACK, 2), (IN_RACK, 4)],
            [
                f"p{at}[group-name]: 'g' can only define groups where at least one pod set has only 1 "
                "replica, got: 2 replica(s) and 4 replica(s) in the group"
                for at in range(2)
            ], id="two sets of workers",
        ),
        pytest.param(
            [
                (IN_RACK, 1),
                ("{preferred-topology: rack, group-name: g}", 4),
            ],
            [
                f"p0: 'rack' {CONSISTENT} 'p1' in group 'g'",
                f"p1: 'rack' {CONSISTENT} 'p0' in group 'g'",
            ], id="different modes",
        ),
        pytest.param(
            [("group-name: g", 1), ("required-topology: rack", 4)], [], id="no group without a level",
        ),
    ],
)  # fmt: skip
def test_groups_of_pod_sets(pod_sets: list[tuple[str, int]], want: list[str]) -> None:
    members = [a_pod_set(text, count, f"p{at}") for at, (text, count) in enumerate(pod_sets)]
    assert short(pod_set_group_findings(members)) == want


KEYS = (
    "required-topology", "preferred-topology", "unconstrained-topology", "slice-required-topology",
    "slice-size", LAYERS, "group-name",
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["topology", "size", "x"]), inner, max_size=3)
    ),
)
texts = st.text(max_size=8) | st.integers().map(str) | json_values.map(json.dumps)


@given(st.dictionaries(st.sampled_from(KEYS), texts, max_size=4), st.none() | st.integers(-1, 5))
def test_no_annotation_raises_and_valid_ones_make_a_valid_request(
    given_: dict[str, str], count: int | None
) -> None:
    annotations = {f"{PREFIX}{key}": value for key, value in given_.items()}
    findings = list(annotated_topology_findings(AnnotatedPodSet("t", count, annotations)))
    request = topology_request(annotations)
    list(pod_set_group_findings([AnnotatedPodSet("t", count, annotations)] * 2))
    if request is not None and not findings:
        assert list(topology_request_findings("t", request)) == []
