"""Records that are unlike the first ones, by which the columns of a DataFrame were found."""

from __future__ import annotations

from typing import Any

import pytest

from tos_notebook.errors import DataError


def record(**values: list[Any]) -> tuple[bytearray, None]:
    """Return an example of lists of integers or floats."""
    import tensorflow as tf

    made = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
        if isinstance(numbers[0], float)
        else tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))
        for name, numbers in values.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=made))
    return bytearray(example.SerializeToString()), None


def decoded(*records: tuple[bytearray, None], first: int = 1) -> list[tuple[Any, ...]]:
    """Return the rows of records, the columns being known by the first of them."""
    from tos_notebook.data.examples import Decoder, kinds_of, parsed

    return list(Decoder(kinds_of(map(parsed, records[:first])), frozenset())(records))


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"x": [1, 2]}, r"feature 'x': expected one value at most.* got 2 values"),
        ({"x": [0.5]}, r"feature 'x': expected a int64_list.* got a float_list"),
        ({"x": [1], "new": [1]}, r"feature 'new': expected no such feature.* got one"),
    ],
    ids=["values", "kind", "feature"],
)
def test_a_record_unlike_the_first_ones_is_told(last: dict[str, Any], expected: str) -> None:
    with pytest.raises(DataError, match=rf"Record 1 of its file, {expected}"):
        decoded(record(x=[1]), record(**last))


def test_a_column_of_arrays_takes_single_values_and_a_missing_feature_is_none() -> None:
    records = record(x=[1, 2]), record(x=[3]), record(y=[0.5])
    assert decoded(*records, first=3) == [([1, 2], None), ([3], None), (None, 0.5)]


def test_lists_of_two_kinds_in_the_first_records_are_told() -> None:
    with pytest.raises(DataError, match="'x': expected one kind of list in all records"):
        decoded(record(x=[1]), record(x=[0.5]), first=2)
