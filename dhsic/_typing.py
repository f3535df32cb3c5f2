"""Types of NumPy arrays for signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Float = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
