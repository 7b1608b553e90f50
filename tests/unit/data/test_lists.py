"""Python's lists become arrays, or an error that says what to do."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.data.lists import as_array
from tos_notebook.data.parts import named_arrays
from tos_notebook.errors import DataError, ShapeMismatch

X = FeedSpec("x", "float32", (2,), part="inputs")
Y = FeedSpec("y", None, None, part="labels")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([1, 2], [1, 2]),
        ([[1.5, 2], [3, 4]], [[1.5, 2.0], [3.0, 4.0]]),
        ([True, False], [True, False]),
        (["é", "b"], ["é".encode(), b"b"]),
        ([["a"], ["b"]], [[b"a"], [b"b"]]),
        ([Decimal("1.5")], [1.5]),
        ([datetime.date(1970, 1, 2)], [86400.0]),
        ([datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.UTC)], [3600.0]),
        ([np.datetime64("1970-01-01T01")], [3600.0]),
        ([[np.datetime64("1970-01-01T00:00:01", "ns")]], [[1.0]]),
        ([np.ones(2), np.zeros(2)], [[1.0, 1.0], [0.0, 0.0]]),
    ],
)
def test_rows_of_numbers_text_and_times_are_arrays(rows: list[Any], expected: list[Any]) -> None:
    assert as_array(rows, "Rows").tolist() == expected


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        ([np.datetime64("1970-01-01"), np.datetime64("NaT")], DataError, "got NaT in row 1"),
        ([datetime.datetime(1970, 1, 1), pd.NaT], DataError, "got NaT in row 1"),  # noqa: DTZ001
        ([[1, 2], [3]], ShapeMismatch, "2 values in row 0 and 1 values in row 1. Fill shorter"),
        ([[1, 2], 3], ShapeMismatch, "2 values in row 0 and a single value in row 1"),
        ([[[1], [1, 2]]], ShapeMismatch, "lists inside that differ in length"),
        ([([1, 2], 0), ([3, 4], 1)], ShapeMismatch, r"tuples of several. Give a tuple of fields"),
        ([1, None], DataError, "numbers or text in each row, got None in row 1"),
        (["a", 2, "c"], DataError, r"expected text in each row, got 2 \(int\) in row 1"),
        ([2**70], DataError, "do not fit into 64 bits"),
    ],
)
def test_rows_that_are_no_array_are_refused_by_their_number(
    rows: list[Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"^Rows: .*{text}"):
        as_array(rows, "Rows")


def test_a_tuple_of_lists_has_a_field_in_each_and_a_list_is_one_field() -> None:
    x, y = [[1.0, 2.0], [3.0, 4.0]], [0, 1]
    assert [array.tolist() for array in named_arrays((x, y), [X, Y])] == [x, y]
    assert [array.tolist() for array in named_arrays(x, [X])] == [x]
    assert [array.tolist() for array in named_arrays(({"x": x}, y), [X, Y])] == [x, y]


def test_a_list_of_arrays_has_a_field_in_each() -> None:
    data = [np.ones((3, 2)), np.zeros(3)]
    assert named_arrays(data, [X, Y]) is data


def test_flat_rows_take_the_shape_of_the_input() -> None:
    image = FeedSpec("image", "float32", (2, 2, 1), part="inputs")
    one = FeedSpec("one", "float32", (1,), part="inputs")
    found = named_arrays((np.ones((3, 4)), [1, 2, 3], [0, 1, 0]), [image, one, Y])
    assert [array.shape for array in found] == [(3, 2, 2, 1), (3, 1), (3,)]
