"""Each mutation of ``mutations.yaml`` applies to the current code."""

import ast

import pytest

from tests.mutations import MUTATIONS, ROOT, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.rule)
def test_a_mutation_applies_to_the_code(mutation: Mutation) -> None:
    unbroken = ast.unparse(ast.parse(mutation.path(ROOT / "src").read_text()))
    assert mutation.applied_to(ROOT / "src") != unbroken
