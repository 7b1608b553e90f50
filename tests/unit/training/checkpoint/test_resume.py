"""Saved runs on a real Spark: found, looked at and resumed in the same process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.unit.training.checkpoint.test_writer import of_another_rule
from tos_notebook.cluster.storage import Storage
from tos_notebook.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    InvalidTransition,
    ShapeMismatch,
    UnsupportedProgram,
)
from tos_notebook.events import Event, MilestoneCommitted, RunResumed
from tos_notebook.training.checkpoint.folder import Folder, checkpoint
from tos_notebook.training.saved import SavedRun, SavedRuns

X = np.arange(1.0, 1001)

LIMIT = 300.0


class Halve:
    """A user's own combiner: what it has added so far counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def compute(self, origin_weight: Any, new_weight: Any, worker_id: int, name: str) -> Any:
        self.calls += 1
        return (origin_weight + new_weight) / 2


@pytest.fixture(scope="module")
def stopped(spark_context: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a run that was stopped in its first epoch."""
    return stop_early(spark_context, tmp_path_factory.mktemp("runs"), (X,))


def stop_early(sc: Any, folder: Path, data: Any, split: float | None = None, **options: Any) -> str:
    settings: dict[str, Any] = {"combiner": "downpour", "batch_size": 5} | options
    reached = threading.Event()

    def sink(event: Event) -> None:
        if isinstance(event, MilestoneCommitted) and event.version >= 30:
            reached.set()

    with tos.TrainingSession(
        sc, counter(), sync_interval=1, checkpoint_dir=str(folder), **settings
    ) as session:
        run = session.start(
            data, 3, checkpoint_every=10, sinks=[sink], name="short", validation_split=split
        )
        assert reached.wait(LIMIT)
        run.stop()
    assert run.uri is not None
    return run.uri


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No thread outlives a run that was resumed: it closes its own session."""
    before = {t for t in threading.enumerate() if t.name.startswith("tos-")}
    yield
    left = {t for t in threading.enumerate() if t.name.startswith("tos-")} - before
    assert not left


def test_a_saved_run_is_listed_looked_at_and_resumed(spark_context: Any, stopped: str) -> None:
    parent = stopped.rsplit("/", 1)[0]
    (found,) = listed = tos.runs(parent, spark=spark_context)
    assert isinstance(listed, SavedRuns)
    assert isinstance(found, SavedRun)
    assert (found.state, found.epochs, found.uri) == ("stopped", 3, stopped)
    assert found.milestones == len(found.history) >= 30
    assert found.size > 0
    assert found.run in repr(listed)
    assert found.name == "short"
    assert [(row["command"], row["state"]) for row in found.events] == [("stop", "in force")]
    assert found.settings.combiner == "downpour"
    assert len(found.figure().data) > 0
    events: list[Event] = []
    model = counter()
    run = found.resume(spark=spark_context, program=model, sinks=[events.append])
    run.pause()
    with pytest.raises(InvalidTransition, match="trains in this process"):
        tos.resume(stopped, spark=spark_context)
    run.unpause()
    run.wait(LIMIT)
    assert (run.run_id, run.name) == (found.run, "short")
    assert run.parameters()["total"].tolist() == [3 * X.sum(), 3 * len(X)]
    # The model that was given has the weights, too, and evaluates.
    assert model.layout.tensors(model.read())["total"].tolist() == [3 * X.sum(), 3 * len(X)]
    assert run.evaluate(X)["loss"] == pytest.approx(X.mean())
    assert run.history["version"].tolist() == list(range(1, 601))
    table = tos.compare(found, run).table
    assert table.index.tolist() == [f"short ({found.run})", f"short (run {run.number})"]
    settings = table.columns[: table.columns.tolist().index("loss")]
    # The folder has by now what the run that continued has done.
    assert settings.tolist() == []
    assert isinstance(events[0], RunResumed)
    assert min(e.version for e in events if isinstance(e, MilestoneCommitted)) > found.milestones
    with pytest.raises(InvalidTransition, match="3 epochs are done, of 3"):
        # The run itself stands for its folder.
        tos.resume(run, spark=spark_context)
    more = tos.resume(found, spark=spark_context, epochs=4, name="long").wait(LIMIT)
    assert more.name == "long"
    assert more.parameters()["total"].tolist() == [4 * X.sum(), 4 * len(X)]
    with pytest.raises(UnsupportedProgram, match="resumed without its model"):
        more.evaluate(X)


def test_a_damaged_checkpoint_costs_no_batch_and_counts_none_twice(
    spark_context: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest one does not restore, the one before it was cut off, and a third goes on.

    Of a round of pushes that the combiner collects, none is lost or comes twice.
    """
    # Four pushes make a step of four times their mean: every change in full, and exactly. All
    # pushes of a run make whole rounds, unless one was lost, or its round was, or came twice.
    rounds = tos.combiners.get("slowmo", k=4, lr=4.0, momentum=0.0)
    uri = stop_early(spark_context, tmp_path, (X,), combiner=rounds)
    files = sorted(Path(uri.removeprefix("file:")).glob("checkpoint-*"))
    folder = Folder(Storage(spark_context, uri))
    newest = folder.numbers()[-1] + 1
    folder.storage.write(checkpoint(newest), files[-1])
    of_another_rule(folder, newest)
    files[-1].write_bytes(files[-1].read_bytes()[:-9])
    last = int(tos.runs(str(tmp_path), spark=spark_context)[0].milestones)
    run = tos.resume(uri, spark=spark_context)
    assert run.status.milestones <= last
    told = f"{checkpoint(newest)} cannot be restored, so {files[-2].name} is"
    assert told in caplog.text
    run.wait(LIMIT)
    # It stays in the notes of the run that continued, and so does the one that was cut off.
    assert any(told in note for note in run.status.notes)
    (cut,) = (note for note in run.status.notes if files[-1].name in note)
    assert cut.endswith(f"So {files[-2].name} is restored.")
    assert run.parameters()["total"].tolist() == [3 * X.sum(), 3 * len(X)]
    assert run.history["version"].tolist() == list(range(1, 601))


def test_a_users_combiner_and_an_rdd_are_asked_for_and_checked(
    spark_context: Any, tmp_path: Path
) -> None:
    records = [(value,) for value in X]
    data = spark_context.parallelize(records, 2)
    uri = stop_early(spark_context, tmp_path, data, combiner=Halve())

    def resume(*args: Any, **options: Any) -> tos.Run:
        return tos.resume(uri, *args, spark=spark_context, **options)

    with pytest.raises(CheckpointError, match="your own combiner, Halve: pass it"):
        resume(data)
    with pytest.raises(ConfigError, match="expected Halve, a combiner of your own"):
        resume(data, combiner="easgd")
    with pytest.raises(DataError, match="Give them again"):
        resume(combiner=Halve())
    with pytest.raises(DataError, match="expected partitions 2, got 3"):
        resume(spark_context.parallelize(records, 3), combiner=Halve())
    with pytest.raises(ShapeMismatch, match="Expected a model with the saved run's parameters"):
        resume(data, combiner=Halve(), program=_other())
    # A resume that fails leaves a process that still trains it in charge.
    place = Path(uri.removeprefix("file:"))
    assert [path.name for path in place.glob("owner-*")] == ["owner-00000000.tos"]
    again = Halve()
    run = resume(data, combiner=again).wait(LIMIT)
    assert len(list(place.glob("owner-*"))) == 2
    assert again.calls == run.status.milestones
    with pytest.raises(ConfigError, match="holds runs: expected the folder of one, such as"):
        tos.resume(str(tmp_path), spark=spark_context)


def test_a_split_run_continues_with_the_same_rows_and_evaluates_the_others(
    spark_context: Any, tmp_path: Path
) -> None:
    data = spark_context.parallelize([(value,) for value in X], 2)
    uri = stop_early(spark_context, tmp_path, data, split=0.25)
    run = tos.resume(uri, data, spark=spark_context, program=counter()).wait(LIMIT)
    total, rows = run.parameters()["total"] / 3
    assert 600 < rows < 900
    mean = run.validation["loss"].iloc[-1]
    assert total + mean * (len(X) - rows) == pytest.approx(X.sum())


def test_a_split_run_continues_with_the_best_of_its_own_validation(
    spark_context: Any, tmp_path: Path
) -> None:
    """The rows that the split holds out are validation data, which these options need."""
    data = spark_context.parallelize([(value,) for value in X], 2)
    uri = stop_early(spark_context, tmp_path, data, split=0.25)
    options: dict[str, Any] = {"keep_best": "val_loss", "validation_every": 20}
    run = tos.resume(
        uri,
        data,
        spark=spark_context,
        program=counter(),
        sinks=None,
        validation_on=None,
        **options,
    ).wait(LIMIT)
    assert run.best is not None
    assert run.best.value == run.validation["loss"].min()


def test_of_saved_arrays_only_those_that_are_trained_on_are_there(
    spark_context: Any, tmp_path: Path
) -> None:
    uri = stop_early(spark_context, tmp_path, (X,), split=0.25)
    with pytest.raises(ConfigError, match="validation_every: expected validation data"):
        tos.resume(uri, spark=spark_context, validation_every=5)
    run = tos.resume(uri, spark=spark_context).wait(LIMIT)
    assert run.parameters()["total"][1] == 3 * 750
    assert run.status.validations == 0
    assert "The rows that validation_split has drawn are not saved" in " ".join(run.status.notes)


def test_what_was_asked_for_in_vain_is_not_among_the_settings_of_a_run_that_is_over(
    spark_context: Any, tmp_path: Path
) -> None:
    """A run that continues goes by it, though."""
    options: dict[str, Any] = {"sync_interval": 1, "batch_size": 5, "checkpoint_dir": str(tmp_path)}
    with tos.TrainingSession(spark_context, counter(), **options) as session:
        run = session.start((X,), 10_000, checkpoint_every="1h")
        run.wait_for(milestones=5, timeout=LIMIT)
        run.pause()
        while [row["state"] for row in run.events] != ["in force"]:
            threading.Event().wait(0.02)
        run.set(sync_interval=7)
        assert run.settings.sync_interval == 7
        run.stop()
    assert [row["state"] for row in run.events] == ["in force", "no effect", "in force"]
    assert run.settings.sync_interval == 1
    (saved,) = tos.runs(str(tmp_path), spark=spark_context)
    assert saved.settings.sync_interval == 1
    resumed = saved.resume(spark=spark_context)
    assert resumed.settings.sync_interval == 7
    resumed.stop()


@pytest.mark.parametrize("name", ["validation_data", "keep_best"])
def test_what_only_the_model_can_evaluate_is_refused_without_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Neither Spark nor the run's folder is asked by then."""
    monkeypatch.setattr("tos_notebook.training.resume.given_spark", None)
    given: dict[str, Any] = {"validation_data": (X,), "keep_best": "val_loss"}
    with pytest.raises(ConfigError, match=rf"^{name}: expected the run's model .* program=\.\.\."):
        tos.resume("file:///none", epochs=4, **{name: given[name]})


def test_a_run_that_was_validated_says_that_it_continues_without(
    spark_context: Any, tmp_path: Path
) -> None:
    with tos.TrainingSession(
        spark_context, counter(), sync_interval=1, checkpoint_dir=str(tmp_path)
    ) as session:
        run = session.start(
            (X,), 1, checkpoint_every="1h", validation_data=(X,), keep_best="val_loss"
        )
        run.wait(LIMIT)
    assert run.uri is not None
    asked = "tos.resume(uri, validation_data=..., keep_best=...)"
    run = tos.resume(run.uri, spark=spark_context, epochs=2).wait(LIMIT)
    assert asked in " ".join(run.status.notes)
    again: dict[str, Any] = {"validation_data": (X,), "keep_best": "val_loss"}
    assert run.uri is not None
    run = tos.resume(run.uri, spark=spark_context, program=counter(), epochs=3, **again)
    assert "before" not in " ".join(run.wait(LIMIT).status.notes)


def test_other_rows_are_refused_before_they_are_trained_and_the_right_ones_continue(
    spark_context: Any, tmp_path: Path
) -> None:
    from pyspark.sql import SparkSession

    def rows(frame: Any, value: str = "id", where: str = "true") -> Any:
        return tos.columns(frame.where(where).selectExpr(f"cast({value} as double) row"), "row")

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in place.iterdir()}

    spark = SparkSession(spark_context)
    frame = spark.range(1, 1001, numPartitions=2)
    uri = stop_early(spark_context, tmp_path, rows(frame))
    place = Path(uri.removeprefix("file:"))
    before = files()
    for other in (
        # 11 rows fewer, other values, and the same rows in other partitions and in another order.
        rows(frame, where="id % 91 <> 7"),
        rows(frame, value="if(id = 1000, 0, id)"),
        rows(spark.range(1000, 0, -1, numPartitions=2)),
    ):
        with pytest.raises(DataError, match=r"began with: partition \d: expected .* rows with"):
            tos.resume(uri, other, spark=spark_context)
        assert files() == before
    run = tos.resume(uri, rows(frame), spark=spark_context).wait(LIMIT)
    assert run.parameters()["total"].tolist() == [3 * X.sum(), 3 * len(X)]
    assert run.status.samples == 3 * len(X)


def _stream(change: float) -> Any:
    """Return a function of datasets of 1 to 1000, with some change, in an order of each epoch."""

    def make(ctx: Any) -> Any:
        import tensorflow as tf

        rows = tf.data.Dataset.range(1, 1001).shard(ctx.partitions, ctx.partition)
        return rows.map(lambda n: tf.cast(n, tf.float64) + change).shuffle(1000)

    return make


def test_another_function_is_refused_before_the_run_continues_in_an_epoch_and_between_two(
    spark_context: Any, tmp_path: Path
) -> None:
    uri = stop_early(spark_context, tmp_path, _stream(0))
    for epochs in (3, 4):
        kept = {path.name: path.read_bytes() for path in Path(uri.removeprefix("file:")).iterdir()}
        with pytest.raises(
            DataError, match=r"partition 0, epoch \d: expected .* The function must"
        ):
            tos.resume(uri, _stream(1), spark=spark_context, epochs=epochs)
        after = {path.name: path.read_bytes() for path in Path(uri.removeprefix("file:")).iterdir()}
        assert after == kept
        run = tos.resume(uri, _stream(0), spark=spark_context, epochs=epochs).wait(LIMIT)
        assert run.parameters()["total"].tolist() == [epochs * X.sum(), epochs * len(X)]


def test_arrays_with_other_values_or_in_another_order_are_refused(
    spark_context: Any, stopped: str
) -> None:
    for other in (X[::-1], X + 1e-9):
        with pytest.raises(DataError, match="values or order differ"):
            tos.resume(stopped, (other,), spark=spark_context, epochs=9)
    rdd = spark_context.parallelize([(value,) for value in X], 2)
    with pytest.raises(DataError, match="expected arrays, got RddSource"):
        tos.resume(stopped, rdd, spark=spark_context, epochs=9)


def _other() -> Any:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        rows = v1.placeholder(tf.float64, [None])
        total = v1.get_variable("total", initializer=np.zeros(3))
        step = v1.assign_add(total, tf.ones(3, tf.float64) * tf.reduce_sum(rows))
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        return tos.capture(step, feeds=[rows], loss=tf.reduce_mean(rows), session=session)


def test_a_damaged_program_is_not_trained(spark_context: Any, stopped: str, tmp_path: Path) -> None:
    for path in Path(stopped.removeprefix("file:")).iterdir():
        if not path.name.startswith("."):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    # Each checkpoint names the program that it was made with.
    for path in tmp_path.glob("program*.zip"):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"program.*\.zip is damaged"):
        tos.resume(str(tmp_path), spark=spark_context, epochs=9)


def test_checkpoints_need_a_directory_that_lasts(spark_context: Any) -> None:
    with (
        tos.TrainingSession(spark_context, counter()) as session,
        pytest.raises(ConfigError, match='such as checkpoint_dir="hdfs:///runs"'),
    ):
        session.start((X,), checkpoint_every="30s")


def test_a_storage_lists_measures_and_reads_beginnings(spark_context: Any, tmp_path: Path) -> None:
    storage = Storage(spark_context, str(tmp_path))
    inside = storage.inside("a")
    assert (storage.folders(), inside.list()) == ([], [])
    inside.write("file", b"0123456789")
    for other in (".ipynb_checkpoints", ".sparkStaging", "back\\slash"):
        (tmp_path / other).mkdir()
    assert (storage.folders(), inside.size()) == (["a"], 10)
    # None of these hides the runs beside it.
    assert list(tos.runs(str(tmp_path), spark=spark_context)) == []
    assert (inside.head("file", 4), inside.head("file", 99)) == (b"0123", b"0123456789")
    with pytest.raises(CheckpointError, match="Cannot read 'none'"):
        inside.head("none", 4)
