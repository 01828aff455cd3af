"""``CompactMapping`` behaves like other mappings and shares memory."""

import pytest

from quorate.api import codec
from quorate.api.interning import CompactMapping, intern_strings

LABELS = {"app": "train", "index": "3"}


def test_compact_mapping_behaves_like_a_dict() -> None:
    texts = intern_strings(LABELS)
    assert dict(texts) == LABELS
    assert (texts["index"], texts.get("app"), texts.get("zone", "-"), "zone" in texts, len(texts)) == (
        "3", "train", "-", False, 2,
    )  # fmt: skip
    with pytest.raises(KeyError, match="zone"):
        texts["zone"]
    assert codec.encode(texts) == codec.encode(LABELS)


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        pytest.param(LABELS, True, id="a dict of the same"),
        pytest.param(intern_strings({"app": "train", "index": "3"}), True, id="an equal mapping"),
        pytest.param(intern_strings({"index": "3", "app": "train"}), True, id="in another order"),
        pytest.param(intern_strings({"app": "train", "index": "4"}), False, id="another value"),
        pytest.param(intern_strings({"app": "train"}), False, id="a missing key"),
    ],
)
def test_compact_mappings_are_equal_by_content(other: object, equal: bool) -> None:
    assert (intern_strings(LABELS) == other) is equal


def test_keys_and_values_are_interned() -> None:
    one, other = (
        intern_strings({"app": "train", "index": "a-1"}),
        intern_strings({"app": "train", "index": "a-2"}),
    )
    assert isinstance(one, CompactMapping)
    assert one["app"] is other["app"]
    assert [a is b for a, b in zip(one, other, strict=True)] == [True, True]
