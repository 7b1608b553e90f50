"""Columns of real DataFrames, as the blocks that tasks get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.ml.feature import HashingTF
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.blocks.source import DataSource
from tos_notebook.blocks.sparse import SparseRows
from tos_notebook.data.dataframe import FrameColumns, columns
from tos_notebook.data.described import DataDescription
from tos_notebook.data.rdd import RddSource
from tos_notebook.data.source import as_source
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch


@pytest.fixture(scope="module")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


@pytest.fixture(scope="module")
def people(spark: Any) -> Any:
    """Three partitions of known rows; row 7 has a null, row 8 a NaN."""
    rows = [(n, n / 2, [float(n), 1.0], bytes([n, 1]), f"name {n}") for n in range(12)]
    rows[7] = (7, None, [7.0, 1.0], b"\x07\x01", "null")
    rows[8] = (8, float("nan"), [8.0, 1.0], b"\x08\x01", "nan")
    schema = "number int, half double, pair array<double>, raw binary, name string"
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 3), schema)


def rows_of(source: RddSource, sc: Any) -> list[list[Any]]:
    """Return each partition's rows, field by field."""
    parts = source.tasks(sc).glom().collect()
    return [[np.concatenate(field) for field in zip(*part, strict=True)] for part in parts]


def test_columns_become_rows_in_their_own_partitions(people: Any, spark_context: Any) -> None:
    described = columns(people, ["pair", "raw"], "number", shapes={"raw": (1, 2)})
    assert isinstance(described, DataDescription)
    source = as_source(spark_context, described, 9)
    assert isinstance(source, DataSource)
    assert [(c.name, c.dtype, c.shape) for c in source.columns] == [
        ("pair", "float64", (2,)),
        ("raw", "uint8", (1, 2)),
        ("number", "int32", ()),
    ]
    assert (source.partitions, source.samples, source.skipped) == (3, None, ())
    for part, (pair, raw, number) in enumerate(rows_of(source, spark_context)):  # type: ignore[arg-type]
        assert number.tolist() == list(range(part * 4, part * 4 + 4))
        np.testing.assert_array_equal(pair[:, 0], number)
        np.testing.assert_array_equal(raw[:, 0, 0], number)


def test_doubles_come_as_what_the_program_takes(people: Any, spark_context: Any) -> None:
    feeds = FeedSpec("x", "float32", (2,)), FeedSpec("y", None, None)
    source = as_source(spark_context, columns(people, "pair", "half"), 1, feeds)
    assert [c.dtype for c in source.columns] == ["float32", "float64"]


def test_vectors_dense_and_sparse_are_rows_of_numbers(spark: Any, spark_context: Any) -> None:
    vectors = [Vectors.dense([1.0, 2.0, 3.0]), Vectors.sparse(3, {1: 5.0}), None]
    frame = spark.createDataFrame([(v, 1) for v in vectors], ["v", "y"]).coalesce(1)
    source = columns(frame, "v", "y", on_bad="skip").source(spark_context, ())
    (((v, _),),) = [rows_of(source, spark_context)]
    np.testing.assert_array_equal(v, [[1, 2, 3], [0, 5, 0]])
    assert [(s.column, s.reason) for s in source.skipped] == [("v", "null")]


def test_wide_sparse_vectors_stay_sparse_until_they_are_fed(spark: Any, spark_context: Any) -> None:
    """1,000 rows of 2 MB each, if they were dense: Spark's Java would be out of memory."""
    words = spark.range(1000).selectExpr("array(concat('w', id), 'all') as words").coalesce(1)
    hashed = HashingTF(inputCol="words", outputCol="v").transform(words)
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(setting)
    source = as_source(spark_context, columns(hashed, "v"), 1, [FeedSpec("x", "float32", None)])
    assert spark.conf.get(setting) == before
    (spec,) = source.columns
    assert (spec.dtype, spec.shape) == ("float32", (1 << 18,))
    blocks = source.tasks(spark_context).collect()
    assert {type(v) for (v,) in blocks} == {SparseRows}
    assert sum(len(v) for (v,) in blocks) == 1000
    first = blocks[0][0][:3].dense()
    wanted = [row.v.toArray() for row in hashed.take(3)]
    np.testing.assert_array_equal(first, np.array(wanted, np.float32))


