from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.telemetry.samples import joined, lost, milestone, started
from tos_notebook.events import Event, ParametersRestored, Repartitioned, RunResumed, Validated
from tos_notebook.steering.status import Progress
from tos_notebook.telemetry.history import History

COLUMNS = [
    "time",
    "epoch",
    "partition",
    "executor",
    "host",
    "attempt",
    "sequence",
    "steps",
    "samples",
    "loss",
    "staleness",
    "version",
    "compute",
    "wait",
    "exchange",
    "bytes_up",
    "bytes_down",
    "workers",
]
FLOATS = {"time", "loss", "compute", "wait", "exchange"}
TEXTS = {"executor", "host"}
WORKER_COLUMNS = [
    "executor",
    "host",
    "partition",
    "epoch",
    "milestones",
    "samples",
    "samples_per_second",
    "waited",
    "staleness_mean",
    "staleness_max",
    "loss",
    "cpu",
    "memory",
    "bytes_up",
    "bytes_down",
    "lost",
]


def history(*events: Event) -> History:
    result = History()
    for event in events:
        result(event)
    return result


def test_progress_counts_partitions_and_who_is_there() -> None:
    found = history(started(), joined(partition=0), joined(partition=1), milestone(partition=1))
    assert found.progress(3) == Progress(0, 1, (0, 1, 0), 2)
    found(lost(partition=1))
    found(joined(partition=2))
    assert found.progress(3).workers == 2
    # Laid out again over one partition: what the others have trained counts.
    found(Repartitioned(3.0, 1, 1, 0.1))
    assert found.progress(1) == Progress(0, 1, (0,), 0)
    # A worker of the process before is gone; what it trained counts.
    found(RunResumed(5.0, 1, 3, 3, None))
    assert found.progress(2) == Progress(0, 1, (0, 1), 0)


@pytest.mark.parametrize("events", [(), (milestone(), milestone())], ids=["empty", "filled"])
def test_frame_has_exactly_the_documented_columns_and_dtypes(events: tuple[Event, ...]) -> None:
    frame = history(*events).frame()
    assert list(frame.columns) == COLUMNS
    assert len(frame) == len(events)
    for name in COLUMNS:
        expected = "float64" if name in FLOATS else "object" if name in TEXTS else "int64"
        assert frame[name].dtype == expected, name


def test_a_row_holds_every_field_of_its_milestone() -> None:
    event = milestone(
        **{name: n for n, name in enumerate(COLUMNS) if name not in TEXTS},
        executor="driver",
        host="laptop",
    )
    (row,) = history(event).frame().to_dict("records")
    assert row == {name: getattr(event, name) for name in COLUMNS} | {"epoch": event.epoch + 1}


def test_epochs_count_from_1_in_every_table_as_in_the_status() -> None:
    kept = history(milestone(epoch=0), Validated(1.0, 0, 100, {"loss": 0.5}))
    for table in (kept.frame(), kept.validation(), kept.workers()):
        assert table["epoch"].tolist() == [1]


def test_only_milestones_become_rows() -> None:
    record = history(started(), joined(), milestone(), lost())
    assert len(record) == len(record.frame()) == 1


def test_metrics_stand_between_loss_and_staleness_and_are_nan_where_missing() -> None:
    frame = history(
        milestone(),
        milestone(metrics={"accuracy": 0.9}),
        milestone(metrics={"accuracy": 0.8, "auc": 0.7}),
        milestone(metrics={"auc": 0.6}),
    ).frame()
    at = COLUMNS.index("staleness")
    assert list(frame.columns) == [*COLUMNS[:at], "accuracy", "auc", *COLUMNS[at:]]
    np.testing.assert_array_equal(frame["accuracy"], [np.nan, 0.9, 0.8, np.nan])
    np.testing.assert_array_equal(frame["auc"], [np.nan, np.nan, 0.7, 0.6])
    assert frame["accuracy"].dtype == "float64"


def test_a_metric_named_as_a_column_hides_nothing() -> None:
    frame = history(milestone(loss=0.5, metrics={"loss": 0.4})).frame()
    assert frame["loss"].tolist() == [0.5]
    assert frame["loss_metric"].tolist() == [0.4]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "c"]), st.floats(allow_nan=False, width=32), max_size=3
        ),
        max_size=20,
    )
)
def test_metrics_keep_to_their_rows_whatever_comes_when(rows: list[dict[str, float]]) -> None:
    frame = history(*[milestone(metrics=row) for row in rows]).frame()
    metrics = frame[[name for name in frame.columns if name not in COLUMNS]]
    kept = [{k: v for k, v in row.items() if v == v} for row in metrics.to_dict("records")]
    assert (kept or [{}] * len(rows)) == rows


