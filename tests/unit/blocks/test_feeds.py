from __future__ import annotations

import re

import numpy as np
import pytest

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.blocks.feeds import check_columns, check_values, checked
from tos_notebook.errors import DataError, ShapeMismatch

FOUND = (ColumnSpec("uint8", (4, 3)), ColumnSpec("int64", ()))


@pytest.mark.parametrize(
    "feeds",
    [
        (FeedSpec("x", "uint8", (4, 3)), FeedSpec("y", "int64", ())),
        (FeedSpec("x", "float32", (None, 3)), FeedSpec("y", "float16", ())),
        (FeedSpec("x", None, None), FeedSpec("y", "int32", None)),
    ],
)
def test_records_that_fit_the_feeds_pass(feeds: tuple[FeedSpec, ...]) -> None:
    check_columns(FOUND, feeds)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (
            (FeedSpec("x", "uint8", None),),
            "Expected records of 1 fields, one for each feed (x);",
        ),
        (
            (FeedSpec("x", "uint8", (12,)), FeedSpec("y", "int64", ())),
            "Feed 'x': expected rows of uint8 with shape (12,), got uint8 of shape (4, 3) in field",
        ),
        (
            (FeedSpec("x", "uint8", (None, 4)), FeedSpec("y", "int64", ())),
            "Feed 'x': expected rows of uint8 with shape (?, 4), got uint8 of shape (4, 3)",
        ),
        (
            (FeedSpec("x", "uint8", None), FeedSpec("y", "bool", ())),
            "Feed 'y': expected rows of bool with shape (), got int64 of shape () in field 1 of",
        ),
    ],
)
def test_records_that_do_not_fit_are_named_with_their_feed(
    feeds: tuple[FeedSpec, ...], message: str
) -> None:
    with pytest.raises(ShapeMismatch, match=re.escape(message)):
        check_columns(FOUND, feeds)


def test_floats_do_not_become_integers_unasked() -> None:
    with pytest.raises(ShapeMismatch, match="Cast it"):
        check_columns([ColumnSpec("float32", ())], [FeedSpec("x", "int32", ())])


def test_a_column_with_a_name_is_called_by_it() -> None:
    column = ColumnSpec("float32", (3,), "pixels")
    with pytest.raises(ShapeMismatch, match=r"got float32 of shape \(3,\) in column 'pixels'"):
        check_columns([column], [FeedSpec("x", "float32", (4,))])


@pytest.mark.parametrize(
    "labels", [[0, 9, 10, 11], [0, 9, -1, 11], [0.0, 9.0, 10.0, 0.0], [0.0, 9.0, 1.5, 0.0]]
)
def test_a_label_of_no_class_is_named_with_its_row(labels: list[float]) -> None:
    rows = (np.zeros((4, 2)), np.array(labels)[:, None])
    feeds = FeedSpec("x", None, None), FeedSpec("y", None, None, 10)
    expected = r"Partition 3, row 2, feed 'y': expected whole labels from 0 to"
    with pytest.raises(DataError, match=expected):
        check_values(rows, feeds, "Partition 3, row")


def test_labels_of_known_and_of_unknown_classes_pass() -> None:
    rows = (np.zeros((2, 2)), np.array([0, 9]))
    check_values(rows, (FeedSpec("x", None, None), FeedSpec("y", None, None, 10)))
    check_values(rows, (FeedSpec("x", None, None), FeedSpec("y", None, None)))
    check_values((np.zeros((0, 2)), np.zeros(0)), (FeedSpec("y", None, None, 1),) * 2)
    check_values((), (FeedSpec("x", None, None), FeedSpec("y", None, None, 10)))


@pytest.mark.parametrize(
    ("dtype", "expected", "numbers", "fits"),
    [
        ("int64", "int32", [0, 2**31 - 1, -(2**31)], True),
        ("int64", "int32", [0, 2**31, 3], False),
        ("int64", "int32", [0, -(2**31) - 1, 3], False),
        ("uint64", "int64", [0, 2**63, 3], False),
        ("uint16", "uint8", [0, 256, 3], False),
        ("int32", "int64", [0, 2**31 - 1, 3], True),
        ("int64", "float32", [0, 2**40, 3], True),
    ],
)
def test_an_integer_that_would_become_another_one_is_named_with_its_row(
    dtype: str, expected: str, numbers: list[int], fits: bool
) -> None:
    column = np.array(numbers, dtype)[:, None].repeat(2, axis=1)
    feeds = (FeedSpec("ids", expected, (2,)),)
    if fits:
        check_values((column,), feeds)
        return
    ends = f"expected integers from .* \\({expected}\\), got {numbers[1]}"
    with pytest.raises(DataError, match=f"^Row 8, feed 'ids': {ends}"):
        check_values((column,), feeds, first=7)


def test_rows_of_a_partition_are_numbered_across_its_blocks() -> None:
    blocks = [(np.arange(3),), (np.array([3, 2**40]),)]
    with pytest.raises(DataError, match="Partition 2, row 4, feed 'ids'"):
        list(checked(iter(blocks), (FeedSpec("ids", "int32", ()),), "Partition 2, row"))


def test_one_field_too_many_may_be_the_weights_of_rows() -> None:
    columns = [ColumnSpec("float32", ())] * 3
    feeds = FeedSpec("x", None, None), FeedSpec("y", None, None)
    with pytest.raises(ShapeMismatch, match=r"got 3 fields\. .*capture\(model, weights=True\)"):
        check_columns(columns, feeds)


def test_a_label_of_one_of_several_outputs_is_checked_against_its_own_classes() -> None:
    feeds = FeedSpec("x", None, None), FeedSpec("z", None, None, 3), FeedSpec("a", None, None, 5)
    good = np.zeros((2, 1)), np.array([0, 2]), np.array([4, 3])
    check_values(good, feeds, "Partition 0, row")
    with pytest.raises(DataError, match=r"Partition 0, row 1, feed 'z': .* from 0 to 2, got 3"):
        check_values((good[0], np.array([0, 3]), good[2]), feeds, "Partition 0, row")
