"""Tables of pandas, and what is alike, as arrays in the order of a program's feeds."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.data.chosen import chosen
from tos_notebook.data.parts import named_arrays
from tos_notebook.data.series import values_of
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch

A, B = (FeedSpec(name, None, None, part="inputs") for name in ("a", "b"))
X = FeedSpec("x", "float32", (2,), part="inputs")
Y = FeedSpec("y", None, None, part="labels")

FRAME = pd.DataFrame(
    {
        "b": pd.Series([1, 2], dtype="Int64"),
        "a": [0.5, 1.5],
        "color": pd.Categorical(["red", "blue"]),
        "y": [True, False],
    }
)


def lists(arrays: Sequence[Any]) -> list[Any]:
    return [array.tolist() for array in arrays]


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (pd.Series([1, 2], dtype="Int16"), np.array([1, 2], "int16")),
        (pd.Series([1.5, None], dtype="Float32"), np.array([1.5, np.nan], "float32")),
        (pd.Series([True, False], dtype="boolean"), np.array([True, False])),
        (pd.Series(["a", "b"], dtype="string"), np.array([b"a", b"b"], object)),
        (pd.Series(["a", b"b"]), np.array([b"a", b"b"], object)),
        (pd.Series(["b", "a"], dtype="category"), np.array([b"b", b"a"], object)),
        (pd.Series([30, 10, 30], dtype="category"), np.array([30, 10, 30])),
        (pd.Series([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])),
        (pd.Series([Decimal("0.5")]), np.array([0.5])),
        (pd.Series(pd.to_datetime(["1970-01-02"])), np.array([86400.0])),
        (pd.Series(pd.to_datetime(["1970-01-02T00:00+01:00"])), np.array([82800.0])),
        (pd.Series(pd.to_timedelta([1500], "ms")), np.array([1.5])),
        (pd.Series(pd.arrays.SparseArray([0, 1])), np.array([0, 1])),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pd.Series) else "",
)
def test_a_column_of_each_dtype_is_what_its_values_stand_for(
    series: pd.Series[Any], expected: Any
) -> None:
    found = values_of(series, "Column")
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("series", "text"),
    [
        (
            pd.Series([1, None, None], dtype="Int64"),
            "in 2 of 3, the first of which is row 1",
        ),
        (pd.Series(["a", None]), "got none in 1 of 2"),
        (pd.Series(["a", None], dtype="category"), "got none in 1 of 2"),
        (pd.Series(pd.to_datetime(["1970-01-02", None])), "got none in 1 of 2"),
        (pd.Series(pd.period_range("2020", periods=1, freq="M")), r"got period\[M\]"),
        (pd.Series([{"k": 1}]), r"got \{'k': 1\} \(dict\) in row 0"),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pd.Series) else "",
)
def test_a_column_that_cannot_be_fed_is_refused(series: pd.Series[Any], text: str) -> None:
    with pytest.raises(DataError, match=f"^Column 'c'.*{text}"):
        values_of(series, "Column 'c'")


def test_several_columns_of_numbers_are_one_input() -> None:
    expected = [[[1.0, 0.5], [2.0, 1.5]], [True, False]]
    assert lists(named_arrays((FRAME[["b", "a"]], FRAME["y"]), [X, Y])) == expected
    assert lists(chosen(FRAME, ["b", "a"], "y").arrays([X, Y])) == expected


@pytest.mark.parametrize("names", [["a", "a"], [1, "1"]])
def test_columns_of_the_same_name_are_refused(names: list[Any]) -> None:
    frame = pd.DataFrame([[1.0, 2.0]], columns=names)
    with pytest.raises(DataError, match="Rename those that are the same"):
        named_arrays((frame, [0]), [X, Y])


def test_columns_go_to_the_inputs_of_their_names() -> None:
    expected = [[0.5, 1.5], [1, 2], [True, False]]
    assert lists(named_arrays((FRAME[["b", "a"]], FRAME["y"]), [A, B, Y])) == expected
    assert lists(chosen(FRAME, ["b", "a"], "y").arrays([A, B, Y])) == expected
    assert lists(chosen(FRAME).arrays([A, B, Y])) == expected


def test_a_mapping_says_which_columns_an_input_takes() -> None:
    features = {"x": ["a", "b"], "c": "color"}
    color = FeedSpec("c", "string", (1,), part="inputs")
    found = chosen(FRAME, features, "y").arrays([X, color, Y])
    assert lists(found) == [[[0.5, 1.0], [1.5, 2.0]], [[b"red"], [b"blue"]], [True, False]]


def test_an_only_input_takes_all_numbers_that_are_no_label() -> None:
    whole = chosen(FRAME.drop(columns="color"), label="y")
    assert lists(whole.arrays([X, Y])) == [[[1.0, 0.5], [2.0, 1.5]], [True, False]]
    assert lists(whole.of_inputs([A, B])) == [[0.5, 1.5], [1, 2]]


def test_an_only_label_that_none_is_named_after_is_the_column_label() -> None:
    named = FRAME.drop(columns="color").rename(columns={"y": "Label"})
    assert lists(chosen(named).arrays([X, Y])) == [[[1.0, 0.5], [2.0, 1.5]], [True, False]]
    # One that has the model's own name comes first.
    both = FRAME.assign(label=["no", "no"])[["a", "y", "label"]]
    with pytest.raises(DataError, match="Say which columns"):
        chosen(both).arrays([X, Y])
    with pytest.raises(
        DataError, match=r"No column is called 'y' or 'label', for the labels\. Or name"
    ):
        chosen(FRAME[["a", "b"]]).arrays([X, Y])


def test_an_only_input_takes_the_column_features_where_not_all_are_numbers() -> None:
    """As Spark ML's VectorAssembler leaves it beside the columns that it was made of."""
    frame = pd.DataFrame({"a": [1, 2], "name": ["p", "q"], "label": [0, 1]})
    frame["features"] = pd.Series([[0.5, 1.0], [1.5, 2.0]])
    assert lists(chosen(frame).arrays([X, Y])) == [[[0.5, 1.0], [1.5, 2.0]], [0, 1]]
    assert lists(chosen(frame).of_inputs([X])) == [[[0.5, 1.0], [1.5, 2.0]]]
    for ports in ([A, B, Y], [A, B]):
        with pytest.raises(DataError, match=r"Say which columns .*Or name the columns"):
            chosen(frame).arrays(ports)


