"""Adaptive server optimizers: a step of its own size for every parameter."""

from __future__ import annotations

import numpy as np

from ..common.arrays import Array
from ..common.checks import below, positive
from .arithmetic import move, pieces
from .averaging import AveragingCombiner, FedAvg
from .base import Combiner


class FedAdam(AveragingCombiner):
    """Adam at the server, on the mean change of K pushes.

    The moments begin at 0 and are not corrected for it, as in the paper.

    Parameters
    ----------
    lr : float
        The server's learning rate, above 0: about how far a parameter moves in one step.
    beta1, beta2 : float
        Decay of the moments, in [0, 1).
    eps : float
        Above 0; changes that are much smaller are not amplified.
    k : int, optional
        Pushes of a round; by default the active workers.

    Raises
    ------
    ConfigError
        `lr` or `eps` is not above 0, `beta1` or `beta2` not in [0, 1), or `k` below 1.
    """

    name = "fedadam"
    by_row = True
    moments = ("m", "v")
    rule = "every K pushes: m = β₁ m + (1-β₁) Δ̄; v = β₂ v + (1-β₂) Δ̄²; c += η m / (√v + ε)"
    source = "Reddi et al. 2021, arXiv:2003.00295"
    when = "Parameters whose changes differ much in size, as sparse ones do."
    state = "the round's sum, m, v"

    def __init__(
        self,
        lr: float = 0.1,
        beta1: float = 0.9,
        beta2: float = 0.99,
        eps: float = 1e-3,
        k: int | None = None,
    ) -> None:
        super().__init__(k)
        owner = type(self).__name__
        self.lr = positive(f"{owner}(lr)", lr)
        self.beta1 = below(f"{owner}(beta1)", beta1, 1)
        self.beta2 = below(f"{owner}(beta2)", beta2, 1)
        self.eps = positive(f"{owner}(eps)", eps)

    def of_statistics(self) -> Combiner:
        """Return the mean of as many pushes; see `Combiner.of_statistics`."""
        return FedAvg(self.k)

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        super().reset(like)
        self.m = np.zeros_like(self.total)
        self.v = np.zeros_like(self.total)

    def step(self, center: Array, change: Array) -> None:
        """Move by the first moment over the root of the second."""
        flat = [array.reshape(-1) for array in (center, change, self.m, self.v)]
        for piece in pieces(change.size):
            self._step(*(array[piece] for array in flat))

    def _step(self, center: Array, change: Array, m: Array, v: Array) -> None:
        with np.errstate(over="ignore"):
            square = change * change
        # A square beyond the dtype's range would stay in v as infinity for ever.
        limit = np.finfo(change.dtype).max / 4
        if square.max() > limit:
            np.minimum(square, limit, out=square)
        self.accumulate(v, square)
        change *= 1 - self.beta1
        m *= self.beta1
        m += change
        np.sqrt(v, out=square)
        square += self.eps
        np.divide(m, square, out=change)
        change *= self.lr
        move(center, change)

    def accumulate(self, v: Array, square: Array) -> None:
        """Do v = β₂ v + (1 - β₂) Δ̄².

        Parameters
        ----------
        v : ndarray
            The second moment, changed in place.
        square : ndarray, of the same shape and dtype
            Δ̄²; it may be overwritten.
        """
        square *= 1 - self.beta2
        v *= self.beta2
        v += square


class FedYogi(FedAdam):
    """Yogi at the server: as `FedAdam`, parameters too, but steps grow again only slowly."""

    name = "fedyogi"
    rule = (
        "every K pushes: m = β₁ m + (1-β₁) Δ̄; v = v - (1-β₂) Δ̄² sign(v - Δ̄²); c += η m / (√v + ε)"
    )
    when = "As FedAdam, where its steps jump after quiet phases."

    def accumulate(self, v: Array, square: Array) -> None:
        """Do v = v - (1 - β₂) Δ̄² sign(v - Δ̄²)."""
        # A third of the time of np.sign(v - square).
        sign = np.greater(v, square).view(np.int8) - np.less(v, square).view(np.int8)
        square *= 1 - self.beta2
        square *= sign
        v -= square
