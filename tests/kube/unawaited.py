"""Coroutines that were made and never awaited."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unawaited() -> Iterator[list[str]]:
    """Yield a list that has a warning for each such coroutine of the block at its end."""
    coroutines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield coroutines
        gc.collect()
    coroutines += [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