def test_wide_vectors_stay_sparse_although_the_first_row_is_dense(
    spark: Any, spark_context: Any
) -> None:
    """Spark's own stages make each vector what is smaller."""
    vectors = [Vectors.dense(np.arange(1024.0)), Vectors.sparse(1024, {7: 5.0})]
    frame = spark.createDataFrame([(v,) for v in vectors], ["v"]).coalesce(1)
    source = as_source(spark_context, columns(frame, "v"), 1, [FeedSpec("x", "float32", None)])
    (block,) = source.tasks(spark_context).collect()
    assert isinstance(block[0], SparseRows)
    np.testing.assert_array_equal(block[0].dense(), [v.toArray() for v in vectors])


def test_bad_vectors_are_left_out_by_their_reason(spark: Any, spark_context: Any) -> None:
    vectors = [
        Vectors.sparse(3, {1: 5.0}),
        Vectors.sparse(4, {1: 5.0}),
        Vectors.dense([1.0, float("nan"), 3.0]),
        Vectors.sparse(3, {2: float("inf")}),
        Vectors.dense([1.0, 2.0]),
        Vectors.dense([1.0, 2.0, 3.0]),
    ]
    for bad, reason in [(1, "4 values in place of 3"), (2, "nan"), (3, "inf"), (4, "2 values in")]:
        chosen = [vectors[0], vectors[bad], vectors[5]]
        frame = spark.createDataFrame([(v,) for v in chosen], ["v"]).coalesce(1)
        source = columns(frame, "v", on_bad="skip").source(spark_context, ())
        (((v,),),) = [rows_of(source, spark_context)]
        np.testing.assert_array_equal(v, [[0, 5, 0], [1, 2, 3]])
        (skipped,) = source.skipped
        assert (skipped.rows, skipped.first) == (1, 1)
        assert skipped.reason.startswith(reason)


def test_arrays_of_other_lengths_are_filled_up_but_not_cut(spark: Any, spark_context: Any) -> None:
    frame = spark.createDataFrame([([1, 2, 3, 4],), ([5],), ([],), (None,)], "t array<int>")
    data = columns(frame.coalesce(1), "t", pad={"t": 3}, on_bad="skip")
    source = data.source(spark_context, ())
    assert source.columns[0].shape == (3,)
    (((tokens,),),) = [rows_of(source, spark_context)]
    assert tokens.tolist() == [[5, 0, 0], [0, 0, 0]]
    (skipped,) = source.skipped
    assert (skipped.rows, skipped.reason) == (2, "4 values in place of 3")
    with pytest.raises(DataError, match=r"pad: expected a column of arrays.*'id', which is bigint"):
        columns(spark.range(1), "id", pad={"id": 3})


def test_tokens_of_other_lengths_are_to_be_filled_up_not_left_out(
    spark: Any, spark_context: Any
) -> None:
    frame = spark.createDataFrame([([1],), ([1, 2, 3],)], "s array<int>").coalesce(1)
    source = columns(frame, "s").source(spark_context, [FeedSpec("tokens", "int32", (None,))])
    with pytest.raises(Exception, match=r"3 values in place of 1\. .*pad={'s': .longest.}"):
        source.tasks(spark_context).count()


def test_one_column_may_be_features_and_label(people: Any, spark_context: Any) -> None:
    source = columns(people, "pair", "pair").source(spark_context, ())
    for x, y in rows_of(source, spark_context):
        np.testing.assert_array_equal(x, y)


def test_a_repartition_moves_every_row_once(people: Any, spark_context: Any) -> None:
    source = columns(people, "pair", "number").source(spark_context, ())
    again = source.repartition(2, RandomPartitioner(2), 0)
    parts = rows_of(again, spark_context)
    assert sorted(np.concatenate([number for _, number in parts])) == list(range(12))
    source.close()
    again.close()


def test_bad_rows_are_left_out_and_counted_once(people: Any, spark_context: Any) -> None:
    source = columns(people, "half", "number", on_bad="skip").source(spark_context, ())
    for _ in range(2):
        parts = rows_of(source, spark_context)
        assert [number.tolist() for _, number in parts] == [
            [0, 1, 2, 3],
            [4, 5, 6],
            [9, 10, 11],
        ]
        assert [(s.partition, s.column, s.rows, s.first, s.reason) for s in source.skipped] == [
            (1, "half", 1, 3, "null"),
            (2, "half", 1, 0, "nan"),
        ]


def test_no_more_rows_are_left_out_than_allowed(people: Any, spark_context: Any) -> None:
    """Each partition knows its own number; all together are known when they are read."""
    source = columns(people, "half", "number", on_bad="skip:2").source(spark_context, ())
    source.tasks(spark_context).count()
    source.check_skipped()
    source = columns(people, "half", "number", on_bad="skip:1").source(spark_context, ())
    source.tasks(spark_context).count()
    text = "at most 1 bad rows, got at least 2: .*'half', partition 1, row 3: null"
    with pytest.raises(DataError, match=text):
        source.check_skipped()
    together = people.coalesce(1)
    source = columns(together, "half", "number", on_bad="skip:1").source(spark_context, ())
    with pytest.raises(Exception, match="at most 1 bad rows, got at least 2"):
        source.tasks(spark_context).count()


