"""Rows of an RDD as columns of bytes, and back: what goes in comes out equal, without pickle.

A block of values is described by nested lists that JSON can hold, and by buffers. Values of one
type become one buffer; lists become their lengths and one flat column of their elements. So a
thousand rows of numbers cost a few calls, and whoever receives a block runs no code of the sender.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from ..errors import DataError, RemoteProtocolError

DEEPEST = 32
"""Levels of lists within lists."""

MOST_VALUES = 1 << 27
"""Values of one block, those within others included."""

_WIDEST = 64
"""Elements of a tuple or list up to which each position is a column of its own."""

_KINDS = "biufcSUmM"
"""Of NumPy's types. Objects are none."""

_HEAD = struct.Struct(">I")

Description = list[Any]
Buffers = list[Any]


def pack(values: Sequence[Any]) -> list[bytes | memoryview]:
    """Return a block of values as parts of bytes.

    Parameters
    ----------
    values : sequence
        Numbers, strings, bytes, None, dates, decimals, NumPy's arrays and scalars, Spark's rows and
        vectors, and lists, tuples and dicts of these.

    Raises
    ------
    DataError
        A value is of another type, or lists lie in each other too deep.
    """
    buffers: Buffers = []
    described = _encode(list(values), buffers, 0)
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    text = json.dumps([len(values), described, sizes], separators=(",", ":")).encode()
    return [_HEAD.pack(len(text)) + text, *views]


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
        (length,) = _HEAD.unpack_from(view)
        count, described, sizes = json.loads(bytes(view[_HEAD.size : _HEAD.size + length]))
        return _Decoder(view[_HEAD.size + length :], sizes).values(described, int(count))
    except RemoteProtocolError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, struct.error, RecursionError) as error:
        raise RemoteProtocolError(f"Expected a block of values: {error}.") from error


def _encode(values: list[Any], buffers: Buffers, depth: int) -> Description:
    if depth > DEEPEST:
        raise DataError(f"Expected lists in at most {DEEPEST} levels in a row. Flatten them first.")
    kinds = set(map(type, values))
    if not kinds:
        return ["none"]
    if len(kinds) > 1:
        return _mixed(values, buffers, depth)
    kind = kinds.pop()
    if kind in _ENCODERS:
        return _ENCODERS[kind](values, buffers, depth)
    if issubclass(kind, np.generic) and np.dtype(kind).kind in _KINDS:
        return ["scalar", _add(np.array(values), buffers)]
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in _SPARK:
        return _SPARK[name](values, buffers, depth)
    raise DataError(
        f"Expected rows of numbers, strings, bytes, lists, tuples, dicts, NumPy arrays, Spark's "
        f"rows or vectors; got {name}. Turn it into one of these, such as with rdd.map."
    )


def _mixed(values: list[Any], buffers: Buffers, depth: int) -> Description:
    kinds = list(dict.fromkeys(map(type, values)))
    if len(kinds) > 255:
        raise DataError(f"Expected rows of at most 255 types, got {len(kinds)}.")
    code = {kind: number for number, kind in enumerate(kinds)}
    buffers.append(bytes(code[type(value)] for value in values))
    each = [[value for value in values if type(value) is kind] for kind in kinds]
    return ["mixed", [_encode(column, buffers, depth + 1) for column in each]]


def _add(numbers: np.ndarray[Any, Any], buffers: Buffers) -> str:
    buffers.append(np.ascontiguousarray(numbers).reshape(-1).view(np.uint8))
    return str(numbers.dtype.str)


def _none(values: list[None], buffers: Buffers, depth: int) -> Description:
    return ["none"]


def _bool(values: list[bool], buffers: Buffers, depth: int) -> Description:
    buffers.append(bytes(values))
    return ["bool"]


