"""How values are distributed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Histogram:
    """How often values lie between `edges`; of large tensors, of evenly chosen ones."""

    counts: npt.NDArray[np.float64]
    """Shape (bins,)."""
    edges: npt.NDArray[np.float64]
    """Shape (bins + 1,), ascending."""
