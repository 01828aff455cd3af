"""The rules that ``make mutations`` breaks are there to be broken."""

import pytest

from tests.mutations import MUTATIONS, ROOT, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.rule)
def test_a_mutation_finds_the_one_place_it_is_about(mutation: Mutation) -> None:
    assert mutation.applied_to(ROOT / "src")
