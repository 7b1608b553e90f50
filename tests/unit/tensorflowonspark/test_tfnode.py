"""What a node's function calls, with queues of this process."""

from __future__ import annotations

import getpass
from types import SimpleNamespace

import pytest

from tos_notebook.errors import ConfigError, DataError, UnsupportedProgram
from tos_notebook.tensorflowonspark import TFManager, TFNode, util
from tos_notebook.tensorflowonspark.marker import EndPartition
from tos_notebook.tensorflowonspark.scoring import yield_batch

HOME = f"/user/{getpass.getuser()}"


@pytest.mark.parametrize(
    ("default", "path", "expected"),
    [
        *((fs, "s3a://b/x", "s3a://b/x") for fs in ("file://", "hdfs://h:1")),
        ("file://", "/x", "file:///x"),
        ("hdfs://h:1", "/x", "hdfs://h:1/x"),
        ("file://", "x", "file:///home/me/x"),
        ("hdfs://h:1", "x", f"hdfs://h:1{HOME}/x"),
        ("viewfs://", "x", f"viewfs://{HOME}/x"),
    ],
)
def test_a_path_has_its_file_system(default: str, path: str, expected: str) -> None:
    places = SimpleNamespace(defaultFS=default, working_dir="/home/me")
    assert TFNode.hdfs_path(places, path) == expected


def test_a_feed_in_training_goes_over_the_ends_of_partitions() -> None:
    hub = TFManager.start(b"", ["input"])
    for item in ([1, "a"], EndPartition(), [2, "b"], [3, "c"], None):
        hub.queue("input").put(item)
    feed = TFNode.DataFeed(hub, input_mapping={"column2": "y", "column1": "x"})
    assert feed.next_batch(2) == {"x": [1, 2], "y": ["a", "b"]}
    assert not feed.should_stop()
    assert feed.next_batch(2) == {"x": [3], "y": ["c"]}
    assert feed.should_stop()


@pytest.mark.parametrize("row", [(1,), 1, [1, 2]])
def test_a_row_with_fewer_fields_than_columns_are_mapped_is_an_error(row: object) -> None:
    hub = TFManager.start(b"", ["input"])
    hub.queue("input").put(row)
    feed = TFNode.DataFeed(hub, input_mapping={"a": "x", "b": "y", "c": "z"})
    with pytest.raises(DataError, match=r"expected rows of at least 3 fields.* got a row"):
        feed.next_batch(1)


def test_columns_that_are_not_named_with_tensors_are_refused() -> None:
    hub = TFManager.start(b"", ["input"])
    with pytest.raises(ConfigError, match=r"input_mapping: expected names.*got \['a', 'b'\]"):
        TFNode.DataFeed(hub, input_mapping=["a", "b"])  # type: ignore[arg-type]


def test_a_feed_whose_results_are_wanted_ends_a_batch_with_its_partition() -> None:
    hub = TFManager.start(b"", ["input", "output"])
    for item in (1, EndPartition(), 2, None):
        hub.queue("input").put(item)
    feed = TFNode.DataFeed(hub, train_mode=False)
    assert (feed.next_batch(9), feed.next_batch(9)) == ([1], [2])


def test_who_reads_no_more_finds_that_the_feed_has_ended() -> None:
    hub = TFManager.start(b"", ["input"])
    hub.queue("input").put(1)
    feed = TFNode.DataFeed(hub)
    feed.terminate()
    assert (feed.next_batch(1), feed.should_stop()) == ([], True)
    assert hub.get("state") == "terminating"


def test_what_tensorflow_one_had_says_what_to_call_instead() -> None:
    with pytest.raises(UnsupportedProgram, match=r"tf\.saved_model\.save"):
        TFNode.export_saved_model(None, "x", "serve", {})
    with pytest.raises(UnsupportedProgram, match=r"feed\.next_batch"):
        TFNode.next_batch(None, 1)


def test_rows_become_columns_of_so_many_each() -> None:
    rows = [(1, b"a"), (2, bytearray(b"b")), (3, b"c")]
    assert list(yield_batch(rows, 2, 2)) == [[[1, 2], [b"a", b"b"]], [[3], [b"c"]]]
    assert list(yield_batch([(1,), None, (2,)], 2)) == [[[1]]]


def test_the_number_of_gpus_is_found_in_arguments_of_any_kind() -> None:
    found = [util.requested_gpus(args) for args in ({"num_gpus": "2"}, SimpleNamespace(num_gpus=1))]
    assert found == [2, 1]
    assert util.requested_gpus(["--num_gpus", "3"]) is None
