"""Makes the steps of MLlib's gradient descent, in place of the program's optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...common.arrays import Array
from ...layout import Layout
from .updaters import UPDATERS


class GradientDescent:
    """MLlib's `GradientDescent`, which keeps nothing between steps; see `archive.runner.Updater`.

    It computes in float64, and rounds the parameters to their own dtype.

    Parameters
    ----------
    layout : Layout
    step_size : float
        That of the first iteration. Iteration i takes ``step_size / sqrt(i)``.
    updater : str
        A key of `UPDATERS`.
    reg_param : float
    convergence_tol : float
        See `TreeAggregate`.

    Attributes
    ----------
    iteration : int
        Which one comes next, from 1; those that were left out count.
    converged : bool
        Whether the last step moved all trained parameters together by less than `convergence_tol`
        times their Euclidean norm, or times 1 if that is larger.
    """

    scales_loss = False

    def __init__(
        self,
        layout: Layout,
        step_size: float,
        updater: str,
        reg_param: float,
        convergence_tol: float,
    ) -> None:
        self._layout = layout
        self._step_size = step_size
        self._rule, self._reg_param = UPDATERS[updater], reg_param
        self._tolerance = convergence_tol
        self._made = layout.allocate()
        self.iteration = 1
        self.converged = False

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        """See `Updater.update`; what is not trained takes its mean."""
        step = self._step_size / math.sqrt(self.iteration)
        moved = size = 0.0
        made = self._layout.vectors(self._made)
        every = zip(self._layout.segments, made, vectors, means, strict=True)
        for segment, new, vector, mean in every:
            if not segment.trained or new.dtype.kind != "f":
                new[...] = mean
                continue
            before, gradient = (array.astype(np.float64, copy=False) for array in (vector, mean))
            new[...] = self._rule(before, gradient, step, self._reg_param)
            after = new.astype(np.float64, copy=False)
            moved += float(np.square(after - before).sum())
            size += float(np.square(after).sum())
        self.converged = math.sqrt(moved) < self._tolerance * max(math.sqrt(size), 1.0)
        return list(self._layout.tensors(self._made).values())

    def set_learning_rate(self, value: float) -> None:
        """Take another `step_size` from the next iteration on."""
        self._step_size = value

    def state(self) -> list[Array]:
        """See `Updater.state`: all that counts is the iteration, and that is the epoch."""
        return []

    def restore(self, state: Sequence[Array]) -> None:
        """See `Updater.restore`."""
        if state:
            raise ValueError(f"expected no state of an optimizer, got {len(state)} arrays")
