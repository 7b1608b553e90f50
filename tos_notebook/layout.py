"""The layout of a program's parameters in one flat, aligned buffer.

Parameters of one dtype lie together in a *segment*, so that whatever works on all
parameters at once works on a few long vectors instead of many small tensors. Statistics, which
are exchanged but not trained, have segments of their own. So has each table, a parameter that is
exchanged by row; tables come last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .common.arrays import ALIGNMENT, Array, Buffer, aligned_empty
from .common.served import ServedTable
from .errors import ShapeMismatch, UnsupportedProgram


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """Name, shape and dtype of one parameter tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    trained: bool = True
    """False for what an optimizer must not change, such as moving averages."""
    shown: bool = True
    """False for what an optimizer keeps for itself, and is not a parameter of the model."""
    by_row: bool = False
    """Whether it is a table, of which a milestone changes few rows: a matrix that is trained."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Segment:
    """All parameters of one kind: `size` elements, padding included, from byte `offset` on."""

    dtype: str
    offset: int
    size: int
    indices: tuple[int, ...]
    """Positions of its parameters in `Layout.specs`, in the order they lie in memory."""
    starts: tuple[int, ...]
    """The element at which each of them begins, at a multiple of `ALIGNMENT`."""
    trained: bool = True
    """Whether its parameters are trained, or statistics."""
    table: tuple[int, int] | None = None
    """Rows, and elements of a row, of the one parameter in it that is a table."""

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self.size * np.dtype(self.dtype).itemsize


class Layout:
    """Where each parameter lies in the flat buffer; the padding in between is zero.

    Parameters
    ----------
    specs : iterable of ParameterSpec
        The parameters, in the program's order. Real floating-point and integer dtypes.
    served : iterable of ServedTable, optional
        The tables that no buffer holds: shards have their rows.

    Raises
    ------
    UnsupportedProgram
        No parameter, two of one name, or a dtype that has no arithmetic.
    """

    def __init__(self, specs: Iterable[ParameterSpec], served: Iterable[ServedTable] = ()) -> None:
        self.specs = tuple(specs)
        self.served = tuple(served)
        self._check()
        self.segments = tuple(self._lay_out())

    def _check(self) -> None:
        if not self.specs:
            raise UnsupportedProgram(
                "The program has nothing to train: expected at least one parameter, got none. "
                "Make a variable trainable, or name the parameters."
            )
        seen: set[str] = set()
        for spec in self.specs:
            if _kind(spec.dtype) not in tuple("fiu"):
                raise UnsupportedProgram(
                    f"Parameter {spec.name!r} has dtype {spec.dtype}; expected a floating-point "
                    "or integer dtype. Leave it out of the parameters."
                )
            if spec.name in seen:
                raise UnsupportedProgram(f"Two parameters are named {spec.name!r}.")
            if spec.by_row and not (len(spec.shape) == 2 and spec.size and spec.trained):
                raise UnsupportedProgram(
                    f"Parameter {spec.name!r} is exchanged by row; expected a matrix that is "
                    f"trained, got shape {spec.shape}."
                )
            seen.add(spec.name)

    def _lay_out(self) -> Iterator[Segment]:
        # Keyed by what "f4" and "float32" both are.
        groups: dict[tuple[np.dtype[Any], bool, int], list[int]] = {}
        order = sorted(range(len(self.specs)), key=lambda index: self.specs[index].by_row)
        for index in order:
            spec = self.specs[index]
            alone = index + 1 if spec.by_row else 0
            groups.setdefault((np.dtype(spec.dtype), spec.trained, alone), []).append(index)
        offset = 0
        for (dtype, trained, alone), indices in groups.items():
            starts, size = [], 0
            for index in indices:
                size = _aligned(size * dtype.itemsize) // dtype.itemsize
                starts.append(size)
                size += self.specs[index].size
            first = self.specs[indices[0]]
            table = (first.shape[0], first.shape[1]) if alone else None
            segment = Segment(
                first.dtype, offset, size, tuple(indices), tuple(starts), trained, table
            )
            yield segment
            offset += _aligned(segment.nbytes)

    @cached_property
    def nbytes(self) -> int:
        """Length of the buffer in bytes, padding included."""
        last = self.segments[-1]
        return last.offset + last.nbytes

    @cached_property
    def size(self) -> int:
        """Number of elements over all parameters."""
        return sum(spec.size for spec in self.specs)

    @cached_property
    def tables(self) -> tuple[Segment, ...]:
        """The segments that are exchanged by row, the last ones."""
        return tuple(segment for segment in self.segments if segment.table is not None)

    @cached_property
    def dense_nbytes(self) -> int:
        """Length in bytes of the segments before the tables, padding included."""
        return self.tables[0].offset if self.tables else self.nbytes

    @cached_property
    def of_model(self) -> Layout:
        """The layout of what a user knows as the model's parameters."""
        shown = [spec for spec in self.specs if spec.shown]
        return self if len(shown) == len(self.specs) else Layout(shown, self.served)

    def __len__(self) -> int:
        return len(self.specs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return False
        return self.specs == other.specs and self.served == other.served

    def __hash__(self) -> int:
        return hash((self.specs, self.served))

    def __repr__(self) -> str:
        return f"Layout({len(self)} parameters, {self.size} elements, {self.nbytes} bytes)"

    def allocate(self) -> Buffer:
        """Return a zeroed, aligned buffer of `nbytes` bytes."""
        buffer = aligned_empty(self.nbytes)
        buffer[:] = 0
        return buffer

    def vectors(self, buffer: Buffer) -> list[Array]:
        """View a buffer as one flat vector per segment.

        Parameters
        ----------
        buffer : ndarray, shape (nbytes,), uint8

        Returns
        -------
        list of ndarray, each of shape (segment.size,) and the segment's dtype
        """
        return [buffer[span].view(dtype) for span, dtype in self._spans]

    @cached_property
    def _spans(self) -> list[tuple[slice, np.dtype[Any]]]:
        return [(slice(s.offset, s.offset + s.nbytes), np.dtype(s.dtype)) for s in self.segments]

    def dense_vectors(self, buffer: Buffer) -> list[Array]:
        """View a buffer's first `dense_nbytes` as one vector per segment that is no table.

        Parameters
        ----------
        buffer : ndarray, shape (dense_nbytes,) or longer, uint8
        """
        count = len(self.segments) - len(self.tables)
        return [buffer[span].view(dtype) for span, dtype in self._spans[:count]]

    def table_arrays(self, buffer: Buffer) -> list[Array]:
        """View the tables in a buffer.

        Parameters
        ----------
        buffer : ndarray, shape (nbytes,), uint8

        Returns
        -------
        list of ndarray, each of shape `Segment.table`
        """
        return [
            buffer[s.offset : s.offset + s.nbytes].view(s.dtype).reshape(s.table)
            for s in self.tables
        ]

    def tensors(self, buffer: Buffer) -> dict[str, Array]:
        """View a buffer as the named parameters, in the program's order.

        Parameters
        ----------
        buffer : ndarray, shape (nbytes,), uint8
        """
        views: dict[int, Array] = {}
        for segment, vector in zip(self.segments, self.vectors(buffer), strict=True):
            for index, start in zip(segment.indices, segment.starts, strict=True):
                spec = self.specs[index]
                views[index] = vector[start : start + spec.size].reshape(spec.shape)
        return {spec.name: views[index] for index, spec in enumerate(self.specs)}

    def pack(
        self,
        values: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike],
        out: Buffer | None = None,
    ) -> Buffer:
        """Copy parameter values into one buffer.

        Parameters
        ----------
        values : sequence in the program's order, or mapping by name
            One array for each parameter, of its shape and dtype.
        out : ndarray, shape (nbytes,), uint8, optional
            Where to write; a new buffer by default.

        Raises
        ------
        ShapeMismatch
            A value is missing or one too many, or has another shape or dtype.
        """
        buffer = self.allocate() if out is None else out
        tensors = self.tensors(buffer)
        ordered = _in_order(values, tensors) if isinstance(values, Mapping) else list(values)
        if len(ordered) != len(self.specs):
            raise ShapeMismatch(f"Expected {len(self.specs)} parameters, got {len(ordered)}.")
        for spec, target, value in zip(self.specs, tensors.values(), ordered, strict=True):
            array = np.asarray(value)
            if array.shape != spec.shape or array.dtype != np.dtype(spec.dtype):
                raise ShapeMismatch(
                    f"Parameter {spec.name!r}: expected shape {spec.shape} of {spec.dtype}, "
                    f"got shape {array.shape} of {array.dtype}."
                )
            target[...] = array
        return buffer

    def to_json(self) -> list[Any]:
        """Return the layout as plain JSON values; served tables come last, each as an object."""
        kinds = [[s.trained, s.shown, *([True] if s.by_row else [])] for s in self.specs]
        both = zip(self.specs, kinds, strict=True)
        found = [[s.name, list(s.shape), s.dtype, *kind] for s, kind in both]
        return [*found, *(table.to_json() for table in self.served)]

    def adopt(self, buffer: Buffer, earlier: Layout, values: Buffer) -> None:
        """Take the values of the same model's parameters that another layout has.

        Parameters
        ----------
        buffer : ndarray, shape (nbytes,), uint8
            Where to. What an optimizer keeps in it for itself stays, unless `earlier` has it, too.
        earlier : Layout
            Of a program of the same model.
        values : ndarray, shape (earlier.nbytes,), uint8

        Raises
        ------
        ShapeMismatch
            It is another model.
        """
        if len(self.of_model) != len(earlier.of_model):
            raise ShapeMismatch(
                f"Expected {len(self.of_model)} parameters, got {len(earlier.of_model)}."
            )
        mine, given = self.tensors(buffer), earlier.tensors(values)
        # Their order is the model's. Keras may have counted other names since.
        for to, come in zip(self.of_model.specs, earlier.of_model.specs, strict=True):
            mine[to.name][...] = given[come.name]
        for spec in self.specs:
            if not spec.shown and spec.name in given:
                mine[spec.name][...] = given[spec.name]

    @classmethod
    def from_json(cls, value: Iterable[Any]) -> Layout:
        """Rebuild a layout from `to_json`'s value."""
        both = list(value)
        specs = (
            ParameterSpec(name, tuple(int(d) for d in shape), dtype, *map(bool, kind))
            for name, shape, dtype, *kind in (v for v in both if not isinstance(v, dict))
        )
        return cls(specs, [ServedTable.from_json(v) for v in both if isinstance(v, dict)])


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _kind(dtype: str) -> str:
    """Return numpy's kind of a dtype, or nothing if numpy does not know it (bfloat16)."""
    try:
        return np.dtype(dtype).kind
    except TypeError:
        return ""


def _in_order(
    values: Mapping[str, npt.ArrayLike], names: Mapping[str, Array]
) -> list[npt.ArrayLike]:
    if values.keys() != names.keys():
        raise ShapeMismatch(
            f"Expected a value for each parameter; missing: {sorted(names.keys() - values.keys())},"
            f" unknown: {sorted(values.keys() - names.keys())}."
        )
    return [values[name] for name in names]