def _int(values: list[int], buffers: Buffers, depth: int) -> Description:
    try:
        # Pixels and classes, for which this is fastest by far.
        buffers.append(bytes(values))
        return ["int", "B"]
    except ValueError:
        pass
    try:
        buffers.append(array("q", values))
        return ["int", "q"]
    except OverflowError:
        return ["large", _str([hex(value) for value in values], buffers, depth)]


def _float(values: list[float], buffers: Buffers, depth: int) -> Description:
    buffers.append(array("d", values))
    return ["float"]


def _complex(values: list[complex], buffers: Buffers, depth: int) -> Description:
    _add(np.array(values, np.complex128), buffers)
    return ["complex"]


def _str(values: list[str], buffers: Buffers, depth: int) -> Description:
    _bytes([value.encode("utf-8", "surrogatepass") for value in values], buffers, depth)
    return ["str"]


def _bytes(values: list[bytes], buffers: Buffers, depth: int) -> Description:
    buffers.append(array("q", map(len, values)))
    buffers.append(b"".join(values))
    return ["bytes"]


def _bytearray(values: list[bytearray], buffers: Buffers, depth: int) -> Description:
    return ["bytearray", _bytes([bytes(value) for value in values], buffers, depth)]


def _text_of(name: str, text: Callable[[Any], str]) -> Callable[..., Description]:
    def encode(values: list[Any], buffers: Buffers, depth: int) -> Description:
        return [name, _str(list(map(text, values)), buffers, depth)]

    return encode


def _sequences(name: str) -> Callable[..., Description]:
    def encode(values: list[Sequence[Any]], buffers: Buffers, depth: int) -> Description:
        widths = set(map(len, values))
        if len(widths) == 1 and 0 < (width := widths.pop()) <= _WIDEST:
            columns = [
                _encode(list(column), buffers, depth + 1) for column in zip(*values, strict=True)
            ]
            return [name, width, columns]
        buffers.append(array("q", map(len, values)))
        return [name, 0, _encode(list(chain.from_iterable(values)), buffers, depth + 1)]

    return encode


def _dict(values: list[dict[Any, Any]], buffers: Buffers, depth: int) -> Description:
    keys = tuple(values[0])
    if all(tuple(value) == keys for value in values):
        names = _encode(list(keys), buffers, depth + 1)
        columns = [[value[key] for value in values] for key in keys]
        described = [_encode(column, buffers, depth + 1) for column in columns]
        return ["record", len(keys), names, described]
    return ["dict", _sequences("list")([list(v.items()) for v in values], buffers, depth + 1)]


def _arrays(values: list[Any], buffers: Buffers, depth: int) -> Description:
    kinds, shapes = {each.dtype for each in values}, {each.shape for each in values}
    for kind in kinds:
        if kind.kind not in _KINDS or kind.fields:
            raise DataError(f"Expected arrays of numbers, booleans or text, got {kind}.")
    if len(kinds) == len(shapes) == 1:
        return ["array", list(shapes.pop()), _add(np.stack(values), buffers)]
    if len(kinds) == 1:
        shaped = _encode([each.shape for each in values], buffers, depth + 1)
        return ["arrays", shaped, _add(np.concatenate([each.ravel() for each in values]), buffers)]
    # One after the other, so that each keeps its own type.
    return ["each", [_arrays([value], buffers, depth + 1) for value in values]]


def _rows(values: list[Any], buffers: Buffers, depth: int) -> Description:
    names = [list(getattr(value, "__fields__", ())) for value in values]
    if any(each != names[0] for each in names):
        return ["each", [_rows([value], buffers, depth + 1) for value in values]]
    return ["row", names[0], _sequences("tuple")([tuple(v) for v in values], buffers, depth + 1)]


def _dense(values: list[Any], buffers: Buffers, depth: int) -> Description:
    module = type(values[0]).__module__
    return ["dense", module, _arrays([value.toArray() for value in values], buffers, depth + 1)]


