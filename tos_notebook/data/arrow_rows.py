"""One column of an Arrow batch as numpy, or what is wrong with its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..blocks.block import ColumnSpec
from ..blocks.feeds import beyond, integers, outside
from ..blocks.sparse import SparseRows
from ..common.arrays import STRING, Array, dtype_of, is_finite
from .images import bad_images, pixels_of


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """A column of Arrow batches, and what its rows are to be.

    Parameters
    ----------
    spec : ColumnSpec
        With the column's own name.
    lengths : tuple of int
        Of its lists, from the outermost; one number for the bytes of a binary column.
    classes : int or None
        How many classes its labels are of.
    narrow : str or None
        The dtype of integers that the program makes of them, where not all of them fit.
    varies : bool
        Whether the program takes any length, if all rows of a batch have it.
    sparse : bool
        Whether to hold vectors as `SparseRows`.
    image : bool
        Whether its rows are images to decode.
    """

    spec: ColumnSpec
    lengths: tuple[int, ...]
    classes: int | None = None
    narrow: str | None = None
    varies: bool = False
    sparse: bool = False
    image: bool = False

    @property
    def nbytes(self) -> int:
        """What a row of numbers takes."""
        return int(math.prod(self.spec.shape) * dtype_of(self.spec.dtype).itemsize)

    def __str__(self) -> str:
        if self.image:
            return f"an image for {self.spec}"
        return str(self.spec) + (f" with {integers(self.narrow)}" if self.narrow else "")


def rows_of(array: Any, column: ArrowColumn) -> Array | None:
    """Return a column as numpy; None if any of its rows is bad."""
    if column.image:
        return pixels_of(array, column.spec)
    if pa.types.is_struct(array.type):
        return _vectors(array, column)
    array = _as_lists(array, column)
    for length in column.lengths:
        if array.null_count or (_numbers(array.value_lengths()) != length).any():
            return None
        array = array.flatten()
    if array.null_count:
        return None
    if column.spec.dtype == STRING:
        return _strings(array).reshape(-1, *column.spec.shape)
    flat = _cast(_numbers(array), column)
    rows: Array = flat.reshape(-1, *column.spec.shape)
    if not is_finite(flat) or (column.classes and outside(rows, column.classes).any()):
        return None
    return None if column.narrow and beyond(flat, column.narrow).any() else rows


def _strings(array: Any) -> Array:
    """Return text without nulls as objects, the same one for equal values."""
    coded = array.dictionary_encode()
    values = np.empty(len(coded.dictionary), object)
    values[:] = coded.dictionary.cast(pa.large_binary()).to_pylist()
    return values[_numbers(coded.indices)]


def _numbers(array: Any) -> Array:
    """Return an array without nulls as numpy.

    Arrow's own way imports pandas, which takes a worker longer than many a run.
    """
    kind, content = array.type, array.buffers()[-1]
    if not content or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.frombuffer(
        content, kind.to_pandas_dtype(), len(array), array.offset * kind.bit_width // 8
    )


def _vectors(array: Any, column: ArrowColumn) -> Any:
    """Return vectors as numpy, or as `SparseRows`; None if any of them is bad."""
    if array.null_count or (_widths(array) != column.lengths[0]).any():
        return None
    rows = _sparse(array, column)
    if not is_finite(rows.values):
        return None
    return rows if column.sparse else rows.dense()


def _widths(array: Any) -> npt.NDArray[np.int64]:
    """Return how many numbers each of some vectors has; 0 for null."""
    sizes, values = array.field("size"), array.field("values").value_lengths()
    return pc.fill_null(pc.coalesce(sizes, values), 0).to_numpy(zero_copy_only=False)


def _sparse(array: Any, column: ArrowColumn) -> SparseRows:
    """Return vectors of one width, none of them null; dense ones have an index for each value."""
    values, is_sparse = array.field("values"), array.field("size").is_valid()
    counts = values.value_lengths().to_numpy()
    of_sparse = np.repeat(is_sparse.to_numpy(zero_copy_only=False), counts)
    indices = np.empty(len(of_sparse), np.int32)
    indices[of_sparse] = array.field("indices").flatten().to_numpy()
    width = column.lengths[0]
    indices[~of_sparse] = np.tile(np.arange(width, dtype=np.int32), (~of_sparse).sum() // width)
    numbers = _cast(values.flatten().to_numpy(), column)
    return SparseRows(np.concatenate([[0], np.cumsum(counts)]), indices, numbers, column.spec.shape)


def _vector_problems(array: Any, column: ArrowColumn) -> dict[int, str]:
    found: dict[int, str] = {}
    rows, width = np.arange(len(array)), column.lengths[0]
    _note(found, rows, array.is_null(), lambda _: "null")
    widths = _widths(array)
    _note(found, rows, widths != width, _counted(widths, width))
    good = np.setdiff1d(rows, list(found))
    kept = _sparse(array.take(pa.array(good)), column)
    places = np.repeat(good, np.diff(kept.ends))
    _note(found, places, ~np.isfinite(kept.values), lambda index: str(kept.values[index]))
    return found


def problems_of(array: Any, column: ArrowColumn) -> dict[int, str]:
    """Return what is wrong, by row; the first thing only."""
    if column.image:
        return bad_images(array, column.spec)
    if pa.types.is_struct(array.type):
        return _vector_problems(array, column)
    found: dict[int, str] = {}
    rows = np.arange(len(array))
    array = _as_lists(array, column)
    for length in column.lengths:
        _note(found, rows, array.is_null(), lambda _: "null")
        counts = pc.fill_null(array.value_lengths(), length).to_numpy()
        _note(found, rows, counts != length, _counted(counts, length))
        rows = rows[pc.list_parent_indices(array).to_numpy()]
        array = array.flatten()
    _note(found, rows, array.is_null(), lambda _: "null")
    if column.spec.dtype == STRING:
        return found
    zero = False if pa.types.is_boolean(array.type) else 0
    flat = _cast(array.fill_null(zero).to_numpy(zero_copy_only=False), column)
    if flat.dtype.kind == "f":
        _note(found, rows, ~np.isfinite(flat), lambda index: str(flat[index]))
    if column.narrow:
        _note(found, rows, beyond(flat, column.narrow), lambda index: str(flat[index]))
    if column.classes:
        text = f"of {column.classes} classes"
        _note(found, rows, outside(flat, column.classes), lambda i: f"label {flat[i]} {text}")
    return found


def _note(found: dict[int, str], rows: npt.NDArray[np.int64], wrong: Any, reason: Any) -> None:
    indices = np.flatnonzero(np.asarray(wrong))
    _, first = np.unique(rows[indices], return_index=True)
    for index in indices[first]:
        found.setdefault(int(rows[index]), reason(index))


def _counted(counts: Array, length: int) -> Any:
    return lambda index: f"{counts[index]} {instead(length)}"


def instead(length: int) -> str:
    """Return in words which length another one is in place of."""
    return f"values in place of {length}"


def _cast(values: Array, column: ArrowColumn) -> Array:
    # What is too large becomes infinite, and is found as such.
    with np.errstate(over="ignore"):
        return values.astype(column.spec.dtype, copy=False)


def _as_lists(array: Any, column: ArrowColumn) -> Any:
    """Return raw bytes as lists of uint8, over the same memory; all else as it is."""
    if column.spec.dtype == STRING:
        return array
    if pa.types.is_binary(array.type):
        kind = pa.list_(pa.uint8())
    elif pa.types.is_large_binary(array.type):
        kind = pa.large_list(pa.uint8())
    else:
        return array
    validity, offsets, data = array.buffers()
    data = data or pa.py_buffer(b"")
    values = pa.Array.from_buffers(pa.uint8(), data.size, [None, data])
    return pa.Array.from_buffers(
        kind, len(array), [validity, offsets], offset=array.offset, children=[values]
    )
