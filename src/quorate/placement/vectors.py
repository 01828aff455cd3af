"""Numpy array types: one element, column or flag per node index."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int64]  # an amount, a score or a count per node
Matrix = NDArray[np.int64]  # amounts: one row per resource, one column per node
Mask = NDArray[np.bool_]  # a flag per node
Codes = NDArray[np.int32]  # the number of a label value per node

T = TypeVar("T", bound=np.generic)


def with_columns(array: NDArray[T], more: int, value: int = 0) -> NDArray[T]:
    """Return a copy of a vector or matrix with ``more`` columns of ``value`` at its end.

    ``numpy.pad`` takes nine times as long for the arrays of a small cluster.
    """
    *rows, columns = array.shape
    longer = np.full((*rows, columns + more), value, array.dtype)
    longer[..., :columns] = array
    return longer
