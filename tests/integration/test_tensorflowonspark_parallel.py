"""One function on each executor, and rows of a stream that go to a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.long import few
from tests.support.python_workers import own_python_workers
from tos_notebook.errors import ConfigError, WorkerError
from tos_notebook.nodes.context import NodeContext
from tos_notebook.tensorflowonspark import TFCluster, TFParallel


@pytest.fixture(scope="module")
def spark_context(spark_context: Any) -> Iterator[Any]:
    with own_python_workers(spark_context) as sc:
        yield sc


def note(args: Any, ctx: Any) -> None:
    """Write down which of how many this is."""
    Path(args["folder"], str(ctx.worker_num)).write_text(f"{ctx.num_workers} {ctx.defaultFS}")


@pytest.mark.parametrize(("count", "barrier"), few([(2, True), (3, False)], (3, False)))
def test_each_task_has_its_number(
    spark_context: Any, tmp_path: Path, count: int, barrier: bool
) -> None:
    TFParallel.run(spark_context, note, {"folder": str(tmp_path)}, count, use_barrier=barrier)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {str(number): f"{count} file://" for number in range(count)}


def test_more_than_can_start_at_once_are_refused_at_once(
    spark_context: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="at most 2"):
        TFParallel.run(spark_context, note, {"folder": str(tmp_path)}, 3)


def test_an_error_is_the_functions_own(spark_context: Any) -> None:
    def fail(args: Any, ctx: Any) -> None:
        raise ValueError("mine")

    with pytest.raises(WorkerError, match="mine") as caught:
        TFParallel.run(spark_context, fail, None, 2)
    assert 'raise ValueError("mine")' in caught.value.frames[0]
    assert spark_context.parallelize(range(10)).sum() == 45


def test_rows_of_a_stream_are_fed_until_no_node_wants_more(
    spark_context: Any, tmp_path: Path
) -> None:
    from pyspark.streaming import StreamingContext

    def main(args: Any, ctx: NodeContext) -> None:
        feed, rows = ctx.get_data_feed(), []
        while len(rows) < 30:
            rows += feed.next_batch(10)
        Path(args).write_text(str(sorted(rows)))
        feed.terminate()

    mode = TFCluster.InputMode.SPARK
    taken = tmp_path / "rows"
    cluster = TFCluster.run(spark_context, main, str(taken), 1, 0, input_mode=mode)
    # Spark ends a stream when it has made all its batches: on a busy machine they would pile up.
    stream = StreamingContext(spark_context, 1)
    try:
        parts = [spark_context.parallelize(range(n, n + 10), 2) for n in (0, 10, 20, 30)]
        cluster.train(stream.queueStream(parts))
        stream.start()
        cluster.shutdown(ssc=stream, timeout=60)
    finally:
        stream.stop(stopSparkContext=False)
    assert taken.read_text() == str(list(range(30)))


@pytest.mark.filterwarnings("ignore:DStream is deprecated")
@pytest.mark.parametrize("more", few([True, False], False), ids=["batches go on", "no batch comes"])
def test_a_node_that_fails_ends_the_wait_of_a_program_for_its_stream(
    spark_context: Any, more: bool
) -> None:
    from pyspark.streaming import StreamingContext

    def main(args: Any, ctx: Any) -> None:
        ctx.get_data_feed().next_batch(3)
        raise ValueError("mine")

    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(spark_context, main, None, 1, 0, input_mode=mode)
    stream = StreamingContext(spark_context, 0.2)
    batch = spark_context.parallelize([1, 2, 3], 1)
    cluster.train(stream.queueStream([batch], default=batch if more else None))
    stream.start()
    assert stream.awaitTerminationOrTimeout(60)
    with pytest.raises(WorkerError, match="ValueError: mine"):
        cluster.shutdown(timeout=60)
    assert spark_context.parallelize(range(10)).sum() == 45