def test_frame_is_a_copy_that_later_milestones_do_not_touch() -> None:
    record = history(milestone())
    frame = record.frame()
    record(milestone())
    frame.loc[0, "loss"] = 99.0
    assert len(frame) == 1
    assert record.frame()["loss"].tolist() == [0.5, 0.5]


def test_rows_come_in_the_order_of_the_commits_whoever_reported_first() -> None:
    frame = history(*[milestone(version=version) for version in (1, 3, 2, 4)]).frame()
    assert frame["version"].tolist() == [1, 2, 3, 4]
    assert frame.index.tolist() == [0, 1, 2, 3]


def test_workers_sum_up_each_executor_and_partition() -> None:
    table = history(
        milestone(partition=1, samples=40),
        milestone(epoch=0, staleness=0, loss=0.5, samples=100, wait=0.5),
        milestone(epoch=1, staleness=3, loss=0.3, samples=60, wait=0.25, cpu=1.5, memory=4096),
        lost(partition=1),
    ).workers()
    assert list(table.columns) == WORKER_COLUMNS
    first, second = table.to_dict("records")
    assert first == {
        "executor": "1",
        "host": "node",
        "partition": 0,
        "epoch": 2,
        "milestones": 2,
        "samples": 160,
        "samples_per_second": pytest.approx(200.0),
        "waited": 0.75,
        "staleness_mean": 1.5,
        "staleness_max": 3,
        "loss": 0.3,
        "cpu": 1.5,
        "memory": 4096.0,
        "bytes_up": 16,
        "bytes_down": 32,
        "lost": 0,
    }
    assert (second["partition"], second["samples"], second["lost"]) == (1, 40, 1)
    # Of older checkpoints, and of systems that do not tell, nothing is known.
    assert table.loc[1, ["cpu", "memory"]].isna().all()


def test_workers_table_has_the_same_columns_and_dtypes_when_empty() -> None:
    empty, filled = history().workers(), history(milestone()).workers()
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == filled.dtypes.to_dict()


def test_totals_count_what_the_frame_holds() -> None:
    record = history(started(), milestone(samples=10), milestone(samples=20))
    assert record.totals().milestones == 2
    assert record.totals().samples == record.frame()["samples"].sum() == 30


def test_reading_while_writing_sees_whole_rows_only() -> None:
    record, done = History(), threading.Event()

    def write() -> None:
        for n in range(3000):
            record(milestone(sequence=n, version=n, metrics={"m": float(n)}))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        frame = record.frame()
        assert frame["sequence"].tolist() == list(range(len(frame)))
        if len(frame):
            assert (frame["m"] == frame["version"]).all()
        assert record.workers()["milestones"].sum() >= len(frame)
    writer.join(10)
    assert len(record) == 3000


def test_a_metric_may_be_named_as_the_column_of_another() -> None:
    frame = history(milestone(metrics={"loss": 0.4, "loss_metric": 0.6})).frame()
    assert frame["loss_metric"].tolist() == [0.4]
    assert frame["loss_metric_metric"].tolist() == [0.6]


def test_names_of_metrics_without_end_do_not_fill_the_memory() -> None:
    frame = history(*(milestone(metrics={f"metric {n}": 1.0}) for n in range(400))).frame()
    assert sum(name.startswith("metric ") for name in frame.columns) == 256


def test_what_a_return_to_a_copy_has_taken_away_does_not_count() -> None:
    """Milestones 3 and 4 are trained again: rows, sums and progress are as if they had not been."""
    history = History()
    for number in range(1, 5):
        history(milestone(float(number), version=number, samples=10, steps=2, metrics={"acc": 1.0}))
    assert history.after(2) == (2, 20, 4)
    history(ParametersRestored(5.0, 2, *history.after(2), "A shard was lost."))
    assert len(history) == 2
    totals = history.totals()
    assert (totals.milestones, totals.samples) == (2, 20)
    history(milestone(6.0, version=3, samples=10, steps=2))
    assert history.frame()["version"].tolist() == [1, 2, 3]
    assert history.totals().milestones == 3
