"""Random inputs for combiners, and what their results may differ by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tos_notebook.combiners import Combiner, Part, PushInfo

Array = npt.NDArray[Any]

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64")


def push(
    worker: int = 0,
    staleness: int = 0,
    steps: int = 1,
    workers: int = 1,
    pushes: int = 1,
    samples: int | None = None,
) -> PushInfo:
    return PushInfo(worker, staleness, steps, samples or steps * 10, workers, pushes)


def elements(dtype: str) -> st.SearchStrategy[Any]:
    """Numbers whose sums and differences stay in the dtype's range."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        bound = 1e4 if dtype == "float16" else 1e6
        return st.floats(-bound, bound, width=np.dtype(dtype).itemsize * 8)  # type: ignore[arg-type]
    return st.integers(0 if kind == "u" else -40, 40 if dtype == "int8" else 80)


def arrays(dtype: str, count: int = 2) -> st.SearchStrategy[tuple[Array, ...]]:
    """Tuples of arrays of one random shape, from a scalar to three dimensions."""
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=5)
    return shapes.flatmap(
        lambda shape: st.tuples(
            *[hnp.arrays(dtype, shape, elements=elements(dtype)) for _ in range(count)]
        )
    )


def pairs(dtypes: tuple[str, ...]) -> st.SearchStrategy[tuple[Array, ...]]:
    return st.sampled_from(dtypes).flatmap(arrays)


def assert_close(actual: Array, reference: Array, *inputs: Array) -> None:
    """Equal up to a few roundings of the largest input; integers to the bit."""
    if actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, reference)
        return
    largest = max(float(np.abs(x).max(initial=0)) for x in inputs)
    allowed = 8 * float(np.finfo(actual.dtype).eps) * largest + float(
        np.finfo(actual.dtype).smallest_subnormal
    )
    np.testing.assert_allclose(actual.astype(np.float64), reference, rtol=0, atol=allowed)


def assert_elements_close(
    actual: Array, reference: Array, *inputs: Array, slope: float = 1.0
) -> None:
    """Equal up to a few roundings of the numbers that each element was made of, and of no other.

    Parameters
    ----------
    actual, reference : ndarray
    *inputs : ndarray
        What was added up, in `actual`'s shape each.
    slope : float
        By how much the result moves, at most, if what was added up moves by 1.
    """
    own, computed = np.finfo(actual.dtype), np.finfo(np.promote_types(actual.dtype, "float32"))
    added = np.sum([np.abs(wide(x)) for x in inputs], axis=0)
    rounded = np.abs(reference) if slope != 1 else added
    allowed = 4 * (float(own.eps) * rounded + slope * float(computed.eps) * added)
    allowed += 8 * float(own.smallest_subnormal)
    # Of what is computed on the way, some is a hundred times as steep as the whole.
    allowed += 64 * max(1, slope) * float(computed.smallest_subnormal)
    assert (np.abs(wide(actual) - reference) <= allowed).all(), (actual, reference)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


class Model:
    """Some tensors and a combiner begun for each, merged as the store does it."""

    def __init__(self, combiner: Combiner, *centers: Array) -> None:
        self.combiner = combiner
        self.centers = [center.copy().reshape(-1) for center in centers]
        self.rules = [combiner.begin(center) for center in self.centers]
        self.pushes = 0

    def merge(self, *updates: Array, worker: int = 0, **given: int) -> list[Array]:
        """Merge copies of some updates; return what the worker adopts."""
        replies = [update.copy().reshape(-1) for update in updates]
        parts = [Part(*part) for part in zip(self.rules, self.centers, replies, strict=True)]
        info = push(worker, pushes=self.pushes, **given)
        self.combiner.prepare(parts, info)
        for rule, center, reply in parts:
            rule.merge(center, reply, info)
        self.pushes += 1
        return replies

    @property
    def center(self) -> Array:
        """The only tensor."""
        (center,) = self.centers
        return center


def stacks(dtype: str, least: int = 1, most: int = 8) -> st.SearchStrategy[Array]:
    """A few vectors of one random length, of moderate values, stacked."""
    sides = st.tuples(st.integers(least, most), st.integers(1, 7))
    bounded = st.floats(-100, 100, width=np.dtype(dtype).itemsize * 8)  # type: ignore[arg-type]
    return sides.flatmap(lambda shape: hnp.arrays(dtype, shape, elements=bounded))