def _sparse(values: list[Any], buffers: Buffers, depth: int) -> Description:
    parts = [(int(value.size), value.indices, value.values) for value in values]
    module = type(values[0]).__module__
    return ["sparse", module, _sequences("tuple")(parts, buffers, depth + 1)]


_ENCODERS: dict[type, Callable[..., Description]] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    bytearray: _bytearray,
    list: _sequences("list"),
    tuple: _sequences("tuple"),
    dict: _dict,
    np.ndarray: _arrays,
    date: _text_of("date", date.isoformat),
    datetime: _text_of("datetime", datetime.isoformat),
    Decimal: _text_of("decimal", str),
}

_VECTORS = ("pyspark.ml.linalg", "pyspark.mllib.linalg")

_SPARK: dict[str, Callable[..., Description]] = {
    "pyspark.sql.types.Row": _rows,
    **{f"{module}.DenseVector": _dense for module in _VECTORS},
    **{f"{module}.SparseVector": _sparse for module in _VECTORS},
}

_TEXTS: dict[str, Callable[[str], Any]] = {
    "large": lambda text: int(text, 16),
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "decimal": Decimal,
}


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
        self._left -= max(count, 1)
        if count < 0 or self._left < 0 or depth > 2 * DEEPEST:
            raise RemoteProtocolError(f"Expected a block of at most {MOST_VALUES} values.")
        found: list[Any] = getattr(self, f"_{described[0]}")(described, count, depth)
        if len(found) != count:
            raise RemoteProtocolError(f"Expected {count} values, got {len(found)}.")
        return found

    def _next(self) -> memoryview:
        part = next(self._parts, None)
        if part is None:
            raise RemoteProtocolError("Expected one more buffer in a block of values.")
        return part

    def _numbers(self, dtype: str) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype)
        if kind.kind not in _KINDS or not kind.itemsize or kind.fields:
            raise RemoteProtocolError(f"Expected numbers, got {dtype}.")
        return np.frombuffer(self._next(), kind)

    def _lengths(self, count: int) -> list[int]:
        lengths: list[int] = self._numbers("<i8").tolist()
        if len(lengths) != count or min(lengths, default=0) < 0:
            raise RemoteProtocolError(f"Expected {count} lengths.")
        return lengths

    def _none(self, described: Description, count: int, depth: int) -> list[Any]:
        return [None] * count

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

    _large = _date = _datetime = _decimal = _text

    def _columns(self, described: Description, count: int, depth: int) -> Iterator[tuple[Any, ...]]:
        columns = [self.values(column, count, depth + 1) for column in described]
        return zip(*columns, strict=True)

    def _list(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(map(list, self._tuple(described, count, depth)))

    def _tuple(self, described: Description, count: int, depth: int) -> list[Any]:
        _, width, inner = described
        if width:
            return list(self._columns(inner, count, depth))
        lengths = self._lengths(count)
        flat = iter(self.values(inner, sum(lengths), depth + 1))
        return [tuple(islice(flat, length)) for length in lengths]

    def _record(self, described: Description, count: int, depth: int) -> list[Any]:
        _, width, names, columns = described
        keys = self.values(names, int(width), depth + 1)
        if not columns:
            return [{} for _ in range(count)]
        rows = self._columns(columns, count, depth)
        return [dict(zip(keys, row, strict=True)) for row in rows]

    def _dict(self, described: Description, count: int, depth: int) -> list[Any]:
        return list(map(dict, self.values(described[1], count, depth + 1)))

    def _array(self, described: Description, count: int, depth: int) -> list[Any]:
        _, shape, dtype = described
        return list(self._numbers(dtype).reshape((count, *map(int, shape))))

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


def _vectors(module: str) -> Any:
    if module == "pyspark.ml.linalg":
        from pyspark.ml import linalg

        return linalg
    if module == "pyspark.mllib.linalg":
        from pyspark.mllib import linalg as older

        return older
    raise RemoteProtocolError(f"Expected a module of Spark's vectors, got {module}.")