@pytest.mark.parametrize(
    ("features", "label", "ports", "error", "text"),
    [
        (["a", "z"], "y", [X, Y], DataError, "no column 'z'"),
        (["a", "color"], "y", [X, Y], DataError, "Column 'color' has text: expected numbers"),
        (None, None, [X, Y], DataError, r"Say which columns .*features=\[...\].*b, a, color, y"),
        (["a"], "y", [A, B, Y], ShapeMismatch, "expected columns for 'a', 'b', got a"),
        ({"q": "a"}, "y", [A, Y], ShapeMismatch, "expected the names 'a', got 'q'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    features: Any, label: Any, ports: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        chosen(FRAME, features, label).arrays(ports)


def test_names_of_columns_need_a_table() -> None:
    with pytest.raises(ConfigError, match=r"features, label: expected a DataFrame.*got tuple"):
        chosen((np.ones(2), np.ones(2)), "a")


@pytest.fixture(scope="module")
def reviews() -> Any:
    """A dataset of Hugging Face's, with a picture in each row."""
    import datasets

    pixels = [np.full((2, 2, 3), value, np.uint8) for value in (0, 7)]
    columns = {
        "text": ["a", "b"],
        "label": [0, 1],
        "at": [0.1, 2.0**24 + 1],
        "pair": [[0.1, 0.2], [0.3, 0.4]],
        "picture": [{"bytes": tf.io.encode_png(one).numpy(), "path": None} for one in pixels],
    }
    data = datasets.Dataset.from_dict(columns)
    return data.cast_column("label", datasets.ClassLabel(names=["bad", "good"])).cast_column(
        "picture", datasets.Image()
    )


def test_a_dataset_of_hugging_face_is_a_table(reviews: Any) -> None:
    text = FeedSpec("t", "string", (1,), part="inputs")
    assert lists(chosen(reviews, "text", "label").arrays([text, Y])) == [[[b"a"], [b"b"]], [0, 1]]


def test_columns_of_hugging_face_keep_their_digits_and_pictures_are_decoded(reviews: Any) -> None:
    free = [FeedSpec(name, None, None, part="inputs") for name in ("at", "pair", "picture")]
    at, pair, picture = chosen(reviews, ["at", "pair", "picture"]).arrays(free)
    assert at.tolist() == [0.1, 2.0**24 + 1]
    assert pair.tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert (picture.shape, picture[1].max()) == ((2, 2, 2, 3), 7)


def test_pictures_of_hugging_face_are_scaled_to_the_input(reviews: Any) -> None:
    port = FeedSpec("picture", "float32", (4, 6, 1), part="inputs")
    (picture,) = chosen(reviews, ["picture"]).arrays([port])
    assert (picture.shape, picture.dtype) == ((2, 4, 6, 1), np.float32)
    assert picture[1].max() == pytest.approx(7, abs=0.5)
    broken = reviews.map(lambda row: {"picture": {"bytes": b"no picture", "path": None}})
    with pytest.raises(DataError, match="'picture', row 0: expected an image, got 10 bytes"):
        chosen(broken, ["picture"]).arrays([port])


def test_other_kinds_of_hugging_face_are_told_what_to_give(reviews: Any) -> None:
    import datasets

    with pytest.raises(DataError, match=r"data\['train'\]"):
        chosen(datasets.DatasetDict({"train": reviews}), "text")
    with pytest.raises(DataError, match="which is streamed"):
        chosen(reviews.to_iterable_dataset(), "text")
