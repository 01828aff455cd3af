"""The laws of evictions over generated worlds, with any order of the actions."""

import pytest
from hypothesis import given

from tests.gang.eviction_laws import Case, broken_laws, cases
from tests.search import examples


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@examples(500)
@given(cases())
def test_evictions_keep_the_laws(case: Case) -> None:
    assert broken_laws(case) == []
