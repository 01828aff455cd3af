"""Numpy array types: one element, column or flag per node index."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int64]  # an amount, a score or a count per node
Matrix = NDArray[np.int64]  # amounts: one row per resource, one column per node
Mask = NDArray[np.bool_]  # a flag per node
Codes = NDArray[np.int32]  # the number of a label value per node
