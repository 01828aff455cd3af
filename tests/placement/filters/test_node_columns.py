"""Columns of node properties."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.placement.filters.node_columns import Column, NodeColumns
from tests.placement.filters.world import World, node, pod


@given(values=st.lists(st.none() | st.sampled_from("abcde"), min_size=1, max_size=8), data=st.data())
def test_compacting_a_column_keeps_its_values(values: list[str | None], data: st.DataObject) -> None:
    column: Column[str] = Column(len(values))
    for index in range(len(values)):
        column.set(index, data.draw(st.sampled_from("xyz")))  # values that are replaced below
    for index, value in enumerate(values):
        column.set(index, value)
    before = {letter: column.in_values(letter).tolist() for letter in "abcdexyz"}
    column.compact()
    assert {letter: column.in_values(letter).tolist() for letter in "abcdexyz"} == before
    assert set(column.values) == {value for value in values if value is not None}
    assert column.present().tolist() == [value is not None for value in values]


def test_values_of_removed_nodes_are_dropped() -> None:
    columns = NodeColumns()
    columns.grow(2)
    columns.label("hostname")
    for number in range(5000):
        columns.set(number % 2, node(f"n{number}"), ready=True)
    assert len(columns.names.values) < 2000
    assert len(columns.label("hostname").values) < 2000
    assert columns.names.in_values(("n4998", "n4999")).tolist() == [True, True]


def test_domain_counts_are_right_after_columns_are_compacted() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    exclusive = pod("p", affinity={"podAntiAffinity": terms})
    world = World("a zone=1", "b zone=2", "c zone=0")
    world.put(pod("web app=web"), "b")
    for number in range(3000):
        world.cluster.set_node(node(f"c zone={number + 3}"))
        world.cluster.set_node(node(f"added-{number} zone=2"))
        if number % 500 == 0:
            assert world.reasons(exclusive).keys() == {"b", f"added-{number}"}
        world.cluster.remove_node(f"added-{number}")
    assert world.reasons(exclusive).keys() == {"b"}
