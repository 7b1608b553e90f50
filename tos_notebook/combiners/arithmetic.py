"""The in-place arithmetic that the built-in combiners share.

Everything is computed in the parameters' own dtype, with two exceptions. Float16 is
computed in float32, because differences and factors would overflow or lose digits.
Integers are computed in float64 and rounded to the nearest, ties to even. The arrays of one call
have one shape and, unless something else is said, one dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common import native
from ..common.arrays import Array


def add_delta(center: Array, delta: Array, divisor: float = 1) -> None:
    """Do ``center += delta / divisor`` and make `delta` a copy of the new center.

    A division, not a product with the reciprocal, so that a fifth is exactly a fifth. The change of
    unsigned integers is modulo the dtype's range, as subtraction gives it.
    """
    if divisor >= 1 and native.extension is not None:
        raised = native.extension.add_delta(center, delta, divisor)
        if raised >= 0:
            if raised:
                _signal(raised, center.dtype)
            return
    if divisor != 1 and delta.dtype.kind == "f":
        by = np.float32(divisor) if delta.dtype == np.float16 else divisor
        np.divide(delta, by, out=delta, casting="same_kind")
    elif divisor != 1:
        signed = delta.view(f"i{delta.itemsize}")
        signed[...] = np.rint(np.divide(signed, divisor, dtype=np.float64))
    center += delta
    delta[...] = center


def _signal(raised: int, dtype: np.dtype[Any]) -> None:
    """Let numpy do what it was told to do about an overflow, or a sum that is no number."""
    if raised & 1:
        largest = np.full(1, np.finfo(dtype).max, dtype)
        np.add(largest, largest)
    if raised & 2:
        infinite = np.full(1, np.inf, dtype)
        np.add(infinite, -infinite)


def blend(center: Array, weights: Array, alpha: float) -> None:
    """Do ``center += alpha (weights - center)`` and make `weights` a copy of the new center.

    The factor is in [0, 1]; at 1 the center becomes `weights` to the bit.
    """
    if alpha == 1:
        center[...] = weights
        return
    if center.dtype.kind == "f":
        pull = weights.astype(np.float32) if center.dtype == np.float16 else weights
        pull -= center
        pull *= alpha
        np.add(center, pull, out=center, casting="same_kind")
    else:
        center[...] = _between(center, weights, alpha)
    weights[...] = center


def attract(center: Array, weights: Array, alpha: float) -> None:
    """Move `center` and `weights` towards each other by ``alpha (weights - center)`` each.

    Their sum is conserved: exactly for integers, up to rounding for floats.
    """
    if center.dtype.kind == "f":
        wide = np.float32 if center.dtype == np.float16 else center.dtype
        pull = np.subtract(weights, center, dtype=wide)
        pull *= alpha
        np.add(center, pull, out=center, casting="same_kind")
        np.subtract(weights, pull, out=weights, casting="same_kind")
        return
    moved = _between(center, weights, alpha)
    # Integer arithmetic is modular, so the sum survives even where it overflows.
    weights += center
    center[...] = moved
    weights -= center


def wide_dtype(dtype: np.dtype[np.generic]) -> np.dtype[Any]:
    """Return the dtype that parameters of `dtype` are computed in."""
    if dtype.kind != "f":
        return np.dtype(np.float64)
    return np.promote_types(dtype, np.float32)


def widen(values: Array) -> Array:
    """Return `values` in the dtype they are computed in: the same array if it is theirs."""
    return values.astype(wide_dtype(values.dtype), copy=False)


def widen_delta(delta: Array) -> Array:
    """Return a change in the dtype it is computed in; that of an unsigned integer is signed."""
    return widen(delta.view(f"i{delta.itemsize}") if delta.dtype.kind == "u" else delta)


def move(center: Array, step: Array) -> None:
    """Do ``center += step``, for a step in the dtype that the center is computed in."""
    if center.dtype.kind == "f":
        np.add(center, step, out=center, casting="same_kind")
    else:
        center += narrow(step, center.dtype)


def narrow(delta: Array, dtype: np.dtype[Any]) -> Array:
    """Return a change in its parameter's own dtype: the inverse of `widen_delta`."""
    if dtype.kind == "f":
        return delta.astype(dtype, copy=False)
    return np.asarray(round_to(delta, np.dtype(f"i{dtype.itemsize}")).astype(dtype))


def pieces(size: int, length: int = 1 << 17) -> Iterator[slice]:
    """Cut `size` elements into slices whose intermediate results stay in a core's cache."""
    return (slice(start, start + length) for start in range(0, size, length))


def global_norm(arrays: Sequence[Array]) -> float:
    """Return the L2 norm of all elements together, however large they are."""
    largest = max((float(np.abs(array).max(initial=0)) for array in arrays), default=0.0)
    if not largest:
        return 0.0
    total = 0.0
    for flat in (array.reshape(-1) for array in arrays):
        for piece in pieces(flat.size):
            scaled = flat[piece].astype(np.float64)
            scaled /= largest
            total += sum_of_squares(scaled)
    return largest * math.sqrt(total)


def sum_of_squares(values: Array) -> float:
    """Return the sum of squares, in place. BLAS' own would start threads for it."""
    values *= values
    return float(values.sum())


def round_to(values: npt.NDArray[np.float64], dtype: np.dtype[np.generic]) -> Array:
    """Round finite float64 values to an integer dtype, clipping them to its range."""
    info = np.iinfo(dtype)  # type: ignore[type-var]
    high = float(info.max)
    if int(high) > info.max:
        high = float(np.nextafter(high, 0))
    return np.clip(np.rint(values), float(info.min), high).astype(dtype)


def _between(center: Array, weights: Array, alpha: float) -> Array:
    low = center.astype(np.float64)
    moved = round_to(low + alpha * (weights - low), center.dtype)
    # float64 does not hold every 64-bit integer: rounding must not lead past either end.
    return np.clip(moved, np.minimum(center, weights), np.maximum(center, weights))
