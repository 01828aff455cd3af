"""Words by key, in little memory: to its readers a mapping like any other."""

import pytest

from quorate.api import codec
from quorate.api.interning import CompactMapping, intern_strings

LABELS = {"app": "train", "index": "3"}


def test_texts_answer_as_a_dict_does() -> None:
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
        pytest.param(intern_strings({"app": "train", "index": "3"}), True, id="the same once more"),
        pytest.param(intern_strings({"index": "3", "app": "train"}), True, id="in another order"),
        pytest.param(intern_strings({"app": "train", "index": "4"}), False, id="another word"),
        pytest.param(intern_strings({"app": "train"}), False, id="a key less"),
    ],
)
def test_texts_are_equal_by_what_they_say(other: object, equal: bool) -> None:
    assert (intern_strings(LABELS) == other) is equal


def test_keys_and_words_are_in_memory_once() -> None:
    one, other = (
        intern_strings({"app": "train", "index": "a-1"}),
        intern_strings({"app": "train", "index": "a-2"}),
    )
    assert isinstance(one, CompactMapping)
    assert one["app"] is other["app"]
    assert [a is b for a, b in zip(one, other, strict=True)] == [True, True]
