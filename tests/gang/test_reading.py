"""What the objects of the API mean to the core where they say little, or what nobody knows."""

import pytest

from quorate.api import codec
from quorate.api.volcano import Queue
from quorate.gang.reading import queue_of


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "traverse", id="not said"),
        pytest.param({"dequeueStrategy": "fifo"}, "fifo", id="fifo"),
        pytest.param({"dequeueStrategy": "lifo"}, "traverse", id="what Volcano's definition lets through"),
    ],
)
def test_a_queue_is_kept_in_order_only_if_it_says_so(spec: dict[str, str], want: str) -> None:
    queue = codec.convert(Queue, {"metadata": {"name": "a"}, "spec": spec})
    assert queue_of(queue).dequeue == want
