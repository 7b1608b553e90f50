"""Missing values that are filled, and arrays that are brought to one length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.data.dataframe import columns
from tos_notebook.data.source import as_source
from tos_notebook.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


@pytest.fixture(scope="module")
def people(spark: Any) -> Any:
    rows = [
        (1.0, 10, "Rome", True, [1, 2, 3, 4], ["a"]),
        (None, None, None, None, [5], []),
        (float("nan"), 20, "Oslo", False, [], ["b", "c"]),
        (4.0, 20, "Oslo", True, [6, 7], ["d", "e", "f"]),
    ]
    schema = (
        "age double, size int, city string, kind boolean, tokens array<int>, words array<string>"
    )
    return spark.createDataFrame(rows, schema).coalesce(1)


def feed(name: str, dtype: str, shape: Any) -> FeedSpec:
    return FeedSpec(name, dtype, shape, part="inputs")


def fed(sc: Any, data: Any, *feeds: FeedSpec) -> list[Any]:
    blocks = as_source(sc, data, 1, feeds).tasks(sc).collect()
    return [np.concatenate(field).tolist() for field in zip(*blocks, strict=True)]


def test_nulls_and_nan_are_filled_by_column(people: Any, spark_context: Any) -> None:
    fill = {"age": -1, "size": 7, "city": "unknown", "kind": False}
    found = fed(spark_context, columns(people, list(fill), fill=fill))
    assert found == [
        [1.0, -1.0, -1.0, 4.0],
        [10, 7, 20, 20],
        [b"Rome", b"unknown", b"Oslo", b"Oslo"],
        [True, False, False, True],
    ]


def test_spark_finds_what_stands_for_numbers_and_other_data_take_the_same(
    people: Any, spark_context: Any
) -> None:
    fill = {"age": "mean", "size": "mode"}
    data = columns(people, list(fill), fill=fill)
    assert data.fill == {"age": 2.5, "size": 20}
    test = columns(people.limit(2), list(fill), fill=data.fill)
    assert fed(spark_context, test) == [[1.0, 2.5], [10, 20]]
    assert columns(people, "age", fill={"age": "median"}).fill == {"age": 2.5}


def test_a_fraction_in_place_of_whole_numbers_makes_them_fractions(
    people: Any, spark_context: Any
) -> None:
    assert fed(spark_context, columns(people, "size", fill={"size": 0.5})) == [[10, 0.5, 20, 20]]


def test_numbers_of_numpys_are_told_from_whole_ones_too(people: Any, spark_context: Any) -> None:
    half = {"size": np.float32(0.5)}
    assert fed(spark_context, columns(people, "size", fill=half)) == [[10, 0.5, 20, 20]]


def test_an_indicator_is_one_more_number_behind_those_of_an_only_input(
    people: Any, spark_context: Any
) -> None:
    data = columns(people, ["age", "size"], fill={"age": 0, "size": 0}, indicators=["age"])
    (rows,) = fed(spark_context, data, feed("x", "float32", (3,)))
    assert rows == [[1, 10, 0], [0, 0, 1], [0, 20, 1], [4, 20, 0]]


def test_an_indicator_goes_where_the_features_name_it(people: Any, spark_context: Any) -> None:
    feeds = feed("gap", "float32", (1,)), feed("age", "float32", (1,))
    options: Any = {"fill": {"age": 0}, "indicators": ["age"]}
    wanted = [[[0], [1], [1], [0]], [[1], [0], [0], [4]]]
    named = columns(people, {"gap": "age_missing", "age": "age"}, **options)
    assert fed(spark_context, named, *feeds) == wanted
    placed = columns(people, ["age_missing", "age"], **options)
    assert fed(spark_context, placed, *feeds) == wanted
    listed = columns(people, {"x": ["age", "size"], "y": "kind"}, **options)
    assert listed.features["x"] == "age, size, age_missing"  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"fill": {"age": "men"}}, ConfigError, "a number, or one of mean, median, mode.*'men'"),
        ({"fill": {"city": 0}}, ConfigError, "expected text for column 'city', got 0"),
        ({"fill": {"kind": "mean"}}, ConfigError, "True, False or mode for column 'kind'.*'mean'"),
        ({"pad": {"words": 2}}, DataError, r"pad: .*\(age, city, tokens\), got 'words'"),
        ({"fill": {"tokens": 0}}, DataError, "'tokens', which is array<int>"),
        ({"fill": {"kind": False}}, DataError, r"fed \(age, city, tokens\), got 'kind'"),
        ({"indicators": ["age"]}, ConfigError, r"got 'age'\. Give it one: fill=\{'age': 0.0\}"),
        ({"masks": ["tokens"]}, ConfigError, r"masks:.*length: pad=\{'tokens': 128\}"),
        ({"pad_value": {"tokens": 1}}, ConfigError, "pad_value: .*got 'tokens'"),
        ({"pad": {"tokens": 2}, "longer": "keep"}, ConfigError, "longer.*bad, cut.*'keep'"),
    ],
)
def test_what_cannot_be_prepared_is_refused(
    people: Any, given: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        columns(people, ["age", "city", "tokens"], **given)


def test_a_column_without_any_value_has_no_mean(people: Any) -> None:
    empty = people.where("age is null")
    with pytest.raises(DataError, match="'age' has no value"):
        columns(empty, "age", fill={"age": "mean"})


def test_spark_finds_the_longest_array_and_the_length_is_known_for_other_data(
    people: Any, spark_context: Any
) -> None:
    train = columns(people, "tokens", pad={"tokens": "longest"})
    assert train.pad == {"tokens": 4}
    assert fed(spark_context, train)[0][1] == [5, 0, 0, 0]
    one = columns(people.where("size(tokens) = 2"), "tokens", pad=train.pad)
    assert len(fed(spark_context, one)[0][0]) == 4


def test_no_array_with_a_value_has_no_longest(people: Any) -> None:
    with pytest.raises(DataError, match="pad: column 'tokens' has no value"):
        columns(people.where("size(tokens) = 0"), "tokens", pad={"tokens": "longest"})


def test_longer_arrays_are_cut_where_that_is_wanted(people: Any, spark_context: Any) -> None:
    data = columns(
        people, ["tokens", "words"], pad={"tokens": 3, "words": 2}, longer="cut",
        pad_value={"tokens": -1},
    )  # fmt: skip
    assert fed(spark_context, data) == [
        [[1, 2, 3], [5, -1, -1], [-1, -1, -1], [6, 7, -1]],
        [[b"a", b""], [b"", b""], [b"b", b"c"], [b"d", b"e"]],
    ]


def test_a_mask_says_which_positions_are_real(people: Any, spark_context: Any) -> None:
    data = columns(people, "tokens", pad={"tokens": 3}, longer="cut", masks=["tokens"])
    assert data.features == ("tokens", "tokens_mask")
    feeds = feed("tokens", "int32", (None,)), feed("mask", "bool", (None,))
    _, mask = fed(spark_context, data, *feeds)
    assert mask == [[True] * 3, [True, False, False], [False] * 3, [True, True, False]]


def test_a_null_in_place_of_an_array_stays_a_bad_row(spark: Any, spark_context: Any) -> None:
    frame = spark.createDataFrame([([1],), (None,)], "t array<int>").coalesce(1)
    data = columns(frame, "t", pad={"t": 2}, longer="cut", masks=["t"], on_bad="skip")
    assert fed(spark_context, data) == [[[1, 0]], [[True, False]]]
