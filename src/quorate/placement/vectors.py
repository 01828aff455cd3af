"""Numpy array types: one element, column or flag per node index; and numpy itself, imported when it is used.

Numpy takes 12 MB and 0.1 s of CPU. A process without nodes to place pods on needs neither.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["Codes", "Mask", "Matrix", "Vector", "np", "with_columns"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.int64]  # an amount, a score or a count per node
    Matrix = NDArray[np.int64]  # amounts: one row per resource, one column per node
    Mask = NDArray[np.bool_]  # a flag per node
    Codes = NDArray[np.int32]  # the number of a label value per node
    T = TypeVar("T", bound=np.generic)
else:
    Vector = Matrix = Mask = Codes = Any

    class _Deferred(ModuleType):
        """A module that is imported when one of its attributes is first read; then it is like any module."""

        def __getattr__(self, name: str) -> Any:
            module = import_module(self.__name__)
            self.__dict__.update(module.__dict__)
            self.__class__ = ModuleType
            return getattr(module, name)

    np = _Deferred("numpy")


def with_columns(array: "NDArray[T]", more: int, value: int = 0) -> "NDArray[T]":
    """Return a copy of a vector or matrix with ``more`` columns of ``value`` at its end.

    ``numpy.pad`` takes nine times as long for the arrays of a small cluster.
    """
    *rows, columns = array.shape
    longer = np.full((*rows, columns + more), value, array.dtype)
    longer[..., :columns] = array
    return longer