def test_a_bad_row_that_is_not_to_be_left_out_is_named(people: Any, spark_context: Any) -> None:
    source = columns(people, "half", "number").source(spark_context, ())
    with pytest.raises(Exception, match=r"'half', partition [12], row [03]: expected float64"):
        source.tasks(spark_context).collect()


def test_a_shuffled_partition_is_the_same_whenever_it_is_made(
    spark: Any, spark_context: Any
) -> None:
    """Blocks of a shuffle arrive in any order; a retried task feeds the same batches."""
    frame = spark.range(4000, numPartitions=8).repartition(2, "id")
    layouts = []
    for _ in range(3):
        source = columns(frame, "id").source(spark_context, ())
        layouts.append([x.tolist() for (x,) in rows_of(source, spark_context)])
    assert layouts[0] == layouts[1] == layouts[2]
    # By content: not as they came.
    assert layouts[0][0] == np.array(
        sorted(layouts[0][0], key=lambda n: n.to_bytes(8, "little"))
    ).tolist()  # fmt: skip


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"features": "hlaf"}, r"no column 'hlaf'\. Did you mean half\? It has number, half"),
        ({"features": "half", "label": "zzz"}, r"no column 'zzz'\. It has number"),
        ({"features": "half", "shapes": {"rwa": (2,)}}, "no column 'rwa'. Did you mean raw"),
    ],
)
def test_what_cannot_be_fed_is_said_before_anything_starts(
    people: Any, given: dict[str, Any], text: str
) -> None:
    with pytest.raises(DataError, match=text):
        columns(people, **given)


def test_columns_that_two_sides_of_a_join_have_are_refused(people: Any) -> None:
    twice = people.join(people.select("number", "half"), "number")
    with pytest.raises(DataError, match="'half': the DataFrame has 2 of that name; rename"):
        columns(twice, "half")


@pytest.mark.parametrize("policy", ["ignore", "skip:", "skip:0", "skip:few", "raise:3", None])
def test_an_unknown_policy_is_refused(people: Any, policy: Any) -> None:
    with pytest.raises(ConfigError, match=rf"on_bad.*raise, skip, or skip:100.*got .?{policy}"):
        columns(people, "half", on_bad=policy)


def test_a_shape_that_does_not_fit_the_arrays_is_refused(people: Any, spark_context: Any) -> None:
    with pytest.raises(DataError, match=r"'pair': expected arrays of 6 values for shape \(2, 3\)"):
        columns(people, "pair", shapes={"pair": (2, 3)}).source(spark_context, ())


@pytest.mark.parametrize("condition", ["number < 0", "number = 7"])
def test_a_frame_without_a_row_to_train_on_is_refused(
    people: Any, spark_context: Any, condition: str
) -> None:
    frame = people.where(condition)
    with pytest.raises(DataError, match="at least one row without a null in half, number"):
        columns(frame, "half", "number").source(spark_context, ())


def test_lengths_are_those_of_the_first_row_without_a_null(people: Any, spark_context: Any) -> None:
    frame = people.sparkSession.createDataFrame(
        [(None, 1, b"a"), ([[1.0, 2.0]], 2, b"b"), ([[1.0]], 3, b"c"), ([], 4, b"d")],
        "x array<array<double>>, y int, `z.z` binary",
    )
    chosen = columns(frame, ["x", "y", "z.z"], shapes={"z.z": (1,)})
    assert [c.shape for c in chosen.source(spark_context, ()).columns] == [(1, 2), (), (1,)]
    empty = columns(frame.where("y = 4"), "x").source(spark_context, ())
    assert [c.shape for c in empty.columns] == [(0, 0)]


TWO_INPUTS = (
    FeedSpec("b", None, None, part="inputs"),
    FeedSpec("a", None, None, part="inputs"),
    FeedSpec("y", None, None, part="labels"),
)
WEIGHED = (
    FeedSpec("x", None, None, part="inputs"),
    FeedSpec("y", None, None, part="labels"),
    FeedSpec("sample_weight", None, None, part="weight"),
)


