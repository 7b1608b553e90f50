"""Weighted sums that are scaled only where weights differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..common.arrays import Array

LEAST = 1e-20
"""The weight from which on a vector counts. With less it changes no mean with others."""


class Held(NamedTuple):
    """What a vector is a sum of: of each xᵢ, times its weight over the unit.

    A vector that no other was added to has its weight as its unit. So vectors of one weight are
    added as they are, and only the mean is divided.

    Attributes
    ----------
    unit : float
    weight : float
        The sum of the weights; what has weight 0 counts for nothing, whatever the vector holds.
    """

    unit: float
    weight: float

    def plus(self, other: Held) -> Held:
        """Return what the sum of two vectors is; see `add`."""
        if not other.weight:
            return self
        if not self.weight:
            return other
        return Held(self.unit if self.unit == other.unit else 1.0, self.weight + other.weight)


def add(target: Array, held: Held, piece: Array, came: Held) -> None:
    """Add to a vector, in place; what is added may be scaled, too.

    Parameters
    ----------
    target, piece : ndarray, of one shape and floating dtype
    held, came : Held
        What each of them is.
    """
    if not came.weight:
        return
    if not held.weight:
        np.copyto(target, piece)
        return
    if held.unit != came.unit:
        _scale(target, held.unit)
        _scale(piece, came.unit)
    np.add(target, piece, target)


def mean(target: Array, held: Held) -> None:
    """Make a sum the mean, in place; one of weight 0 stays as it is."""
    if held.weight and held.weight != held.unit:
        np.divide(target, held.weight / held.unit, target)


def _scale(array: Array, factor: float) -> None:
    if factor != 1.0:
        np.multiply(array, factor, array)
