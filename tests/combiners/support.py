"""Random inputs for combiners, and what their results may differ by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tos_notebook.combiners import PushInfo

Array = npt.NDArray[Any]

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64")


def push(
    worker: int = 0, staleness: int = 0, steps: int = 1, workers: int = 1, pushes: int = 1
) -> PushInfo:
    return PushInfo(worker, staleness, steps, steps * 10, workers, pushes)


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


def wide(array: Array) -> Array:
    return array.astype(np.float64)