@pytest.mark.parametrize(
    ("feeds", "features", "label", "weight", "message"),
    [
        (TWO_INPUTS, ("p",), ("q",), ("w",), "features: expected columns for 'b', 'a', got 'p'."),
        (TWO_INPUTS, ("p", "q", "r"), (), (), "features: expected .* 'a', got 'p', 'q', 'r'."),
        (TWO_INPUTS, {"a": "p"}, ("q",), (), "features: expected the names 'b', 'a', got 'a'"),
        (TWO_INPUTS, ("p", "q"), (), ("w",), "label: expected columns for 'y', got none."),
        (TWO_INPUTS, ("p", "q"), ("r",), ("w",), "weight: expected no column, .*weights=True"),
        (WEIGHED, ("p",), ("q", "r"), (), "label: expected columns for 'y', got 'q', 'r'."),
        (WEIGHED, ("p",), ("q",), (), "weight: expected columns for 'sample_weight', got none."),
    ],
)
def test_features_labels_and_weight_are_each_counted(
    feeds: Any, features: Any, label: Any, weight: Any, message: str
) -> None:
    """As many columns as feeds are not enough: a weight must not become a label."""
    with pytest.raises(ShapeMismatch, match=message):
        FrameColumns(None, features, label, weight).arranged(feeds)


def test_a_bare_frame_says_how_to_name_its_columns(people: Any, spark_context: Any) -> None:
    with pytest.raises(DataError, match=r"tos\.columns\(df, features=.*It has number, half"):
        as_source(spark_context, people, 2)


def test_a_frame_of_another_context_is_refused(people: Any) -> None:
    with pytest.raises(DataError, match="another Spark context"):
        as_source(object(), columns(people, "half"), 2)


@pytest.mark.parametrize("value", [[1, 2], "train.csv", None])
def test_what_is_no_frame_is_refused(value: Any) -> None:
    with pytest.raises(DataError, match="Expected a Spark DataFrame, got"):
        columns(value, "x")


def test_a_number_is_taken_for_an_input_of_one_number(people: Any, spark_context: Any) -> None:
    feeds = [FeedSpec("x", "float32", (1,)), FeedSpec("y", "float32", ())]
    source = as_source(
        spark_context, columns(people.where("number < 7"), "half", "number"), 1, feeds
    )
    assert [column.shape for column in source.columns] == [(1,), ()]
    (half, number), *_ = rows_of(source, spark_context)  # type: ignore[arg-type]
    assert half.shape == (4, 1)
    np.testing.assert_array_equal(half[:, 0], number / 2)


def test_several_columns_of_numbers_are_fed_to_an_only_input(
    people: Any, spark_context: Any
) -> None:
    feeds = [
        FeedSpec("x", "float32", (2,), part="inputs"),
        FeedSpec("y", "int64", (), part="labels"),
    ]
    good = people.where("number < 7").coalesce(1)
    source = as_source(spark_context, columns(good, ["half", "number"], "number"), 1, feeds)
    for x, y in rows_of(source, spark_context):  # type: ignore[arg-type]
        np.testing.assert_array_equal(x, np.stack([y / 2, y], axis=1))


def test_a_list_of_columns_is_fed_to_the_input_that_is_named(
    people: Any, spark_context: Any
) -> None:
    feeds = [FeedSpec(name, "float32", None, part="inputs") for name in ("left", "right")]
    described = columns(people, {"right": ["half", "number"], "left": "half"})
    assert described.mapping(feeds) == [("half", "left"), ("half, number", "right")]
    source = as_source(spark_context, described, 1, feeds)
    assert [column.shape for column in source.columns] == [(), (2,)]


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (["half", "number"], r"expected columns for 'a', 'b'"),
        (["half", "number", "half"], r"features=\{'a': \['half', 'number'\]\}"),
    ],
)
def test_more_columns_than_inputs_are_refused_with_what_to_do(
    people: Any, features: list[str], why: str
) -> None:
    feeds = [FeedSpec(name, "float32", (3,), part="inputs") for name in "ab"]
    with pytest.raises(ShapeMismatch, match=why):
        columns(people, features[1:] if len(features) == 2 else features).arranged(feeds)


