"""Run stories that mostly wait concurrently; a separate test waits for the outcome of each."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

import pytest

AT_ONCE: Final = 4  # stories wait four fifths of their time, on two cores

T = TypeVar("T")


def requested_parameters(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """Return the values of ``parameter`` of the selected tests in the requesting module, in order."""
    return [
        str(item.callspec.params[parameter])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    ]


@contextmanager
def run_concurrently(run_story: Callable[[str], T], names: Sequence[str]) -> Iterator[dict[str, Future[T]]]:
    """Yield a future of ``run_story`` by name; cancel those not started at the end of the block."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(run_story, name) for name in names}
        pool.shutdown(cancel_futures=True)
