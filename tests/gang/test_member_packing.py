"""Unequal members on nodes, compared with a search through all assignments."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gang.actions.member_packing import Members, PackingFailure, find_packing_failure

AMOUNTS = st.fixed_dictionaries({"cpu": st.integers(1, 6), "memory": st.integers(1, 4)})


@pytest.mark.parametrize(
    ("nodes", "members", "want"),
    [
        pytest.param([8, 8], {5: 2, 3: 2}, None, id="a pair for each node"),
        pytest.param(
            [8, 8], {5: 2, 4: 1}, PackingFailure(2, "cpu", 4, 3), id="the sum suffices, the last fits no node"
        ),
        pytest.param([7, 6], {4: 1, 3: 3}, None, id="largest first, where least is left"),
        pytest.param([10, 9], {5: 1, 4: 1, 3: 2, 2: 2}, None, id="the largest first would fail"),
        pytest.param([8] * 300, {5: 301, 1: 1}, PackingFailure(300, "cpu", 5, 3), id="too many large ones"),
        pytest.param([8] * 300, {5: 300, 4: 1}, None, id="not certain for many members"),
        pytest.param([], {5: 1, 4: 1}, PackingFailure(0, "cpu", 5, 0), id="no nodes"),
    ],
)
def test_what_does_not_fit(nodes: list[int], members: dict[int, int], want: PackingFailure | None) -> None:
    found = find_packing_failure(
        {"cpu": np.array(nodes, np.int64)}, [Members({"cpu": cpu}, count) for cpu, count in members.items()]
    )
    assert found == want


@given(nodes=st.lists(AMOUNTS, min_size=1, max_size=3), pods=st.lists(AMOUNTS, min_size=1, max_size=4))
def test_a_packing_failure_is_certain_and_every_one_of_a_few_members_is_found(
    nodes: list[dict[str, int]], pods: list[dict[str, int]]
) -> None:
    idle = {name: np.array([node[name] for node in nodes], np.int64) for name in ("cpu", "memory")}
    found = find_packing_failure(idle, [Members(pod, 1) for pod in pods])
    exists = any(
        all(
            sum(pod[name] for pod, chosen in zip(pods, choice, strict=True) if chosen == index) <= node[name]
            for index, node in enumerate(nodes)
            for name in node
        )
        for choice in product(range(len(nodes)), repeat=len(pods))
    )
    assert (found is None) == exists
