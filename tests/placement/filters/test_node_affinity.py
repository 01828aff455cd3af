"""The node selector, required and preferred node affinity."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core import NodeSelectorTerm
from quorate.api.meta import SelectorRequirement, matches_requirement
from quorate.placement.filters.node_affinity import match_term
from quorate.placement.filters.node_columns import NodeColumns
from tests.placement.filters.world import World, node, pod

REASON = "node(s) didn't match Pod's node affinity/selector"


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


def labels(text: str) -> dict[str, Any]:
    """Build a term from ``zone In 1 2``, several separated by commas."""
    expressions = (part.split() for part in text.split(",") if part)
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, "values": values} for key, operator, *values in expressions
        ]
    }


def named(operator: str, name: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([labels("zone In 1 3")], "a", id="In"),
        pytest.param([labels("zone NotIn 1")], "b c", id="NotIn also matches an absent label"),
        pytest.param([labels("zone Exists")], "a b", id="Exists"),
        pytest.param([labels("zone DoesNotExist")], "c", id="DoesNotExist"),
        pytest.param([labels("cores Gt 8")], "b", id="Gt"),
        pytest.param([labels("cores Lt 9")], "a", id="Lt"),
        pytest.param([labels("zone Gt 1")], "b", id="Gt compares numbers"),
        pytest.param([labels("hostname Gt 1")], "", id="Gt does not match text"),
        pytest.param([labels("zone In 1,cores Gt 8")], "", id="all expressions must match"),
        pytest.param([labels("zone In 1"), labels("cores Gt 8")], "a b", id="one term must match"),
        pytest.param([{}], "", id="an empty term matches nothing"),
        pytest.param([{}, labels("zone In 2")], "b", id="an empty term beside another"),
        pytest.param([], "", id="no terms match nothing"),
        pytest.param([named("In", "b")], "b", id="by name"),
        pytest.param([named("NotIn", "b")], "a c", id="not by name"),
        pytest.param([labels("zone Exists") | named("NotIn", "b")], "a", id="by name and labels"),
        pytest.param(
            [{"matchFields": [{"key": "spec.unschedulable", "operator": "In", "values": ["false"]}]}],
            "",
            id="another field matches nothing",
        ),
        pytest.param([labels("zone Near 1")], "", id="an unknown operator matches nothing"),
    ],
)
def test_required_affinity(terms: list[dict[str, Any]], want: str) -> None:
    world = World("a zone=1 cores=8", "b zone=2 cores=16", "c")
    incoming = pod("p", affinity=required(*terms))
    assert world.passing(incoming) == want
    assert set(world.reasons(incoming).values()) <= {REASON}


def test_node_selector_and_affinity_must_both_match() -> None:
    world = World("a zone=1 pool=x", "b zone=1 pool=y", "c zone=2 pool=x")
    both = pod("p", nodeSelector={"pool": "x"}, affinity=required(labels("zone In 1")))
    assert world.passing(both) == "a"
    assert world.passing(pod("q", nodeSelector={"pool": "x", "zone": "2"})) == "c"


def test_weights_of_preferred_terms_are_added() -> None:
    terms = [
        {"weight": 10, "preference": labels("zone In 1")},
        {"weight": 5, "preference": labels("pool Exists")},
        {"weight": 100, "preference": {}},
    ]
    world = World("a zone=1 pool=x", "b zone=2 pool=x", "c")
    preferring = pod(
        "p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    )
    assert world.raw_score(preferring, "node_affinity") == {"a": 15, "b": 5, "c": 0}
    assert world.passing(preferring) == "a b c"


TEXTS = st.sampled_from(("1", "2", "03", "-4", "x", ""))


@given(
    values=st.lists(st.none() | TEXTS, min_size=1, max_size=5),
    operator=st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    wanted=st.lists(TEXTS, max_size=2),
)
def test_evaluating_all_nodes_equals_evaluating_each(
    values: list[str | None], operator: str, wanted: list[str]
) -> None:
    requirement = SelectorRequirement(key="k", operator=operator, values=tuple(wanted))
    columns = NodeColumns()
    columns.grow(len(values))
    for index, value in enumerate(values):
        columns.set(index, node(f"n{index}" + ("" if value is None else f" k={value}")), ready=True)
    got = match_term(columns, NodeSelectorTerm(match_expressions=(requirement,)))
    each = [matches_requirement(requirement, {} if value is None else {"k": value}) for value in values]
    assert got.tolist() == each
