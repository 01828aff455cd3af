"""Stories that mostly wait, played side by side: each is a test of its own that waits for the outcome."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

import pytest

AT_ONCE: Final = 4  # of stories that wait four fifths of their time, on two cores

T = TypeVar("T")


def requested_parameters(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """The values of ``parameter`` for which tests of the requesting module are to run, in their order."""
    return [
        str(item.callspec.params[parameter])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    ]


@contextmanager
def run_concurrently(play: Callable[[str], T], names: Sequence[str]) -> Iterator[dict[str, Future[T]]]:
    """The outcomes of ``play`` by name, while the block lasts; at its end what has not begun is dropped."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(play, name) for name in names}
        pool.shutdown(cancel_futures=True)