def test_a_null_in_one_of_several_columns_is_a_bad_row(spark: Any, spark_context: Any) -> None:
    frame = spark.sql("select 1.0d as a, cast(null as double) as b")
    feeds = [FeedSpec("x", "float32", (2,), part="inputs")]
    source = as_source(spark_context, columns(frame, ["a", "b"]), 1, feeds)
    with pytest.raises(Exception, match=r"Column 'a, b', partition 0, row 0: .* got null"):
        rows_of(source, spark_context)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("st.a", 1.0),
        ("ST.A", 1.0),
        ("st", [1.0, 2.0]),
        (lambda: functions.col("st.b") * 2, 4.0),
        ("dec", 1.5),
        ("decs", [1.5, 2.5]),
        ("day", 86400.0),
        ("moment", 1.25),
        ("local", 2.0),
        ("flag", 1.0),
        ("dotted.name", 7.0),
    ],
)
def test_columns_are_found_as_spark_does_and_become_numbers(
    spark: Any, spark_context: Any, given: Any, expected: Any
) -> None:
    frame = spark.sql(
        """select named_struct('a', 1, 'b', 2) as st, 1.5 as dec, array(1.5, 2.5) as decs,
        timestamp_seconds(1.25) as moment, timestamp_ntz'1970-01-01 00:00:02' as local,
        date'1970-01-02' as day, true as flag, 7 as `dotted.name`"""
    )
    given = given() if callable(given) else given
    source = as_source(spark_context, columns(frame, [given]), 1, [FeedSpec("x", "float32", None)])
    ((found,),) = rows_of(source, spark_context)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found[0], expected)


def test_a_flat_array_takes_the_shape_of_the_input(people: Any, spark_context: Any) -> None:
    frame = people.selectExpr("array(1, 2, 3, 4) as x")
    feeds = [FeedSpec("x", "float32", (2, 2), part="inputs")]
    source = as_source(spark_context, columns(frame, "x"), 1, feeds)
    assert [column.shape for column in source.columns] == [(2, 2)]


def test_a_column_and_a_cast_of_it_are_two(people: Any, spark_context: Any) -> None:
    """Spark calls both by the same name."""
    half = people.where("number in (1, 2, 3)").coalesce(1)
    over = (functions.col("half") > 1).cast("int").alias("half")
    source = as_source(spark_context, columns(half, ["half"], over), 1)
    ((feature, label),) = rows_of(source, spark_context)  # type: ignore[arg-type]
    assert feature.tolist() == [0.5, 1.0, 1.5]
    assert label.tolist() == [0, 0, 1]
    both = columns(half, {"l": functions.col("half").cast("int"), "r": "half"})
    assert both.features == {"l": "half", "r": "half (2)"}


@pytest.mark.parametrize(
    ("features", "shape", "error", "text"),
    [
        (["half", "number"], (3,), ShapeMismatch, r"as many columns as 'x' .* takes, 3; got 2"),
        (["half", "pair"], (3,), DataError, r"'pair' is array<double>.*VectorAssembler"),
        (["half", "name"], (2,), DataError, r"'name' is a string: expected numbers"),
    ],
)
def test_columns_that_one_input_cannot_take_say_why(
    people: Any, features: list[str], shape: tuple[int], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        columns(people, features).stacked([FeedSpec("x", "float32", shape, part="inputs")])


def test_nested_arrays_fill_a_flat_input(people: Any, spark_context: Any) -> None:
    nested = people.select(functions.array("pair", "pair").alias("grid"), "number").coalesce(1)
    feed = FeedSpec("x", "float32", (4,), part="inputs")
    source = as_source(spark_context, columns(nested, "grid"), 1, [feed])
    ((grid,),) = rows_of(source, spark_context)  # type: ignore[arg-type]
    assert grid[2].tolist() == [2.0, 1.0, 2.0, 1.0]


def test_a_struct_with_more_than_numbers_in_it_says_to_name_its_parts(people: Any) -> None:
    deep = people.select(functions.struct("number", "pair").alias("s"))
    with pytest.raises(DataError, match=r"'s' is a struct in which 'pair' .* such as 's\.number'"):
        columns(deep, "s")


def test_one_column_is_expected_for_each_name(people: Any) -> None:
    with pytest.raises(DataError, match=r"Expected one column, got \*, which are 5"):
        columns(people, "*")


def test_a_label_in_another_case_is_no_feature(people: Any) -> None:
    from tos_notebook.data.chosen import chosen

    port = FeedSpec("x", "float32", (None,), part="inputs")
    label = FeedSpec("y", None, None, part="labels")
    found = chosen(people.select("half", "number"), None, "NUMBER").columns([port, label])
    assert (found.features, found.label) == (("half",), ("NUMBER",))
    upper = FeedSpec("HALF", "float32", (1,), part="inputs")
    assert chosen(people, None, "number").columns([upper, label]).features == ("half",)


def test_a_map_is_refused_with_what_to_do(spark: Any) -> None:
    frame = spark.sql("select map('a', 1) as m")
    with pytest.raises(DataError, match=r'F\.element_at\("m", "key"\)'):
        columns(frame, "m")
