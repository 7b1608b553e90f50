"""``run.epochs``: what Keras prints of each epoch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import Validated
from tos_notebook.telemetry.history import History


def test_each_epoch_is_a_row_of_means_over_its_samples() -> None:
    history = History()
    history(started(0.0))
    history(milestone(1.0, epoch=0, samples=100, loss=1.0, metrics={"accuracy": 0.5}))
    history(milestone(2.0, epoch=0, samples=300, loss=2.0, metrics={"accuracy": 0.9}))
    history(Validated(2.5, 0, 400, {"loss": 3.0, "accuracy": 0.25}))
    history(milestone(4.0, epoch=1, samples=400, loss=0.5, metrics={}))
    table = history.epochs()
    assert list(table) == [
        *["epoch", "samples", "seconds", "loss", "accuracy", "val_loss", "val_accuracy"]
    ]
    first, second = table.to_dict("records")
    assert first == pytest.approx(
        {"epoch": 1, "samples": 400, "seconds": 1.0, "loss": 1.75, "accuracy": 0.8}
        | {"val_loss": 3.0, "val_accuracy": 0.25}
    )
    assert [second[name] for name in ("epoch", "samples", "seconds", "loss")] == [2, 400, 2.0, 0.5]
    assert np.isnan([second["accuracy"], second["val_loss"]]).all()


def test_before_the_first_milestone_there_is_no_row() -> None:
    table = History().epochs()
    assert len(table) == 0
    assert list(table) == ["epoch", "samples", "seconds", "loss"]


def test_of_several_evaluations_in_an_epoch_the_last_counts() -> None:
    history = History()
    history(milestone(1.0))
    for value in 3.0, 2.0:
        history(Validated(value, 0, 100, {"loss": value}))
    assert history.epochs()["val_loss"].tolist() == [2.0]
