"""Each mutation of the files of mutations applies to the current code."""

import ast

import pytest
import yaml

from tests.mutations import MUTATIONS, ROOT, Mutation, read_mutation

WITNESS = [
    read_mutation(entry) for entry in yaml.safe_load((ROOT / "tests/witness/mutations.yaml").read_text())
]


@pytest.mark.parametrize("mutation", [*MUTATIONS, *WITNESS], ids=lambda mutation: mutation.rule)
def test_a_mutation_applies_to_the_code(mutation: Mutation) -> None:
    unbroken = ast.unparse(ast.parse(mutation.path(ROOT / "src").read_text()))
    assert mutation.applied_to(ROOT / "src") != unbroken
