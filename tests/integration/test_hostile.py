"""A run whose metrics have hostile names: it trains, and each place where they go takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tos_notebook as tos
from tests.support.hostile import TEXTS
from tos_notebook.readable import LONGEST_NAME, is_readable, readable
from tos_notebook.telemetry.tensorboard import read_scalars
from tos_notebook.training.observers.tensorboard import event_files


def test_a_run_takes_metrics_of_any_name(
    train: Callable[..., tos.TrainingSession], tmp_path: Path
) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    given = [*TEXTS.values(), TEXTS["long"] + "2"]
    with tf.Graph().as_default():
        rows = v1.placeholder(tf.float64, [None], name="rows")
        total = v1.get_variable("total", initializer=np.zeros(()))
        step, loss = v1.assign_add(total, tf.reduce_sum(rows)), tf.reduce_mean(rows)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        metrics = dict.fromkeys(given, loss)
        program: Any = tos.capture(step, feeds=[rows], loss=loss, session=session, metrics=metrics)
    data = (np.ones(64),)
    run = train(program, combiner="downpour", batch_size=16).run(
        data, partitions=2, validation_data=data, tensorboard=str(tmp_path / "events")
    )
    names = [readable(name, LONGEST_NAME) for name in given]
    assert run.status.notes == ()
    assert list(run.status.metrics) == names
    assert list(run.status.validation) == ["loss", *names]
    card = Path(run.model_card(tmp_path / "card.md")).read_text(encoding="utf-8")
    assert is_readable(card)
    tags = set(read_scalars(event_files(None, str(tmp_path / "events")))["tag"])
    assert {f"validation/{name}" for name in names} <= tags
    assert {f"training/{name}" for name in names} <= tags
