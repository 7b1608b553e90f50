"""Mistakes get one clear error before any training job starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, counter
from tests.support.watching import Watch
from tos_notebook import errors
from tos_notebook.events import MilestoneCommitted

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size.*at least 1.*0"),
        ({"sync_interval": -3}, "sync_interval.*at least 1.*-3"),
        ({"batch_size": 2.5}, r"batch_size.*2\.5.*float"),
        ({"non_finite": "ignore"}, "non_finite.*raise, skip.*ignore"),
        ({"optimizer_state": "drop"}, "optimizer_state.*keep, reset.*drop"),
    ],
)
def test_settings_out_of_range_are_refused_with_name_and_value(
    train: Train, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(errors.ConfigError, match=text):
        train(captured_classifier(), **options)


@pytest.mark.parametrize("name", ["epochs", "repartition_every", "partitions"])
def test_counts_below_one_are_refused_at_start(train: Train, digits: Digits, name: str) -> None:
    session = train(captured_classifier())
    with pytest.raises(errors.ConfigError, match=f"{name}.*at least 1.*0"):
        session.start(digits[:2], **{name: 0})


def test_an_optimizer_without_state_to_reset_is_refused_at_start(
    train: Train, digits: Digits
) -> None:
    session = train(captured_classifier(), optimizer_state="reset")
    with pytest.raises(errors.ConfigError, match=r"^optimizer_state: expected 'keep', since"):
        session.start(digits[:2])


def test_unknown_combiner_offers_the_nearest_names(train: Train) -> None:
    with pytest.raises(errors.CombinerError, match="dynsgd"):
        train(captured_classifier(), combiner="dynsdg")


def test_empty_rdd_is_refused(spark_context: Any, train: Train) -> None:
    session = train(counter())
    with pytest.raises(errors.DataError, match="empty"):
        session.start(spark_context.parallelize([], 2))


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ((np.zeros(64, np.float32),), "2"),
        ((np.zeros(63, np.float32), 1), "63"),
        ((np.zeros(64, np.float32), 1, 2), "3"),
    ],
    ids=["too few fields", "wrong shape", "too many fields"],
)
def test_records_that_do_not_fit_the_feeds_are_named(
    spark_context: Any, train: Train, record: Any, text: str
) -> None:
    session = train(captured_classifier())
    with pytest.raises(errors.ShapeMismatch, match=text):
        session.start(spark_context.parallelize([record] * 4, 2))


def test_record_that_differs_from_the_first_is_named_by_partition_and_index(
    spark_context: Any, train: Train
) -> None:
    records = [(np.zeros(64, np.float32), 1)] * 20 + [(np.zeros(60, np.float32), 1)]
    session = train(captured_classifier())
    with pytest.raises(errors.TosError, match=r"(?s)60") as caught:
        session.run(spark_context.parallelize(records, 2))
    assert "partition 1" in str(caught.value)
    # The rows are dealt first, before any worker could tell of them.
    assert isinstance(caught.value.__cause__, errors.WorkerError)


def test_second_run_on_a_busy_session_is_refused(
    train: Train, digits: Digits, watch: Watch
) -> None:
    session = train(captured_classifier(), batch_size=16, sync_interval=1)
    run = session.start(digits[:2], epochs=100_000, sinks=[watch])
    watch.wait_for(MilestoneCommitted)
    with pytest.raises(errors.InvalidTransition, match=f"{run.run_id}.*stop"):
        session.start(digits[:2])
    assert run.active
    with pytest.raises(errors.WaitTimeout, match="running"):
        run.wait(0.01)
    run.stop()


def test_learning_rate_that_is_no_variable_cannot_be_set(train: Train, watch: Watch) -> None:
    session = train(counter(), combiner="downpour", batch_size=1, sync_interval=1)
    run = session.start((np.arange(200.0),), epochs=1000, sinks=[watch])
    watch.wait_for(MilestoneCommitted)
    with pytest.raises(errors.InvalidTransition, match="not a variable"):
        run.set(learning_rate=0.1)
    run.stop()
