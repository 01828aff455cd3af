"""The forms in which one question is asked of many nodes at once."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int64]  # an amount, or a number of another kind, for each node
Matrix = NDArray[np.int64]  # amounts: a row for each resource, a column for each node
Mask = NDArray[np.bool_]  # an answer for each node
