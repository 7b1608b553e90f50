"""TFRecord files, as the blocks that tasks get."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tos_notebook.cluster.files import list_files
from tos_notebook.data.records import tfrecords
from tos_notebook.data.source import as_source
from tos_notebook.errors import ConfigError, DataError


def parse(record: Any) -> Any:
    import tensorflow as tf

    spec = {
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "y": tf.io.FixedLenFeature([], tf.int64),
    }
    found = tf.io.parse_single_example(record, spec)
    return found["x"], found["y"]


def write(path: Path, numbers: Iterable[int], bad: Mapping[int, list[float]] | None = None) -> None:
    """Write records of x = [n, -n] and y = n, but for the x of some."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as file:
        for n in numbers:
            x = (bad or {}).get(n, [n, -n])
            features = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[n])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            file.write(example.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, of which the second is empty, and what Spark leaves beside its own."""
    made = tmp_path_factory.mktemp("records")
    for number, numbers in enumerate([range(1500), range(0), range(1500, 1510)]):
        write(made / f"part-{number}.tfrecord", numbers)
    (made / "_SUCCESS").touch()
    return made


def test_files_are_split_by_name_and_read_in_its_order(folder: Path, spark_context: Any) -> None:
    source = as_source(spark_context, tfrecords(f"file:{folder}", parse, partitions=2), 9)
    assert [(c.dtype, c.shape) for c in source.columns] == [("float32", (2,)), ("int64", ())]
    for _ in range(2):
        first, second = source.tasks(spark_context).glom().collect()
        assert second == []
        x, y = (np.concatenate(column) for column in zip(*first, strict=True))
        assert y.tolist() == list(range(1510))
        np.testing.assert_array_equal(x[:, 1], -y)


def test_a_damaged_file_is_named(folder: Path, spark_context: Any, tmp_path: Path) -> None:
    content = bytearray((folder / "part-2.tfrecord").read_bytes())
    content[40] ^= 1
    (tmp_path / "bad.tfrecord").write_bytes(content)
    tasks = as_source(spark_context, tfrecords(str(tmp_path), parse), 1).tasks(spark_context)
    with pytest.raises(Exception, match=r"DataError: file:.*bad\.tfrecord is damaged"):
        tasks.count()


def refused(blocks: Iterator[Any]) -> Iterator[str]:
    """Say in the task what ends it: Spark would begin it three times more, each with TensorFlow."""
    try:
        for _ in blocks:
            pass
    except DataError as error:
        yield f"DataError: {error}"


def test_a_record_that_lacks_a_feature_is_named_with_its_file(
    folder: Path, spark_context: Any
) -> None:
    def other(record: Any) -> Any:
        import tensorflow as tf

        return tf.io.parse_single_example(record, {"z": tf.io.FixedLenFeature([], tf.int64)})["z"]

    source = as_source(spark_context, tfrecords(f"{folder}/part-2*", other), 1)
    [said] = source.tasks(spark_context).mapPartitions(refused).collect()
    assert re.search(r"part-2\.tfrecord, record 0: cannot be parsed: .*z", said)


class Classes:
    """A feed of labels."""

    def __init__(self, name: str, classes: int | None, dtype: str | None = None) -> None:
        self.name, self.classes, self.dtype = name, classes, dtype
        self.shape = None


def test_bad_records_are_named_with_file_number_and_feed(
    spark_context: Any, tmp_path: Path
) -> None:
    for numbers, bad, classes, message in (
        (range(3), {1: [0.0, np.nan]}, 5, r"record 1, feed 'image': expected finite .*, got nan"),
        (range(6), {}, 5, r"record 5, feed 'label': expected whole labels from 0 to 4, got 5"),
        (range(300), {}, None, r"record 128, feed 'label': expected integers .*int8\), got 128"),
        (range(1500), {1100: [1.0]}, 1500, r"record 1100: cannot be parsed: .*x"),
    ):
        write(tmp_path / "a.tfrecord", numbers, bad)
        feeds = [
            Classes("image", None),
            Classes("label", classes, "int8" if classes is None else None),
        ]
        source = as_source(spark_context, tfrecords(str(tmp_path), parse), 1, feeds)
        [said] = source.tasks(spark_context).mapPartitions(refused).collect()
        assert re.match(rf"DataError: file:.*a\.tfrecord, {message}", said)


def test_bad_records_are_left_out_and_counted(spark_context: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", range(1200), {3: [np.inf, 0.0], 4: [1.0], 1199: []})
    write(tmp_path / "b.tfrecord", range(10), {7: [np.nan, 0.0]})
    feeds = [Classes("image", None), Classes("label", 1190)]
    given = tfrecords(str(tmp_path), parse, partitions=1, on_bad="skip")
    source = as_source(spark_context, given, 1, feeds)
    blocks = source.tasks(spark_context).collect()
    labels = np.concatenate([y for _, y in blocks])
    good = [n for n in range(1190) if n not in (3, 4)] + [n for n in range(10) if n != 7]
    assert labels.tolist() == good
    found = {skipped.column: skipped for skipped in source.skipped}
    assert {column: (s.rows, s.first) for column, s in found.items()} == {
        "image": (2, 3),
        "label": (9, 1190),
        "record": (2, 4),
    }
    assert "got inf in file:" in found["image"].reason
    assert sum(s.rows for s in source.skipped) + len(good) == 1210


def test_what_a_bad_record_does_is_raise_or_skip() -> None:
    with pytest.raises(ConfigError, match=r"on_bad: expected one of raise, skip"):
        tfrecords("x", parse, on_bad="ignore")


def test_files_are_those_of_a_pattern_a_folder_or_a_name(folder: Path, spark_context: Any) -> None:
    every = list_files(spark_context, str(folder))
    assert [uri.rsplit("/", 1)[1] for uri in every] == [f"part-{n}.tfrecord" for n in range(3)]
    assert list_files(spark_context, f"{folder}/*-[02].tfrecord") == [every[0], every[2]]
    assert list_files(spark_context, f"{folder}/part-1.tfrecord") == [every[1]]


@pytest.mark.parametrize(
    ("uri", "text"),
    [("{}/nothing*", "found none"), ("nofs:///x", "Cannot look for files at .nofs:///x")],
)
def test_what_is_not_there_is_named(folder: Path, spark_context: Any, uri: str, text: str) -> None:
    with pytest.raises(DataError, match=text):
        list_files(spark_context, uri.format(folder))


def test_partitions_below_one_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"partitions.*at least 1.*0"):
        tfrecords("x", parse, partitions=0)


def test_records_of_unknown_shapes_are_refused(spark_context: Any) -> None:
    import tensorflow as tf

    with pytest.raises(DataError, match="numbers or text, of known shapes"):
        as_source(spark_context, tfrecords("x", lambda r: tf.io.decode_raw(r, tf.uint8)), 1)
