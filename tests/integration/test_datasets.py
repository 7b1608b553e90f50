"""Workers that make their rows themselves: a function that returns a `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.support.watching import Watch
from tos_notebook import errors

Train = Callable[..., tos.TrainingSession]


def numbers(ctx: Any) -> Any:
    """Return 0 to 599, dealt out to the partitions, in an order that no seed fixes."""
    import tensorflow as tf

    dataset = tf.data.Dataset.range(600).shard(ctx.partitions, ctx.partition)
    return dataset.map(lambda n: tf.cast(n, tf.float64)).shuffle(600)


def test_every_record_counts_once_in_each_epoch_however_many_partitions(train: Train) -> None:
    session = train(counter(), combiner="downpour", batch_size=7, sync_interval=3)
    run = session.run(numbers, epochs=4, partitions=3, repartition_every=2)
    assert run.parameters()["total"].tolist() == [4 * 179700.0, 2400.0]


def test_a_retried_task_skips_what_is_committed_even_if_nobody_gave_a_seed(
    train: Train, watch: Watch
) -> None:
    session = train(counter(), combiner="downpour", batch_size=5, sync_interval=2)
    run = session.start(numbers, epochs=3, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=1, at=4))
    run.wait()
    assert run.parameters()["total"].tolist() == [3 * 179700.0, 1800.0]
    assert run.workers["lost"].sum() == 1


def test_what_the_function_raises_is_raised_with_its_frames(train: Train) -> None:
    def broken(ctx: Any) -> Any:
        if ctx.partition == 1 and ctx.epoch == 1:
            raise FileNotFoundError("part-1.tfrecord")
        return numbers(ctx)

    with pytest.raises(errors.WorkerError, match=r"(?s)FileNotFoundError.*in broken"):
        train(counter(), combiner="downpour").run(broken, epochs=2)


def test_a_record_that_cannot_be_read_ends_the_run(train: Train) -> None:
    """Not only the first ones, but also those that are read during an exchange."""

    def broken(ctx: Any) -> Any:
        import tensorflow as tf

        checked = lambda n: tf.debugging.check_numerics(1.0 / (n - 500.0), "bad record")  # noqa: E731
        return numbers(ctx).map(checked)

    with pytest.raises(errors.WorkerError, match="bad record"):
        train(counter(), combiner="downpour", batch_size=5, sync_interval=2).run(broken)


def test_datasets_that_are_all_empty_are_an_error(train: Train) -> None:
    with pytest.raises(errors.DataError, match=r"Epoch 1: expected at least one row .* got none"):
        train(counter()).run(lambda ctx: numbers(ctx).filter(lambda n: n < 0), epochs=2)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data.repeat(), "a dataset with an end"),
        (lambda data: data.batch(10), r"shape.*None.*Do not batch it"),
        (lambda data: list(data), "return a tf.data.Dataset, got list"),
    ],
    ids=["endless", "batched", "no dataset"],
)
def test_a_function_that_returns_something_else_is_refused_before_anything_starts(
    train: Train, change: Callable[[Any], Any], text: str
) -> None:
    with pytest.raises(errors.DataError, match=text):
        train(counter()).start(lambda ctx: change(numbers(ctx)))


def test_datasets_do_not_validate_and_are_not_dealt_out_by_label(train: Train) -> None:
    session = train(counter())
    with pytest.raises(errors.DataError, match="validation_data: expected rows"):
        session.start(numbers, validation_data=numbers)
    with pytest.raises(errors.ConfigError, match="decides itself which rows"):
        session.start(numbers, partitioner=tos.partitioners.Shards(2, 1))
    assert np.isfinite(session.run(numbers).status.loss)
