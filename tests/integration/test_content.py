"""Data that change when Spark computes them again."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.support.watching import Watch
from tos_notebook.errors import DataError
from tos_notebook.events import MilestoneCommitted, WorkerFailed

Train = Callable[..., tos.TrainingSession]

ROWS, EPOCHS = 120, 40


def drawn(_: Any) -> float:
    """Return a number that cannot be drawn again."""
    return float(secrets.randbelow(1 << 40))


def drawn_rdd(sc: Any) -> Any:
    return sc.parallelize(range(ROWS), 2).map(lambda v: (drawn(v),))


def drawn_stream(sc: Any) -> Any:
    import tensorflow as tf

    def make(ctx: Any) -> Any:
        rows = np.array([drawn(v) for v in range(ROWS // ctx.partitions)])
        return tf.data.Dataset.from_tensor_slices(rows)

    return make


def test_rows_that_spark_cannot_read_to_the_end_are_not_trained_in_part(
    spark_context: Any, train: Train, tmp_path: Path, watch: Watch
) -> None:
    lines = "\n".join(str(drawn(0)) for _ in range(50_000))
    content = gzip.compress(lines.encode())
    (tmp_path / "0.gz").write_bytes(content)
    (tmp_path / "1.gz").write_bytes(content[: len(content) // 2])
    rdd = spark_context.textFile(f"{tmp_path}/*.gz").map(lambda line: (float(line),))
    session = train(counter(), batch_size=1000)
    with pytest.raises(tos.errors.TosError, match="Unexpected end of input stream"):
        session.run(rdd, 2, shuffle=False, sinks=[watch])
    assert 1 not in {event.partition for event in watch.of(MilestoneCommitted)}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (drawn_rdd, r"expected 60 rows with digest \w+, got 60 rows .* Cache the data"),
        (drawn_stream, r"expected the \d+ batches that are trained, got .* The function must"),
    ],
)
def test_rows_that_differ_when_a_task_is_tried_again_end_the_run(
    spark_context: Any, train: Train, watch: Watch, data: Any, expected: str
) -> None:
    session = train(counter(), combiner="downpour", batch_size=2, sync_interval=1)
    run = session.start(data(spark_context), EPOCHS, shuffle=False, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=1, at=7))
    with pytest.raises(DataError, match=rf"^Partition 1, epoch \d+: {expected}"):
        run.wait(120)
    # What was trained before is in the weights, each row once.
    samples = sum(e.samples for e in watch.of(MilestoneCommitted))
    assert run.parameters()["total"][1] == samples < EPOCHS * ROWS
    assert watch.of(WorkerFailed) == []
    assert session.run((np.arange(10.0),)).state == "finished"
