"""Rows travel as columns of bytes and come out equal, and bytes of strangers do no harm."""

from __future__ import annotations

import json
import pickle
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.ml.linalg import Vectors
from pyspark.sql import Row

from tos_notebook.errors import DataError, RemoteProtocolError
from tos_notebook.nodes.packing import pack
from tos_notebook.nodes.unpacking import unpack

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner, max_size=4),
    ),
    max_leaves=12,
)


def through(values: list[Any]) -> list[Any]:
    """Return values as the other side has them."""
    return unpack(b"".join(pack(values)))


def shape_of(value: Any) -> Any:
    """Return the types of a value and of all that is in it."""
    if isinstance(value, list | tuple):
        return type(value), [shape_of(each) for each in value]
    if isinstance(value, dict):
        return dict, [(shape_of(key), shape_of(each)) for key, each in value.items()]
    return type(value)


@given(st.lists(VALUES, max_size=6))
def test_whatever_a_row_holds_comes_out_equal_and_of_the_same_types(values: list[Any]) -> None:
    found = through(values)
    assert found == values
    assert [shape_of(each) for each in found] == [shape_of(each) for each in values]


WIDE = st.integers(65, 80)
NUMBERS = [0, 255, 256, -1, 2**31 - 1, -(2**31), 2**31, 2**70, True, 0.5, -0.0, np.inf, None, "a"]


@given(
    WIDE,
    st.sampled_from([list, tuple]),
    st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 64), st.sampled_from(NUMBERS))),
)
def test_wide_rows_come_out_equal_whichever_of_their_numbers_differ(
    width: int, kind: Any, fill: list[Any], others: list[tuple[int, int, Any]]
) -> None:
    rows = [[value] * width for value in fill]
    for row, at, value in others:
        rows[row % len(rows)][at] = value
    values = list(map(kind, rows))
    found = through(values)
    assert found == values
    assert [shape_of(each) for each in found] == [shape_of(each) for each in values]


@pytest.mark.parametrize("other", [np.float64(1.0), np.int32(1), [1], Row(1), (), 1j], ids=repr)
@pytest.mark.parametrize("number", [1, 1.0])
def test_one_value_of_another_type_in_a_wide_row_keeps_its_type(number: Any, other: Any) -> None:
    rows = [[number] * 100, [number] * 99 + [other]]
    found = through(rows)
    assert found == rows
    assert type(found[1][-1]) is type(other)


@pytest.mark.parametrize(
    "rows",
    [
        [Row(a=1, b="x"), Row(a=2, b="y")],
        [Row(a=1), Row(b=1)],
        [Row(1, 2), Row(3, 4)],
        [Vectors.dense([1.0, 2.0]), Vectors.sparse(5, {1: 2.0})],
        [(list(range(784)), 3), ([255] * 784, 4)],
        [[0.5] * 100, [1.5] * 100],
        [{"x": [1, 2], "y": "a"}] * 3,
        [2**80, -(2**90), 5],
        ["\ud800"],
        [bytearray(b"ab"), bytearray()],
        [date(2024, 2, 29), datetime(2024, 2, 29, 12, 30, tzinfo=UTC)],
        [Decimal("1.50")],
    ],
    ids=str,
)
def test_rows_that_programs_feed_come_out_equal(rows: list[Any]) -> None:
    found = through(rows)
    assert found == rows
    assert list(map(type, found)) == list(map(type, rows))


@pytest.mark.parametrize(
    "arrays",
    [
        [np.arange(6, dtype=np.uint8).reshape(2, 3)] * 3,
        [np.arange(3), np.arange(4)],
        [np.zeros((0, 3), np.float32)],
        [np.arange(2), np.ones(2, np.float32)],
        [np.array(3.5), np.array(4.5)],
        [np.array(["a", "bc"])],
        [np.arange(12).reshape(3, 4)[:, ::2]],
    ],
    ids=lambda arrays: f"{[each.shape for each in arrays]}",
)
def test_arrays_keep_their_type_and_shape(arrays: list[Any]) -> None:
    for found, given_ in zip(through(arrays), arrays, strict=True):
        assert (found.dtype, found.shape) == (given_.dtype, given_.shape)
        np.testing.assert_array_equal(found, given_)


def test_scalars_of_numpy_stay_scalars_of_numpy() -> None:
    found = through([np.float32(1.5), np.float32(2.5)])
    assert found == [1.5, 2.5]
    assert {type(each) for each in found} == {np.float32}


def test_a_thousand_pixels_take_a_byte_each() -> None:
    assert len(b"".join(pack([[7] * 1000] * 100))) < 105_000


class Custom:
    """Something that only a pickle could bring."""


@pytest.mark.parametrize(
    "value",
    [Custom(), {1, 2}, lambda: 0, np.array([None])],
    ids=["object", "set", "function", "array"],
)
def test_what_only_a_pickle_could_bring_is_refused_with_what_to_do(value: Any) -> None:
    with pytest.raises(DataError, match=r"Turn it into|Expected arrays of numbers"):
        pack([value])


def test_lists_without_end_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(DataError, match="levels"):
        pack(deep)


