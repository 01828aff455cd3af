"""Sets of completion indexes and their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.local.controllers.job.pod_summary import IndexSet, parse_indexes

indexes = st.frozensets(st.integers(0, 30))
LAST = 2**31 - 1


@pytest.mark.parametrize(
    ("have", "text"),
    [
        pytest.param((), "", id="none"),
        pytest.param((1,), "1", id="one"),
        pytest.param((3, 4), "3,4", id="two consecutive indexes"),
        pytest.param((1, 3, 4, 5, 7), "1,3-5,7", id="three consecutive indexes"),
    ],
)
def test_indexes_as_text(have: tuple[int, ...], text: str) -> None:
    assert str(IndexSet.of(have)) == text
    assert parse_indexes(text, completions=8) == IndexSet.of(have)


def test_indexes_beyond_the_completions_are_dropped() -> None:
    assert parse_indexes("1,3-6,9", completions=5) == IndexSet.of((1, 3, 4))


@given(indexes, indexes, st.integers(0, 31), st.integers(0, 31))
def test_an_index_set_is_a_set(one: frozenset[int], other: frozenset[int], end: int, most: int) -> None:
    first, second = IndexSet.of(one), IndexSet.of(other)
    assert len(first) == len(one)
    assert [index in first for index in range(32)] == [index in one for index in range(32)]
    assert (first | second, first & second, first - second) == (
        IndexSet.of(one | other),
        IndexSet.of(one & other),
        IndexSet.of(one - other),
    )
    assert first.missing(end, most) == [index for index in range(end) if index not in one][:most]
    assert parse_indexes(str(first), completions=31) == first


def test_two_billion_indexes_take_no_more_memory_than_their_text() -> None:
    all_but_one = parse_indexes(f"0-99,101-{LAST}", completions=LAST)
    assert len(all_but_one) == LAST - 1
    assert all_but_one.missing(LAST, most=5) == [100]
    assert len(IndexSet(((0, LAST),)) - all_but_one) == 1
