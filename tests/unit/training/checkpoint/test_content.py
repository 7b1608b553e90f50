"""A run continues with the rows that it was trained on, and with no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.unit.training.checkpoint.test_writer import Disk, origin
from tests.unit.worker.support import Frail, Served, center, counting_training, numbers
from tests.unit.worker.test_content import BATCH, OTHERS, ROWS, work
from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.common.content import content_of
from tos_notebook.coordination.job_span import DataLayout
from tos_notebook.coordination.snapshots import BEGINNING
from tos_notebook.data.arrays import ArraySource
from tos_notebook.data.rdd import RddSource
from tos_notebook.data.stream import StreamSource
from tos_notebook.errors import CheckpointError, ClusterUnreachable, DataError, TransportError
from tos_notebook.persist.sealed import decode, encode
from tos_notebook.steering.trigger import Trigger
from tos_notebook.training.checkpoint.contents import Checkpoint, from_sealed, to_parts
from tos_notebook.training.checkpoint.data import (
    check_content,
    check_earlier,
    check_same,
    read_data,
    write_data,
)
from tos_notebook.training.checkpoint.folder import Folder
from tos_notebook.training.factory import RunFactory
from tos_notebook.training.options import RunOptions, SessionOptions
from tos_notebook.training.run_plan import RunPlan
from tos_notebook.training.run_request import RunRequest


def saved(kind: str, pushes: int) -> Checkpoint:
    """Return the checkpoint of a run of one epoch whose worker has died after some pushes."""
    training, _ = counting_training(rows=ROWS)
    served = Served(training)
    with pytest.raises(TransportError):
        work(served, kind, numbers(ROWS), connection=Frail(served.connect(), pushes - 1, True))
    served.close()
    snapshot = training.snapshot()
    assert snapshot is not None
    value, arrays = to_parts(origin(stored=False), snapshot, None, ())
    return from_sealed(decode(encode({}, value, arrays), "file"), "file")


def resumed(checkpoint: Checkpoint) -> tuple[Any, Served]:
    training, _ = counting_training(rows=ROWS)
    training.restore(checkpoint.progress)
    return training, Served(training)


@pytest.mark.parametrize("kind", ["held", "streamed"])
def test_a_resumed_run_with_the_same_rows_continues_exactly(kind: str) -> None:
    training, served = resumed(saved(kind, 3))
    work(served, kind, numbers(ROWS))
    served.close()
    assert center(training) == {"total": numbers(ROWS).sum(), "rows": ROWS}
    assert training.snapshot() is not None


# Of a stream, only what was trained can be compared.
@pytest.mark.parametrize(
    ("kind", "other"),
    [*(("held", other) for other in OTHERS), ("streamed", "order"), ("streamed", "values")],
)
def test_a_resumed_run_does_not_train_on_other_rows(kind: str, other: str) -> None:
    training, served = resumed(saved(kind, 4))
    program = work(served, kind, OTHERS[other])
    served.close()
    assert program.batches == []
    assert isinstance(training.error, DataError)
    assert center(training)["rows"] == 4 * BATCH


def test_nothing_is_saved_before_every_stream_has_shown_that_it_is_the_same() -> None:
    """A stream that was committed in part is confirmed; one that has ended need not be."""
    training, served = resumed(saved("streamed", 3))
    assert training.snapshot() is None
    work(served, "streamed", OTHERS["order"])
    served.close()
    assert training.snapshot() is None
    with pytest.raises(CheckpointError, match=r"partitions \[0\]. No checkpoint has the"):
        training.snapshot(last=True)
    training, served = resumed(saved("streamed", 3))
    with pytest.raises(TransportError):
        work(served, "streamed", numbers(ROWS), connection=Frail(served.connect(), 0, True))
    served.close()
    assert training.snapshot() is not None


class Rows:
    """Stands for rows in partitions."""

    remedy = "Cache."

    def __init__(self, *partitions: Any) -> None:
        self._partitions = partitions

    def contents(self, sc: Any, partitions: Any) -> list[Any]:
        return [content_of((self._partitions[partition],)) for partition in partitions]


def test_the_first_partition_that_differs_is_named() -> None:
    checkpoint = saved("held", 1)
    known = content_of((numbers(ROWS),))
    ledger = dict(checkpoint.progress.ledger)
    held = [[0, *known], [1, *known], [2, *known]]
    ledger["contents"] = {"held": held, "earlier": [], "streamed": [], "begun": []}
    checkpoint = replace(checkpoint, progress=replace(checkpoint.progress, ledger=ledger))
    same: Any = Rows(*[numbers(ROWS)] * 3)
    check_content(None, same, checkpoint)
    other: Any = Rows(numbers(ROWS), numbers(ROWS - 1), OTHERS["order"])
    found = content_of((numbers(ROWS - 1),))
    with pytest.raises(DataError) as caught:
        check_content(None, other, checkpoint)
    assert str(caught.value) == (
        "run-1 continues only with the data that it began with: partition 1: expected 11 rows "
        f"with digest {known.digest[:8]}, got 10 rows with digest {found.digest[:8]}, and 1 more "
        "partitions differ. Give the same data, in the same partitions and order; the run is as "
        "it was. Cache."
    )


def unread(kind: type[Any]) -> Any:
    """Return a source of which no row is read."""
    source = object.__new__(kind)
    source.columns, source.partitions, source.samples = (ColumnSpec("float64", ()),), 2, None
    return source


@pytest.mark.parametrize(("stream", "source"), [(False, StreamSource), (True, RddSource)])
def test_a_function_and_rows_do_not_stand_for_each_other(stream: bool, source: Any) -> None:
    begun = origin(stored=False, rows=None, stream=stream)
    with pytest.raises(DataError, match=f"expected data of the same kind, got {source.__name__}"):
        check_same(unread(source), begun)


def test_before_a_new_layout_is_loaded_the_earlier_one_is_compared() -> None:
    training, _ = counting_training(rows=ROWS, epochs=1)
    served, rows = Served(training), numbers(ROWS)
    work(served, "held", rows)
    served.close()
    layout = DataLayout(2, RandomPartitioner(2), 1)
    training.begin_span(ArraySource((rows,), 1).repartition(*layout), 1, 1, layout)
    snapshot = training.snapshot()
    assert snapshot is not None
    value, arrays = to_parts(origin(stored=False), snapshot, None, ())
    checkpoint = from_sealed(decode(encode({}, value, arrays), "file"), "file")
    assert checkpoint.progress.reached.earlier is None
    check_earlier(None, ArraySource((rows,), 1), checkpoint)
    with pytest.raises(DataError, match="partition 0: expected 11 rows with digest"):
        check_earlier(None, ArraySource((rows[::-1],), 1), checkpoint)


def test_arrays_are_compared_with_those_that_the_run_began_with() -> None:
    x = np.arange(100.0)
    begun = origin(content=content_of((x,)).digest)
    check_same(ArraySource((x.copy(),), 2), begun)
    with pytest.raises(DataError, match="values or order differ"):
        check_same(ArraySource((x[::-1],), 2), begun)
    with pytest.raises(DataError, match="expected arrays, got RddSource"):
        check_same(unread(RddSource), begun)


def test_arrays_are_compared_with_what_the_workers_were_served() -> None:
    training, _ = counting_training(rows=ROWS)
    served = Served(training)
    served.work(Counting(), columns=1)
    served.close()
    snapshot = training.snapshot()
    assert snapshot is not None
    value, arrays = to_parts(origin(), snapshot, None, ())
    checkpoint = from_sealed(decode(encode({}, value, arrays), "file"), "file")
    check_content(None, ArraySource((numbers(ROWS),), 1), checkpoint)
    with pytest.raises(DataError, match="partition 0: expected 11 rows with digest"):
        check_content(None, ArraySource((numbers(ROWS) / 255,), 1), checkpoint)


def test_a_spark_that_is_gone_while_rows_are_compared_is_named() -> None:
    class Elsewhere(ArraySource):
        def rows(self, partition: int) -> Any:
            return None

        def tasks(self, sc: Any) -> Any:
            return None

    def refused(*_: Any) -> Any:
        raise ConnectionRefusedError("[Errno 111] Connection refused")

    gone = SimpleNamespace(runJob=refused)
    with pytest.raises(ClusterUnreachable, match=r"The Spark job failed: .*refused"):
        check_content(gone, Elsewhere((numbers(ROWS),), 1), saved("held", 2))


def test_arrays_are_saved_before_the_caller_can_change_them(tmp_path: Path) -> None:
    x, archive = np.arange(100.0), tmp_path / "archive"
    archive.write_bytes(b"program")
    (tmp_path / "run").mkdir()
    program: Any = SimpleNamespace(export=lambda columns: archive, learning_rate=None)
    storage: Any = SimpleNamespace(inside=lambda name: Disk(tmp_path / name))
    unused: Any = None
    factory = RunFactory(
        unused,
        program,
        storage,
        unused,
        "",
        unused,
        SessionOptions().checked(),
        unused,
    )
    settings = counting_training()[0].settings
    plan, source = RunPlan(RunOptions(), 2), ArraySource((x,), 2)
    request = RunRequest("run", plan, settings, source, BEGINNING, ())
    checkpointer = factory.checkpointer(request, Trigger(milestones=1))
    x /= 255
    saved = read_data(checkpointer.folder, checkpointer._origin).arrays[0]
    np.testing.assert_array_equal(saved, np.arange(100.0))


def test_a_file_of_other_arrays_than_the_run_began_with_is_refused(tmp_path: Path) -> None:
    folder, x = Folder(Disk(tmp_path)), np.arange(100.0)
    begun = origin(content=content_of((x,)).digest)
    write_data(folder, (x,))
    np.testing.assert_array_equal(read_data(folder, begun).arrays[0], x)
    write_data(folder, (x / 255,))
    with pytest.raises(CheckpointError, match=r"data.tos: expected arrays with digest .* give the"):
        read_data(folder, begun)