def block(described: Any, *buffers: bytes, count: int = 1) -> bytes:
    """Return a block as a stranger might make it."""
    text = json.dumps([count, described, [len(each) for each in buffers]]).encode()
    return struct.pack(">I", len(text)) + text + b"".join(buffers)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff\xff\xff",
        pickle.dumps([1]),
        block(["none"], count=-1),
        block(["none"], count=1 << 40),
        block(["none"], count=1 << 20),
        block(["none"], b"", count=1 << 20),
        block(["list", 0, ["none"]], struct.pack("<q", 1 << 40)),
        block(["list", 0, ["none"]], struct.pack("<q", 1 << 20)),
        block(["tuple", 64, [["none"]] * 64], count=1 << 20),
        block(["tuple", 1, []], count=1 << 20),
        block(["record", 0, ["none"], []], b"", count=1 << 20),
        block(["array", [0], "<f8"], b"", count=1 << 20),
        block(["array", [1 << 70], "<f8"], b"12345678"),
        block(["matrix", "list", 0, "<f8"], b"", count=1 << 20),
        block(["list", 0, ["none"]], struct.pack("<q", -1)),
        block(["int", "q"], b"1234567"),
        block(["int", "q"], b"", count=1),
        block(["int", "q"]),
        block(["scalar", "|O"], b"12345678"),
        block(["array", [1 << 40], "<f8"], b"12345678"),
        block(["bytes"], struct.pack("<q", 9), b"12345678"),
        block(["str"], struct.pack("<q", 1), b"\xff"),
        block(["unknown"]),
        block(["values"]),
        block(["dense", "os", ["none"]]),
        block(["date", ["str"]], struct.pack("<q", 3), b"abc"),
        block(["decimal", ["str"]], struct.pack("<q", 3), b"abc"),
        block(["mixed", [["none"]]], b"\x05"),
        block(["matrix", "list", 0, "|u1"], b"12"),
        block(["matrix", "list", 3, "|u1"], b"12"),
        block(["matrix", "list", -2, "|u1"], b"12"),
        block(["matrix", "list", 1, "<i4"], b"12345678"),
        block(["matrix", "dict", 2, "|u1"], b"12"),
        block(["matrix", "list", 1, "|O"], b"12345678"),
    ],
    ids=repr,
)
def test_bytes_of_strangers_end_in_one_named_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        unpack(data)


def size_of(value: Any) -> int:
    """Return how many values there are, those in one counted, too."""
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    return 1 + sum(map(size_of, inner)) if isinstance(inner, list | tuple) else 1


def packed(lengths: list[int]) -> bytes:
    """Return lengths as a block has them."""
    return struct.pack(f"<{len(lengths)}q", *lengths)


TYPES = ["none", "bool", "bytes", "str", "bytearray", "float", "date"]
DESCRIBED = st.recursive(
    st.sampled_from([[name] for name in TYPES] + [["int", "B"], ["int", "q"], ["scalar", "|u1"]]),
    lambda inner: st.one_of(
        st.builds(lambda name, one: [name, 0, one], st.sampled_from(["list", "tuple"]), inner),
        st.lists(inner, max_size=3).map(lambda all_: ["tuple", len(all_), all_]),
        st.lists(inner, max_size=3).map(lambda all_: ["record", len(all_), ["int", "B"], all_]),
        st.lists(inner, max_size=3).map(lambda all_: ["mixed", all_]),
        st.lists(inner, max_size=3).map(lambda all_: ["each", all_]),
        st.builds(lambda shape: ["array", [shape], "|u1"], st.integers(0, 3)),
        st.builds(lambda one: ["arrays", one, "|u1"], inner),
        st.builds(lambda one: ["dict", one], inner),
        st.builds(lambda one: ["row", [], one], inner),
        st.builds(lambda width: ["matrix", "list", width, "|u1"], st.integers(0, 3)),
    ),
    max_leaves=6,
)
BUFFERS = st.lists(
    st.one_of(st.binary(max_size=4), st.lists(st.integers(0, 9)).map(packed)),
    max_size=6,
)


@given(st.integers(0, 9), DESCRIBED, BUFFERS)
def test_a_block_holds_few_more_values_than_bytes_whatever_it_says(
    count: int, described: Any, buffers: list[bytes]
) -> None:
    data = block(described, *buffers, count=count)
    try:
        found = unpack(data)
    except RemoteProtocolError:
        return
    assert sum(map(size_of, found)) <= 2 * len(data)


@pytest.mark.parametrize(
    "rows",
    [[None] * 9999, [()] * 9999, [{}] * 9999, [np.zeros(0)] * 9999, [((None,),)] * 9999],
    ids=lambda rows: repr(rows[0]),
)
def test_rows_of_nothing_travel_too_and_take_a_byte_each(rows: list[Any]) -> None:
    data = b"".join(pack(rows))
    assert len(data) >= len(rows)
    found = unpack(data)
    assert list(map(repr, found)) == list(map(repr, rows))


@given(st.binary(max_size=200))
def test_any_bytes_end_in_values_or_in_one_named_error(data: bytes) -> None:
    try:
        unpack(data)
    except RemoteProtocolError:
        return


@given(st.lists(VALUES, max_size=4), st.data())
def test_a_block_that_was_changed_ends_in_values_or_in_one_named_error(
    values: list[Any], data: st.DataObject
) -> None:
    whole = bytearray(b"".join(pack(values)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    try:
        unpack(whole)
    except RemoteProtocolError:
        return
