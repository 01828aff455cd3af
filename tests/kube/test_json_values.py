"""The number of values in a JSON text is counted without decoding it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kube.serving.json_values import exceeds_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param(b"[1,2,3]", 3, id="list"),
        pytest.param(b'{"a":1,"b":{}}', 3, id="an opening bracket counts also if nothing follows"),
        pytest.param(b'["a,b,c"]', 1, id="commas in a string"),
        pytest.param(rb'["a\",\",",2]', 2, id="escaped quotation marks"),
        pytest.param(rb'["a\\",2,"b"]', 3, id="escaped backslash at the end of a string"),
        pytest.param(b'["a,b,c', 1, id="unterminated string"),
        pytest.param(b"[,,,,", 5, id="no JSON"),
    ],
)
def test_values_are_counted(text: bytes, values: int) -> None:
    assert not exceeds_values(text, values)
    assert exceeds_values(text, values - 1)


def test_an_unterminated_string_of_quotation_marks_is_counted_in_linear_time() -> None:
    assert not exceeds_values(b',"' + rb"\"," * 1_000_000, 1)  # quadratic: hours


scalars = st.none() | st.integers() | st.text(alphabet='a",[{\\:')
documents = st.recursive(
    scalars, lambda parts: st.lists(parts) | st.dictionaries(st.text(alphabet='a",[{\\:'), parts)
)


def number_of(value: Any) -> int:
    """Count the values and, as one each, the opening brackets of objects and lists that are empty."""
    match value:
        case dict():
            return max(1, sum(1 + number_of(part) for part in value.values()))
        case list():
            return max(1, sum(1 + number_of(part) for part in value))
        case _:
            return 0


@given(documents)
def test_the_count_is_that_of_the_decoded_document(document: Any) -> None:
    text = json.dumps(document).encode()
    count = number_of(document)
    assert not exceeds_values(text, count)
    assert count == 0 or exceeds_values(text, count - 1)
