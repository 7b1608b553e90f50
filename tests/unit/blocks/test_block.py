from __future__ import annotations

import pickle
import re
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.blocks.block import (
    ColumnSpec,
    concatenate,
    content_order,
    describe,
    epoch_order,
    stack_records,
)
from tos_notebook.errors import ShapeMismatch


class Vector:
    """Like the vectors of pyspark.ml and pyspark.mllib."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def toArray(self) -> Any:
        return np.array(self.values)


def blocks_of(*records: Any, rows: int = 1000) -> list[Any]:
    return list(stack_records(iter(records), rows))


@given(st.integers(0, 25), st.integers(1, 10))
def test_records_come_back_in_order_whatever_the_block_size(count: int, rows: int) -> None:
    blocks = blocks_of(*((np.full(2, i, np.uint8), i) for i in range(count)), rows=rows)
    assert [len(block[0]) for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
    joined = concatenate(blocks)
    if count:
        np.testing.assert_array_equal(joined[0][:, 1], range(count))
        np.testing.assert_array_equal(joined[1], range(count))
    else:
        assert joined == ()


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (1.5, ColumnSpec("float32", ())),
        (3, ColumnSpec("int64", ())),
        (True, ColumnSpec("bool", ())),
        (np.float64(1.5), ColumnSpec("float64", ())),
        (np.uint8(7), ColumnSpec("uint8", ())),
        ([1.0, 2.0], ColumnSpec("float32", (2,))),
        ([[1, 2], [3, 4]], ColumnSpec("int64", (2, 2))),
        (np.zeros((2, 3)), ColumnSpec("float64", (2, 3))),
        (np.zeros(2, np.float16), ColumnSpec("float16", (2,))),
        (Vector(1.0, 2.0, 3.0), ColumnSpec("float64", (3,))),
        ("text", ColumnSpec("string", ())),
        (b"\x00bytes\x00", ColumnSpec("string", ())),
        (np.array(["a", "bc"]), ColumnSpec("string", (2,))),
        ([["a"], ["é"]], ColumnSpec("string", (2, 1))),
    ],
)
def test_a_column_has_the_dtype_of_the_record(value: Any, spec: ColumnSpec) -> None:
    (block,) = blocks_of((value, 0))
    assert describe(block)[0] == spec


def test_longer_records_make_more_columns() -> None:
    (block,) = blocks_of((1, 2.0, [3], 4), (5, 6.0, [7], 8))
    assert [column.tolist() for column in block] == [[1, 5], [2.0, 6.0], [[3], [7]], [4, 8]]


def test_text_is_bytes_whole_and_as_it_came() -> None:
    texts = ["é", "", "long " * 50, b"\x00ends with zero\x00"]
    (block,) = blocks_of(*((text, [text, "b"]) for text in texts))
    expected = [text if isinstance(text, bytes) else text.encode() for text in texts]
    assert block[0].tolist() == expected
    assert block[1].tolist() == [[text, b"b"] for text in expected]


def test_rows_of_text_have_an_order_by_what_they_are() -> None:
    rows = np.array([[b"b", b"a"], [b"a", b"z"], [b"a", b"b"]], object)
    numbers = np.array([1, 2, 3])
    assert content_order((rows, numbers)).tolist() == [2, 1, 0]
    assert content_order((np.zeros(3), rows[:, :1], numbers)).tolist() == [1, 2, 0]


def test_what_casts_safely_into_the_first_record_is_taken() -> None:
    (block,) = blocks_of((1.5, np.int64(1)), (2, np.uint8(2)), (np.float16(3), True))
    assert block[0].tolist() == [1.5, 2.0, 3.0]
    assert block[1].tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([1.0, 2], "record 1: expected a tuple (feature, label) or longer, got list of length 2"),
        (np.zeros(2), "record 1: expected a tuple (feature, label) or longer, got ndarray"),
        ((), "record 1: expected a tuple"),
        ((np.zeros(2), 1, 1), "record 1: expected 2 fields as in the first record, got 3"),
        ((np.zeros(3), 1), "record 1, field 0: expected float64 of shape (2,) as in the first"),
        ((np.zeros(2, complex), 1), "record 1, field 0: expected float64 of shape (2,)"),
        ((np.zeros(2), 1.5), "record 1, field 1: expected int64 of shape () as in the first"),
        ((np.zeros(2), "one"), "record 1, field 1: expected int64 of shape () as in the first"),
        ((np.array([1, None]), 1), "record 1, field 0: expected numbers or text in a rectangular"),
        (([[1], [1, 2]], 1), "record 1, field 0: expected numbers or text in a rectangular array"),
        ((np.zeros(2), None), "record 1, field 1: expected numbers or text"),
    ],
)
def test_a_record_unlike_the_first_is_named(record: Any, message: str) -> None:
    with pytest.raises(ShapeMismatch, match=re.escape(message)):
        blocks_of((np.zeros(2), 1), record)


def test_the_place_of_a_bad_record_counts_all_blocks_and_names_the_partition() -> None:
    records = [(i,) for i in range(7)] + [("seven",)]
    with pytest.raises(ShapeMismatch, match=r"^partition 3: record 7, field 0"):
        list(stack_records(records, rows=2, where="partition 3"))


def test_the_first_record_can_be_another_partitions() -> None:
    expected = (ColumnSpec("float32", ()),)
    (block,) = stack_records([(1,)], expected=expected)
    assert describe(block) == expected
    with pytest.raises(ShapeMismatch, match=r"expected float32 of shape \(\)"):
        list(stack_records([([1.0],)], expected=expected))


def test_concatenate_releases_blocks_while_it_copies() -> None:
    """A partition is held once: nothing else keeps the blocks alive afterwards."""
    blocks = [(np.full(3, i), np.full((3, 2), i)) for i in range(4)]
    watched = [weakref.ref(array) for block in blocks for array in block]
    joined = concatenate(blocks)
    assert blocks == []
    assert not any(reference() is not None for reference in watched)
    np.testing.assert_array_equal(joined[0], np.repeat(range(4), 3))
    np.testing.assert_array_equal(joined[1][:, 1], np.repeat(range(4), 3))


def test_concatenate_does_not_copy_an_only_block() -> None:
    block = (np.zeros(3), np.ones(3))
    assert concatenate([block]) is block


@given(st.integers(0, 200), st.integers(0, 2**40), st.integers(0, 99), st.integers(0, 99))
def test_the_order_of_an_epoch_is_a_pure_permutation(
    rows: int, seed: int, epoch: int, partition: int
) -> None:
    order = epoch_order(rows, seed, epoch, partition, shuffle=True)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(rows))
    np.testing.assert_array_equal(order, epoch_order(rows, seed, epoch, partition, shuffle=True))
    plain = epoch_order(rows, seed, epoch, partition, shuffle=False)
    np.testing.assert_array_equal(plain, np.arange(rows))


def test_seed_epoch_and_partition_each_change_the_order() -> None:
    places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    orders = {tuple(epoch_order(50, *place, shuffle=True)) for place in places}
    assert len(orders) == len(places)


FOUND = (ColumnSpec("uint8", (4, 3)), ColumnSpec("int64", ()))


def test_specs_travel_to_executors() -> None:
    assert pickle.loads(pickle.dumps(FOUND)) == FOUND
