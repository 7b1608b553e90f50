"""Rows of an RDD from columns of bytes: what went in comes out equal, or one named error."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any

import numpy as np

from ..errors import RemoteProtocolError
from .values import DEEPEST, HEAD, KINDS, MOST_VALUES, Description

_NONSENSE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, RecursionError, struct.error),
    # Of Spark's vectors.
    AssertionError,
)
"""What Python raises for a block that is none."""


def unpack(data: bytes | bytearray | memoryview) -> list[Any]:
    """Return the values of a block.

    Parameters
    ----------
    data : bytes-like
        The parts that `pack` returned, one after the other. Arrays of numbers share its memory.

    Raises
    ------
    RemoteProtocolError
        It is no block of values.
    """
    view = memoryview(data)
    try:
        (length,) = HEAD.unpack_from(view)
        count, described, sizes = json.loads(bytes(view[HEAD.size : HEAD.size + length]))
        return _Decoder(view[HEAD.size + length :], sizes).values(described, int(count))
    except RemoteProtocolError:
        raise
    except _NONSENSE as error:
        raise RemoteProtocolError(f"Expected a block of values: {error}.") from error


_TEXTS: dict[str, Callable[[str], Any]] = {
    "large": lambda text: int(text, 16),
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "decimal": Decimal,
}


_SEQUENCES: dict[str, Callable[[Iterable[Any]], Any]] = {"list": list, "tuple": tuple}


class _Decoder:
    def __init__(self, view: memoryview, sizes: list[int]) -> None:
        if any(size < 0 for size in sizes) or sum(sizes) != view.nbytes:
            raise RemoteProtocolError("Expected a block of values of the length it states.")
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + size)
        self._parts = iter([view[a:b] for a, b in pairwise(ends)])
        self._left = MOST_VALUES

    def values(self, described: Description, count: int, depth: int = 0) -> list[Any]:
        self._spend(count, depth)
        found: list[Any] = _DECODERS[described[0]](self, described, count, depth)
        if len(found) != count:
            raise RemoteProtocolError(f"Expected {count} values, got {len(found)}.")
        return found

    def _spend(self, count: int, depth: int) -> None:
        self._left -= max(count, 1)
        if count < 0 or self._left < 0 or depth > 2 * DEEPEST:
            raise RemoteProtocolError(f"Expected a block of at most {MOST_VALUES} values.")

    def _next(self) -> memoryview:
        part = next(self._parts, None)
        if part is None:
            raise RemoteProtocolError("Expected one more buffer in a block of values.")
        return part

    def _numbers(self, dtype: str) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype)
        if kind.kind not in KINDS or not kind.itemsize or kind.fields:
            raise RemoteProtocolError(f"Expected numbers, got {dtype}.")
        return np.frombuffer(self._next(), kind)

    def _lengths(self, count: int) -> list[int]:
        lengths: list[int] = self._numbers("<i8").tolist()
        if len(lengths) != count or min(lengths, default=0) < 0:
            raise RemoteProtocolError(f"Expected {count} lengths.")
        return lengths

    def _none(self, described: Description, count: int, depth: int) -> list[Any]:
        return [None] * len(self._next())

    def _bool(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(map(bool, self._next()))

    def _int(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(self._next()) if described[1] == "B" else list(self._numbers("<i8").tolist())

    def _float(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(self._numbers("<f8").tolist())

    def _complex(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(self._numbers("<c16").tolist())

    def _str(self, described: Description, count: int, depth: int) -> list[Any]:
        return [part.decode("utf-8", "surrogatepass") for part in self._bytes(described, count, 0)]

    def _bytes(self, described: Description, count: int, depth: int) -> list[bytes]:
        lengths, data = self._lengths(count), bytes(self._next())
        if sum(lengths) != len(data):
            raise RemoteProtocolError(f"Expected {sum(lengths)} bytes, got {len(data)}.")
        ends = np.cumsum([0, *lengths]).tolist()
        return [data[a:b] for a, b in pairwise(ends)]

    def _bytearray(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(map(bytearray, self._bytes(described, count, depth)))

    def _text(self, described: Description, count: int, depth: int) -> list[Any]:
        try:
            return list(map(_TEXTS[described[0]], self._str(described, count, depth)))
        except ArithmeticError as error:
            raise RemoteProtocolError(f"Expected a {described[0]}: {error}.") from error

    def _columns(self, described: Description, count: int, depth: int) -> Iterator[tuple[Any, ...]]:
        columns = [self.values(column, count, depth + 1) for column in described]
        return zip(*columns, strict=True)

    def _sequences(self, described: Description, count: int, depth: int) -> list[Any]:
        name, width, inner = described
        make = _SEQUENCES[name]
        if width:
            return list(map(make, self._columns(inner, count, depth)))
        lengths = self._lengths(count)
        flat = iter(self.values(inner, sum(lengths), depth + 1))
        return [make(islice(flat, length)) for length in lengths]

    def _matrix(self, described: Description, count: int, depth: int) -> list[Any]:
        _, name, width, dtype = described
        if not width:
            raise RemoteProtocolError("Expected lists with elements, got a width of 0.")
        self._spend(count * width, depth)
        make, numbers = _SEQUENCES[name], self._numbers(dtype).reshape((count, width))
        if dtype == "|u1":
            # Faster than `tolist`.
            return [make(row.tobytes()) for row in numbers]
        return list(map(make, numbers.tolist()))

    def _record(self, described: Description, count: int, depth: int) -> list[Any]:
        _, width, names, columns = described
        keys = self.values(names, int(width), depth + 1)
        rows = self._columns(columns, count, depth)
        return [dict(zip(keys, row, strict=True)) for row in rows]

    def _dict(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(map(dict, self.values(described[1], count, depth + 1)))

    def _array(self, described: Description, count: int, depth: int) -> list[Any]:
        _, shape, dtype = described
        numbers = self._numbers(dtype).reshape((count, *map(int, shape)))
        if not numbers.size:
            raise RemoteProtocolError(f"Expected arrays with elements, got the shape {shape}.")
        return list(numbers)

    def _arrays(self, described: Description, count: int, depth: int) -> list[Any]:
        shapes = self.values(described[1], count, depth + 1)
        flat, start, found = self._numbers(described[2]), 0, []
        for shape in shapes:
            size = int(np.prod(shape, dtype=np.int64))
            found.append(flat[start : start + size].reshape(shape))
            start += size
        return found

    def _scalar(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(self._numbers(described[1]))

    def _each(self, described: Description, count: int, depth: int) -> list[Any]:
        return [self.values(one, 1, depth + 1)[0] for one in described[1]]

    def _mixed(self, described: Description, count: int, depth: int) -> list[Any]:
        codes = bytes(self._next())
        columns = [
            iter(self.values(one, codes.count(code), depth + 1))
            for code, one in enumerate(described[1])
        ]
        return [next(columns[code]) for code in codes]

    def _row(self, described: Description, count: int, depth: int) -> list[Any]:
        from pyspark.sql import Row

        _, names, inner = described
        rows = self.values(inner, count, depth + 1)
        if not names:
            return [Row(*row) for row in rows]
        make = Row(*map(str, names))
        return [make(*row) for row in rows]

    def _dense(self, described: Description, count: int, depth: int) -> list[Any]:
        vector = _vectors(described[1]).DenseVector
        return [vector(numbers) for numbers in self.values(described[2], count, depth + 1)]

    def _sparse(self, described: Description, count: int, depth: int) -> list[Any]:
        vector = _vectors(described[1]).SparseVector
        return [vector(*parts) for parts in self.values(described[2], count, depth + 1)]


_DECODERS: dict[str, Callable[[_Decoder, Description, int, int], list[Any]]] = {
    "none": _Decoder._none,
    "bool": _Decoder._bool,
    "int": _Decoder._int,
    "float": _Decoder._float,
    "complex": _Decoder._complex,
    "str": _Decoder._str,
    "bytes": _Decoder._bytes,
    "bytearray": _Decoder._bytearray,
    **dict.fromkeys(_TEXTS, _Decoder._text),
    **dict.fromkeys(_SEQUENCES, _Decoder._sequences),
    "matrix": _Decoder._matrix,
    "record": _Decoder._record,
    "dict": _Decoder._dict,
    "array": _Decoder._array,
    "arrays": _Decoder._arrays,
    "scalar": _Decoder._scalar,
    "each": _Decoder._each,
    "mixed": _Decoder._mixed,
    "row": _Decoder._row,
    "dense": _Decoder._dense,
    "sparse": _Decoder._sparse,
}


def _vectors(module: str) -> Any:
    if module == "pyspark.ml.linalg":
        from pyspark.ml import linalg

        return linalg
    if module == "pyspark.mllib.linalg":
        from pyspark.mllib import linalg as older

        return older
    raise RemoteProtocolError(f"Expected a module of Spark's vectors, got {module}.")
