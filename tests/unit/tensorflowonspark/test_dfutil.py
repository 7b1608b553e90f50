"""DataFrames as TFRecord files, and files as DataFrames, without TensorFlow's jar for Hadoop."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tos_notebook.errors import ConfigError, DataError
from tos_notebook.tensorflowonspark import dfutil

TYPES = "a string, b bigint, c array<bigint>, d double, e array<float>, f binary, g boolean"
ROW = ("täxt ✓", -1, [2, 3], -1.5, [-2.5, 3.5], bytearray(b"\xff\xfe"), True)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "records")


def example(**features: Any) -> Any:
    """Return an example of lists of integers, floats or bytes; None for a missing one."""
    import tensorflow as tf

    made = {}
    for name, values in features.items():
        if values is None:
            made[name] = tf.train.Feature()
        elif isinstance(values[0], bytes):
            made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature=made))


def write(path: Path, *examples: Any, compression: str = "") -> None:
    """Write examples as TensorFlow does."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path), compression) as file:
        for one in examples:
            file.write(one.SerializeToString())


def values(df: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.collect()]


def test_rows_of_all_types_come_back(spark: Any, folder: str) -> None:
    frame = spark.createDataFrame([ROW], TYPES)
    dfutil.saveAsTFRecords(frame, folder)
    found = dfutil.loadTFRecords(spark.sparkContext, folder, binary_features=["f"])
    assert values(found) == [(*ROW[:6], 1)]
    assert [t for _, t in found.dtypes] == [
        *("string", "bigint", "array<bigint>", "double", "array<double>", "binary", "bigint")
    ]


def test_only_what_was_loaded_is_a_loaded_frame(spark: Any, folder: str) -> None:
    frame = spark.createDataFrame([(1,), (2,)], ["x"])
    dfutil.saveAsTFRecords(frame, folder)
    found = dfutil.loadTFRecords(spark.sparkContext, folder)
    assert dfutil.isLoadedDF(found)
    assert dfutil.loadedDF[found] == folder
    assert not dfutil.isLoadedDF(frame)
    assert not dfutil.isLoadedDF(found.filter("x > 1"))


def test_rows_keep_their_order_over_many_partitions_some_of_them_empty(
    spark: Any, folder: str
) -> None:
    rows = spark.sparkContext.parallelize([(n,) for n in range(5)], 9)
    dfutil.saveAsTFRecords(spark.createDataFrame(rows, "n bigint"), folder)
    names = sorted(path.name for path in Path(folder).iterdir() if path.suffix != ".crc")
    assert names == ["_SUCCESS", *(f"part-r-{n:05d}" for n in range(9))]
    found = dfutil.loadTFRecords(spark.sparkContext, f"file:{folder}")
    assert found.rdd.getNumPartitions() == 5
    assert [n for (n,) in values(found)] == [0, 1, 2, 3, 4]


def test_tensorflow_reads_what_was_saved(spark: Any, folder: str) -> None:
    import tensorflow as tf

    dfutil.saveAsTFRecords(spark.createDataFrame([ROW, ROW], TYPES).coalesce(1), folder)
    records = list(tf.data.TFRecordDataset(f"{folder}/part-r-00000").as_numpy_iterator())
    assert len(records) == 2
    features = tf.train.Example.FromString(records[1]).features.feature
    assert features["a"].bytes_list.value == ["täxt ✓".encode()]
    assert features["e"].float_list.value == [-2.5, 3.5]
    assert features["g"].int64_list.value == [1]


def test_nulls_and_empty_arrays_come_back_as_themselves(spark: Any, folder: str) -> None:
    rows = [("x", 1, [1, 2], b"y"), (None, None, [], None), (None, 3, None, b"")]
    types = "a string, b bigint, c array<bigint>, d binary"
    dfutil.saveAsTFRecords(spark.createDataFrame(rows, types).coalesce(1), folder)
    found = dfutil.loadTFRecords(spark.sparkContext, folder, ["d"])
    assert values(found) == rows


