"""All jobs of a run are in the scheduling pool of the thread that starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

import tos_notebook as tos
from tests.integration.conftest import counter
from tos_notebook.cluster.jobs import POOL


@pytest.fixture
def pooled(spark_context: Any) -> Iterator[Any]:
    spark_context.setLocalProperty(POOL, "mine")
    yield spark_context
    spark_context.setLocalProperty(POOL, None)


def test_every_job_of_a_run_is_in_the_pool_of_its_caller(pooled: Any, tmp_path: Path) -> None:
    def note(row: float) -> tuple[float]:
        context = TaskContext.get()
        assert context is not None
        (tmp_path / f"{context.stageId()} {context.getLocalProperty(POOL)}").touch()
        return (row,)

    rows = pooled.parallelize([float(n) for n in range(40)], 2).map(note)
    with tos.TrainingSession(pooled, counter(), sync_interval=1, batch_size=5) as session:
        session.run(rows, 2, repartition_every=1, validation_data=rows, validation_on="executors")
    stages = sorted(path.name for path in tmp_path.iterdir())
    assert len(stages) >= 4
    assert {name.partition(" ")[2] for name in stages} == {"mine"}, stages
