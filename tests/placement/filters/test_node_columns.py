"""The facts of nodes as columns."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.placement.filters.node_columns import Column, NodeColumns
from tests.placement.filters.world import World, node, pod


@given(values=st.lists(st.none() | st.sampled_from("abcde"), min_size=1, max_size=8), data=st.data())
def test_a_column_answers_the_same_with_new_numbers(values: list[str | None], data: st.DataObject) -> None:
    column: Column[str] = Column(len(values))
    for index in range(len(values)):
        column.set(index, data.draw(st.sampled_from("xyz")))  # values that are soon gone
    for index, value in enumerate(values):
        column.set(index, value)
    before = {letter: column.in_values(letter).tolist() for letter in "abcdexyz"}
    column.compact()
    assert {letter: column.in_values(letter).tolist() for letter in "abcdexyz"} == before
    assert set(column.values) == {value for value in values if value is not None}
    assert column.present().tolist() == [value is not None for value in values]


def test_nodes_that_are_gone_take_no_room() -> None:
    facts = NodeColumns()
    facts.grow(2)
    facts.label("hostname")
    for number in range(5000):
        facts.set(number % 2, node(f"n{number}"), ready=True)
    assert len(facts.names.values) < 2000
    assert len(facts.label("hostname").values) < 2000
    assert facts.names.in_values(("n4998", "n4999")).tolist() == [True, True]


def test_pods_are_counted_right_when_nodes_are_numbered_anew() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    lonely = pod("p", affinity={"podAntiAffinity": terms})
    world = World("a zone=1", "b zone=2", "c zone=0")
    world.put(pod("web app=web"), "b")
    for number in range(3000):
        world.cluster.set_node(node(f"c zone={number + 3}"))
        world.cluster.set_node(node(f"passing-{number} zone=2"))
        if number % 500 == 0:
            assert world.reasons(lonely).keys() == {"b", f"passing-{number}"}
        world.cluster.remove_node(f"passing-{number}")
    assert world.reasons(lonely).keys() == {"b"}