def test_a_null_takes_the_default_that_tensorflow_is_given(spark: Any, folder: str) -> None:
    import tensorflow as tf

    dfutil.saveAsTFRecords(spark.createDataFrame([(None,)], "x float").coalesce(1), folder)
    data = next(iter(tf.data.TFRecordDataset(f"{folder}/part-r-00000").as_numpy_iterator()))
    spec = {"x": tf.io.FixedLenFeature([], tf.float32, default_value=7.0)}
    assert tf.io.parse_single_example(data, spec)["x"] == 7.0


def test_arrays_may_be_of_different_lengths_one_and_none_among_them(
    spark: Any, folder: str
) -> None:
    rows = [([1.0],), ([1.0, 2.0, 3.0],), ([],)]
    dfutil.saveAsTFRecords(spark.createDataFrame(rows, "x array<double>").coalesce(1), folder)
    assert values(dfutil.loadTFRecords(spark.sparkContext, folder)) == rows


def test_vectors_dense_and_sparse_are_saved_as_numbers(spark: Any, folder: str) -> None:
    from pyspark.ml.linalg import Vectors

    rows = [(Vectors.dense([1.0, 2.0]),), (Vectors.sparse(3, {1: 5.0}),)]
    dfutil.saveAsTFRecords(spark.createDataFrame(rows, ["v"]).coalesce(1), folder)
    found = dfutil.loadTFRecords(spark.sparkContext, folder)
    assert values(found) == [([1.0, 2.0],), ([0.0, 5.0, 0.0],)]


def test_arrays_of_texts_and_bytes_come_back(spark: Any, folder: str) -> None:
    rows = [(["a", "ü"], [bytearray(b"\xff"), bytearray(b"")])]
    dfutil.saveAsTFRecords(spark.createDataFrame(rows, "s array<string>, b array<binary>"), folder)
    found = dfutil.loadTFRecords(spark.sparkContext, folder, binary_features=["b"])
    assert values(found) == [(rows[0][1], rows[0][0])]


def test_files_of_others_are_read_gzipped_ones_too(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", example(x=[1], y=[0.5]))
    write(tmp_path / "b.tfrecord.gz", example(x=[2]), example(x=[3]), compression="GZIP")
    (tmp_path / "_SUCCESS").touch()
    found = dfutil.loadTFRecords(spark.sparkContext, str(tmp_path))
    assert values(found) == [(1, 0.5), (2, None), (3, None)]
    both = f"{tmp_path}/a.tfrecord,{tmp_path}/{{b,c}}.tfrecord.gz"
    assert values(dfutil.loadTFRecords(spark.sparkContext, both).select("x")) == [(1,), (2,), (3,)]


def test_a_frame_without_rows_is_saved_and_says_so_when_it_is_loaded(
    spark: Any, folder: str
) -> None:
    dfutil.saveAsTFRecords(spark.createDataFrame([], "x bigint"), folder)
    assert Path(folder, "_SUCCESS").exists()
    with pytest.raises(DataError, match=r"at least one record in .*records, found none"):
        dfutil.loadTFRecords(spark.sparkContext, folder)


def test_a_folder_that_exists_is_refused_and_left_alone(spark: Any, folder: str) -> None:
    Path(folder).mkdir()
    Path(folder, "mine").write_text("kept")
    with pytest.raises(ConfigError, match=r"new folder .*records already\. Choose another"):
        dfutil.saveAsTFRecords(spark.createDataFrame([(1,)], ["x"]), folder)
    assert [path.name for path in Path(folder).iterdir()] == ["mine"]


def test_files_that_are_not_there_are_named(spark: Any, folder: str) -> None:
    with pytest.raises(DataError, match=r"Input path does not exist: file:.*records"):
        dfutil.loadTFRecords(spark.sparkContext, folder)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (3, r"bad\.tfrecord: the record at byte \d+ is damaged: the checksum of its length"),
        (-6, r"bad\.tfrecord: the record at byte \d+ is damaged: its checksum is wrong"),
    ],
    ids=["length", "content"],
)
def test_a_damaged_record_is_named_with_its_file_and_place(
    spark: Any, tmp_path: Path, place: int, expected: str
) -> None:
    path = tmp_path / "bad.tfrecord"
    write(path, example(x=[1]))
    first = path.stat().st_size
    write(path, example(x=[1]), example(x=[2]))
    content = bytearray(path.read_bytes())
    content[first + place if place > 0 else place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=expected.replace(r"\d+", str(first))):
        dfutil.loadTFRecords(spark.sparkContext, str(path))


