"""Rules of combination as users write them."""

from __future__ import annotations

import numpy as np

from tos_notebook.combiners import PushInfo, StatefulCombiner
from tos_notebook.common.arrays import Array


class Momentum(StatefulCombiner):
    """Has a state for each tensor, and is not striped, so it may fail in the midst of a push."""

    def reset(self, like: Array) -> None:
        self.velocity = np.zeros_like(like)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        self.velocity += update
        center += self.velocity
        update[...] = center
