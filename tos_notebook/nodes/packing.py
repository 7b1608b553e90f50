"""Rows of an RDD as columns of bytes, without pickle."""

from __future__ import annotations

import json
import marshal
from array import array
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np

from ..errors import DataError
from .values import DEEPEST, HEAD, KINDS, Description

_WIDEST = 64
"""Elements of a tuple or list up to which each position is a column of its own."""

_MARSHALLED = {
    int: (ord("i"), np.dtype([("type", "u1"), ("value", "<i4")])),
    float: (ord("g"), np.dtype([("type", "u1"), ("value", "<f8")])),
}
"""How `marshal` writes numbers: a byte for the type, then the value."""

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
    return [HEAD.pack(len(text)) + text, *views]


def _encode(values: list[Any], buffers: Buffers, depth: int) -> Description:
    if depth > DEEPEST:
        raise DataError(f"Expected lists in at most {DEEPEST} levels in a row. Flatten them first.")
    kinds = set(map(type, values))
    if not kinds:
        return _none([], buffers, depth)
    if len(kinds) > 1:
        return _mixed(values, buffers, depth)
    kind = kinds.pop()
    if kind in _ENCODERS:
        return _ENCODERS[kind](values, buffers, depth)
    if issubclass(kind, np.generic) and np.dtype(kind).kind in KINDS:
        return ["scalar", _add(np.array(values), buffers)]
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in _SPARK:
        return _SPARK[name](values, buffers, depth)
    raise DataError(
        f"Expected rows of numbers, strings, bytes, lists, tuples, dicts, NumPy arrays, Spark's "
        f"rows or vectors; got {name}. Turn it into one of these, such as with rdd.map, "
        "or by a tensor's numpy()."
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
    buffers.append(bytes(len(values)))
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
        width = widths.pop() if len(widths) == 1 else 0
        if 0 < width <= _WIDEST:
            columns = [
                _encode(list(column), buffers, depth + 1) for column in zip(*values, strict=True)
            ]
            return [name, width, columns]
        if width and (numbers := _matrix(values, width)) is not None:
            return ["matrix", name, width, _add(numbers, buffers)]
        buffers.append(array("q", map(len, values)))
        return [name, 0, _encode(list(chain.from_iterable(values)), buffers, depth + 1)]

    return encode


def _matrix(values: list[Sequence[Any]], width: int) -> np.ndarray[Any, Any] | None:
    """Return rows of one width as an array, if all numbers are floats, or ints of 32 bits."""
    if type(values[0][0]) not in _MARSHALLED:
        return None
    code, number = _MARSHALLED[type(values[0][0])]
    row = np.dtype([("type", "u1"), ("width", "<i4"), ("numbers", number, width)])
    try:
        # In one call for all. What it writes has these places only if each type is this one.
        written = marshal.dumps(values, 2)
    except ValueError:
        return None
    if len(written) != 5 + len(values) * row.itemsize:
        return None
    rows = np.frombuffer(written, row, offset=5)
    numbers = rows["numbers"]
    outer = ord("[" if type(values[0]) is list else "(")
    if np.any(rows["type"] != outer) or np.any(rows["width"] != width):
        return None
    if np.any(numbers["type"] != code):
        return None
    found = np.ascontiguousarray(numbers["value"])
    return found.astype(np.uint8) if _are_bytes(found) else found


def _are_bytes(numbers: np.ndarray[Any, Any]) -> bool:
    return numbers.dtype.kind == "i" and bool(numbers.min() >= 0 and numbers.max() <= 255)


def _dict(values: list[dict[Any, Any]], buffers: Buffers, depth: int) -> Description:
    keys = tuple(values[0])
    if keys and all(tuple(value) == keys for value in values):
        names = _encode(list(keys), buffers, depth + 1)
        columns = [[value[key] for value in values] for key in keys]
        described = [_encode(column, buffers, depth + 1) for column in columns]
        return ["record", len(keys), names, described]
    return ["dict", _sequences("list")([list(v.items()) for v in values], buffers, depth + 1)]


def _arrays(values: list[Any], buffers: Buffers, depth: int) -> Description:
    kinds, shapes = {each.dtype for each in values}, {each.shape for each in values}
    for kind in kinds:
        if kind.kind not in KINDS or kind.fields:
            raise DataError(f"Expected arrays of numbers, booleans or text, got {kind}.")
    if len(kinds) == len(shapes) == 1 and values[0].size:
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
