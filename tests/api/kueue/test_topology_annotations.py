"""Annotations of pod templates and the topology requests that they make."""

import json

import pytest

from quorate.api import codec
from quorate.api.kueue.topology_annotations import NO_INDEX, PodIndex, topology_request
from tests import fast_yaml

LAYERS = "slice-required-topology-constraints"
TWO_LAYERS = [{"topology": "b", "size": 4}, {"topology": "r", "size": 2}]
COMPLETION = PodIndex("batch.kubernetes.io/job-completion-index")
IN_JOB_SET = PodIndex("batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/job-index", 3)


def request(text: str, index: PodIndex = NO_INDEX, *, multi_layer: bool = True) -> object:
    """Return the request as JSON, for annotations without their common prefix."""
    given = {f"kueue.x-k8s.io/podset-{key}": value for key, value in (fast_yaml.load(text) or {}).items()}
    found = topology_request(given, index, multi_layer=multi_layer)
    return None if found is None else codec.to_builtins(found)


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param("", None, id="none"),
        pytest.param("required-topology: rack", {"required": "rack"}, id="required"),
        pytest.param("preferred-topology: rack", {"preferred": "rack"}, id="preferred"),
        pytest.param("unconstrained-topology: 'true'", {"unconstrained": True}, id="unconstrained"),
        pytest.param("unconstrained-topology: F", None, id="explicitly not"),
        pytest.param(
            "{preferred-topology: block, required-topology: rack, unconstrained-topology: 'true'}",
            {"required": "rack"}, id="required precedes the others",
        ),
        pytest.param(
            "{unconstrained-topology: 'true', preferred-topology: block}",
            {"preferred": "block"}, id="preferred precedes unconstrained",
        ),
        pytest.param(
            "{slice-required-topology: rack, slice-size: '2'}",
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2}, id="slices alone",
        ),
        pytest.param(
            "{required-topology: block, slice-required-topology: rack, slice-size: '2'}",
            {"required": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
            id="slices within a required domain",
        ),
        pytest.param("slice-size: '2'", None, id="a slice size without a level"),
        pytest.param(
            f"{LAYERS}: '{json.dumps(TWO_LAYERS)}'",
            {"podsetSliceRequiredTopologyConstraints": TWO_LAYERS}, id="slices within slices",
        ),
        pytest.param(
            "{preferred-topology: rack, group-name: g}",
            {"preferred": "rack", "podSetGroupName": "g"}, id="a group",
        ),
        pytest.param("group-name: g", None, id="a group without a level"),
        pytest.param("{slice-required-topology: rack, slice-size: '2.5'}", None, id="a broken size"),
        pytest.param(f"{{slice-required-topology: r, slice-size: '{'9' * 5000}'}}", None, id="a huge size"),
        pytest.param(f"{LAYERS}: '[{{]'", None, id="broken JSON"),
        pytest.param(f"{LAYERS}: '{'[' * 9000}'", None, id="JSON without an end"),
        pytest.param(f"{LAYERS}: '[3]'", None, id="no layers"),
        pytest.param("unconstrained-topology: maybe", None, id="neither true nor false"),
    ],
)  # fmt: skip
def test_annotations_make_a_request(annotations: str, want: object) -> None:
    assert request(annotations) == want


@pytest.mark.parametrize(
    ("index", "want"),
    [
        pytest.param(
            COMPLETION, {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}, id="numbered pods"
        ),
        pytest.param(
            IN_JOB_SET,
            {
                "podIndexLabel": "batch.kubernetes.io/job-completion-index",
                "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
                "subGroupCount": 3,
            },
            id="numbered pods in numbered groups",
        ),
    ],
)
def test_the_numbering_of_pods_is_recorded_with_and_without_annotations(
    index: PodIndex, want: dict[str, object]
) -> None:
    assert request("", index) == want
    assert request("required-topology: rack", index) == {"required": "rack", **want}


def test_slice_layers_count_only_with_their_gate() -> None:
    both = f"{{{LAYERS}: '{json.dumps(TWO_LAYERS)}', slice-required-topology: rack, slice-size: '2'}}"
    two_fields = {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2}
    assert request(both, multi_layer=False) == two_fields
    assert request(both) == {"podsetSliceRequiredTopologyConstraints": TWO_LAYERS}
