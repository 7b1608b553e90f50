"""Matrices as products of two thin ones: PowerSGD (Vogels et al. 2019, arXiv:1905.13727)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.arrays import Array, Buffer
from ..common.checks import at_least_one
from ..errors import CodecError, ConfigError, NonFiniteUpdate, RemoteProtocolError
from .base import Codec
from .parts import LARGEST, Floats, Part, Range, Raw, fields, smaller
from .pieces import PIECE, Piece, Piecewise, cut

_SEED = 1905
_NOISE = 1e-3
_PRODUCTS = 1 << 18
"""Multiplications from which on OpenBLAS starts threads."""


class MatrixPart(Piecewise):
    """One matrix M as P Qᵀ, where P has orthonormal columns and Q = Mᵀ P.

    One step of the power method, from the Q of the update before: successive updates are alike.
    A little noise added to it keeps directions within reach that the last update did not have.

    All dimensions but the last make up the rows. Pieces are whole rows, few enough that BLAS starts
    no threads for products with them. P has `rank` columns.
    """

    def __init__(self, matrix: Range, rank: int) -> None:
        self._columns = columns = matrix.shape[-1]
        rows = matrix.size // columns
        self._rank = rank = min(rank, rows, columns)
        pieces = cut([matrix], max(1, min(PIECE, _PRODUCTS // rank) // columns) * columns)
        super().__init__(pieces, (np.float32, rows * rank), (np.float32, rank * columns))
        self._left = np.empty((rows, rank), np.float32)
        self._product = np.empty((rank, columns), np.float32)
        random = np.random.default_rng(_SEED)
        noise = random.standard_normal((columns, rank), np.float32)
        self._noise = noise / np.linalg.norm(noise, axis=0)
        self._start = self._next = self._noise
        self._key: int | None = None

    def encode(self, values: Array, payload: Buffer, key: int, residual: Array | None) -> None:
        """Do one step; repeated under the same key, from where it started then."""
        if key != self._key:
            self._start, self._key = self._next, key
        sent = fields(payload, *self.counts)
        left, right = self._factors(sent)
        self._step(values, left, right)
        if not self._bounded(sent):
            raise NonFiniteUpdate(
                f"Expected a matrix of finite values and a norm up to {LARGEST:.3g}, got NaN, "
                "infinity or a larger norm."
            )
        self._warm(right)
        if residual is not None:
            for piece in self.pieces:
                self.keep(piece, sent, values, residual)

    def _step(self, values: Array, left: Array, right: Array) -> None:
        """Fill P, of shape (rows, rank), and Qᵀ, of shape (rank, columns)."""
        with np.errstate(over="ignore", invalid="ignore"):  # refused by the caller
            for piece in self.pieces:
                rows = piece.load(values, self.loaded).reshape(-1, self._columns)
                np.matmul(rows, self._start, out=self._left[self._rows(piece)])
            left[:] = np.linalg.qr(self._left).Q
            right[:] = 0
            for piece in self.pieces:
                rows = piece.load(values, self.loaded).reshape(-1, self._columns)
                np.matmul(left[self._rows(piece)].T, rows, out=self._product)
                right += self._product

    def _warm(self, right: Array) -> None:
        norms = np.linalg.norm(right.astype(np.float64), axis=1)
        scaled = right.T / np.maximum(norms, np.finfo(np.float32).tiny)
        self._next = scaled.astype(np.float32) + np.float32(_NOISE) * self._noise

    def read(self, piece: Piece, sent: Sequence[Array], out: Floats) -> None:
        """Multiply some rows of P with Qᵀ."""
        left, right = self._factors(sent)
        np.matmul(left[self._rows(piece)], right, out=out.reshape(-1, self._columns))

    def check(self, sent: Sequence[Array]) -> None:
        """Refuse factors whose product might not be finite."""
        if not self._bounded(sent):
            raise RemoteProtocolError(
                "Expected two factors with a product of finite values, got NaN, infinity or "
                "values out of range."
            )

    def _factors(self, sent: Sequence[Array]) -> tuple[Array, Array]:
        return sent[0].reshape(-1, self._rank), sent[1].reshape(self._rank, -1)

    def _bounded(self, sent: Sequence[Array]) -> bool:
        left, right = (float(np.abs(factor).max()) for factor in sent)
        return bool(left <= 2 and right <= LARGEST / self._rank)  # False for NaN

    def _rows(self, piece: Piece) -> slice:
        first = piece.start // self._columns
        return slice(first, first + piece.size // self._columns)


@dataclass(frozen=True, repr=False)
class PowerSGD(Codec):
    """Matrices of a low rank; vectors as they are.

    Parameters
    ----------
    rank : int
        At least 1.
    feedback : bool
        Must be True.

    Raises
    ------
    CodecError
        The rank is out of range, or without feedback.
    """

    rank: int = 4

    name = "powersgd"
    parameter = "rank"
    biased = True
    ratio = 29.0
    rule = "P Qᵀ of each matrix a, P = orth(a Q₀), Q = aᵀ P, Q₀ the last Q; vectors as they are"
    source = "Vogels et al. 2019, arXiv:1905.13727"
    when = "Large matrices: the larger, the more it saves."

    def __post_init__(self) -> None:
        try:
            at_least_one("Codec powersgd, rank", self.rank)
        except ConfigError as error:
            raise CodecError(str(error)) from None
        super().__post_init__()

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return a part for each matrix, and one for all vectors."""
        matrices = [each for each in ranges if len(each.shape) > 1]
        vectors = [each for each in ranges if len(each.shape) <= 1]
        coded = [smaller(dtype, [each], lambda r: MatrixPart(r[0], self.rank)) for each in matrices]
        return [*coded, Raw(dtype, vectors)]