def test_a_file_that_was_cut_off_is_named(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "short"
    write(path, example(x=[1]))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match="short: the record at byte 0 ends too early"):
        dfutil.loadTFRecords(spark.sparkContext, str(path))


def test_a_gzipped_file_without_its_ending_is_told(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "x", example(x=[1]), compression="GZIP")
    with pytest.raises(DataError, match=r"The file is gzipped: let its name end with \.gz"):
        dfutil.loadTFRecords(spark.sparkContext, str(tmp_path / "x"))


def test_a_damaged_gzipped_file_is_named(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "x.gz", example(x=[1]))
    content = gzip.compress((tmp_path / "x.gz").read_bytes())
    (tmp_path / "x.gz").write_bytes(content[:-12])
    with pytest.raises(DataError, match=r"x\.gz: the record at byte 0 of what it unpacks to"):
        dfutil.loadTFRecords(spark.sparkContext, str(tmp_path / "x.gz"))


def test_bytes_that_are_no_text_say_how_to_name_them() -> None:
    record = bytearray(example(image=[b"\xff\xfe"]).SerializeToString()), None
    with pytest.raises(DataError, match=r"binary_features=\['image'\]"):
        next(dfutil.fromTFExample([record]))
    assert next(dfutil.fromTFExample([record], ["image"])).image == bytearray(b"\xff\xfe")


def test_records_that_are_no_examples_are_told(spark: Any, tmp_path: Path) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(tmp_path / "x")) as file:
        file.write(b"\x07\x07\x07")
    with pytest.raises(DataError, match="one of 3 bytes that is not"):
        dfutil.loadTFRecords(spark.sparkContext, str(tmp_path / "x"))


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("x date", "Column 'x': expected numbers, .* got date"),
        ("x struct<a: int>", r"got struct<a:int>"),
        ("x array<array<int>>", r"got array<array<int>>"),
        ("x int, y int, x string", "different names, got x twice"),
    ],
)
def test_what_no_feature_can_hold_is_refused_before_anything_is_written(
    spark: Any, folder: str, types: str, expected: str
) -> None:
    with pytest.raises(DataError, match=expected):
        dfutil.saveAsTFRecords(spark.createDataFrame([], types), folder)
    assert not Path(folder).exists()


def test_a_null_within_an_array_is_told() -> None:
    with pytest.raises(DataError, match=r"Column 'x': .* no nulls"):
        next(dfutil.toTFExample([("x", "array<int>")])([{"x": [1, None]}]))


def test_each_row_is_there_once_when_a_task_is_tried_again(
    spark: Any, folder: str, tmp_path: Path
) -> None:
    mark = tmp_path / "failed"

    def once(partition: int, rows: Iterator[Any]) -> Iterator[Any]:
        yield from rows
        # The first record is looked at before the job.
        if partition == 1 and not mark.exists():
            mark.touch()
            raise RuntimeError("lost")

    rows = spark.sparkContext.parallelize([(n,) for n in range(100)], 2)
    frame = spark.createDataFrame(rows.mapPartitionsWithIndex(once), "n bigint")
    dfutil.saveAsTFRecords(frame, folder)
    assert mark.exists()
    found = dfutil.loadTFRecords(spark.sparkContext, folder)
    assert [n for (n,) in values(found)] == list(range(100))


def test_examples_and_rows_are_made_of_each_other_without_files(spark: Any) -> None:
    frame = spark.createDataFrame([ROW], TYPES)
    records = list(dfutil.toTFExample(frame.dtypes)(frame.collect()))
    assert [(type(key), value) for key, value in records] == [(bytearray, None)]
    (row,) = dfutil.fromTFExample(records, binary_features=["f"])
    assert row.asDict() == {**dict(zip("abcdef", ROW, strict=False)), "g": 1}


def test_a_schema_is_inferred_of_one_example() -> None:
    found = dfutil.infer_schema(
        example(b=[1], a=[b"x", b"y"], c=[0.5, 1.0], d=None, e=[b"\xff"]), binary_features=["e"]
    )
    assert found.simpleString() == (
        "struct<a:array<string>,b:bigint,c:array<double>,d:string,e:binary>"
    )
