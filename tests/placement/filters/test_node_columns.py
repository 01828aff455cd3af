"""Columns of node properties."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from quorate.placement.filters.node_affinity import matching_nodes
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


def test_no_label_is_read_once_no_node_is_left() -> None:
    columns = NodeColumns()
    columns.grow(2)
    columns.set(0, node("a zone=1"), ready=True)
    read = []

    def many() -> Iterator[tuple[str, str]]:
        for number in range(10_000):
            read.append(number)
            yield ("zone", "1") if number < 2 else (f"key-{number}", "x")

    assert matching_nodes(columns, many(), None).tolist() == [False, False]
    assert read == [0, 1, 2]


def test_labels_that_no_node_has_share_a_column() -> None:
    columns = NodeColumns()
    columns.grow(2)
    columns.set(0, node("a zone=1"), ready=True)
    missing = columns.label("rack")
    assert {id(columns.label(f"key-{number}")) for number in range(1000)} == {id(missing)}
    assert (missing.present().tolist(), columns.is_unique_label("rack")) == ([False, False], True)

    generation = columns.generation
    columns.set(1, node("b rack=7"), ready=True)
    assert columns.generation > generation  # results that assumed no such node are stale
    assert columns.label("rack").in_values(("7",)).tolist() == [False, True]
    assert missing.present().tolist() == [False, False]

    columns.set(1, node("b"), ready=True)
    assert columns.label("rack") is missing
    columns.grow(3)
    assert columns.label("rack").present().tolist() == [False, False, False]


@given(data=st.data())
def test_columns_show_the_labels_of_the_current_nodes(data: st.DataObject) -> None:
    columns, nodes = NodeColumns(), dict[int, dict[str, str]]()
    columns.grow(3)
    labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
    for _ in range(data.draw(st.integers(1, 8))):
        index, given = data.draw(st.integers(0, 2)), data.draw(st.none() | labels)
        described = None
        nodes.pop(index, None)
        if given is not None:
            nodes[index] = given
            described = node(" ".join([f"n{index}", *(f"{key}={value}" for key, value in given.items())]))
        before = columns.generation
        seen = {key: columns.label(key).present().tolist() for key in "abc"}
        columns.set(index, described, ready=True)
        for key in "abc":
            want = [nodes.get(at, {}).get(key) for at in range(3)]
            column = columns.label(key)
            assert [column.values[code] if code >= 0 else None for code in column.codes] == want
            assert columns.generation > before or column.present().tolist() == seen[key]


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
