"""Requests that no tree with the levels block, rack and hostname can serve, with Kueue's texts."""

import pytest

from quorate.api.kueue.topology import HOSTNAME
from quorate.placement.topology.request import Profile, SliceLayer, TopologyRequest, resolve
from tests.placement.topology.trees import tree_with

TREE = tree_with(("block", "rack", HOSTNAME), [])


def layers(*pairs: tuple[str, int]) -> tuple[SliceLayer, ...]:
    return tuple(SliceLayer(level, size) for level, size in pairs)


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(TopologyRequest(unconstrained=False), "topology level not specified", id="no level"),
        pytest.param(TopologyRequest(required="row"), "no requested topology level: row", id="required"),
        pytest.param(TopologyRequest(preferred="row"), "no requested topology level: row", id="preferred"),
        pytest.param(
            TopologyRequest(layers=layers(("row", 2))), "no requested topology level for slices: row",
            id="slices of a level that does not exist",
        ),
        pytest.param(
            TopologyRequest(required="rack", layers=layers(("block", 2))),
            "podset slice topology block is above the podset topology rack", id="slices above the request",
        ),
        pytest.param(
            TopologyRequest(layers=layers(("rack", 0))),
            "slice topology requested, but slice size not provided", id="no size",
        ),
        pytest.param(
            TopologyRequest(layers=layers(("block", 4), ("row", 2))),
            "no requested topology level for additional slice layer: row",
            id="an inner level that does not exist",
        ),
        pytest.param(
            TopologyRequest(layers=layers(("rack", 4), ("rack", 2))),
            "additional slice layer topology rack must be at a lower level than rack",
            id="an inner layer not below",
        ),
        pytest.param(
            TopologyRequest(layers=layers(("block", 4), ("rack", 3))),
            "additional slice layer size 3 must evenly divide parent layer size 4", id="an inner size",
        ),
        pytest.param(
            TopologyRequest(layers=layers(("block", 4), ("rack", 0))),
            "additional slice layer size 0 must evenly divide parent layer size 4", id="an inner size of 0",
        ),
    ],
)  # fmt: skip
def test_a_request_without_its_levels_is_refused(request_: TopologyRequest, want: str) -> None:
    assert resolve(TREE, request_, 4, False, Profile()) == want


@pytest.mark.parametrize(
    ("request_", "level", "required", "unconstrained", "least_free_first"),
    [
        pytest.param(TopologyRequest(required="rack"), "rack", True, False, False, id="required"),
        pytest.param(TopologyRequest(preferred="rack"), "rack", False, False, False, id="preferred"),
        pytest.param(
            TopologyRequest(layers=layers(("rack", 2))), "block", False, True, True, id="slices only"
        ),
        pytest.param(TopologyRequest(unconstrained=True), HOSTNAME, False, True, True, id="unconstrained"),
        pytest.param(TopologyRequest(), HOSTNAME, False, True, True, id="implied"),
    ],
)
def test_the_search_begins_at_the_level_of_the_request(
    request_: TopologyRequest, level: str, required: bool, unconstrained: bool, least_free_first: bool
) -> None:
    found = resolve(TREE, request_, 4, False, Profile())
    assert not isinstance(found, str)
    assert (TREE.levels[found.level], found.required) == (level, required)
    assert (found.unconstrained, found.least_free_first) == (unconstrained, least_free_first)
    best_fit = resolve(TREE, request_, 4, False, Profile(mixed=False))
    assert not isinstance(best_fit, str)
    assert not best_fit.least_free_first
