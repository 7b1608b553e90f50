"""Every built-in combiner trains a model, over connections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import SoftmaxRegression, digits
from tests.support.threads import Aside
from tests.unit.worker.support import counting_training, of
from tos_notebook.combiners import COMBINERS, Combiner, get
from tos_notebook.events import MilestoneCommitted

RATE = 0.2
OWN: dict[str, dict[str, Any]] = {
    "dcasgd": {"lr": RATE},
    "fedadam": {"lr": 0.3},
    "fedyogi": {"lr": 0.3},
    "multikrum": {"f": 1},
}
"""What a combiner has to be given to suit the program, or learns faster with."""


def train(serve: Any, combiner: Combiner) -> list[float]:
    """Train by five workers, enough for each rule; return the losses of their milestones."""
    x, y = digits(800, 16, 4)
    training, events = counting_training(
        *(5, 6, combiner, 1), program=SoftmaxRegression(16, 4, rate=RATE), columns=(x, y)
    )
    served = serve(training, "inproc")
    workers = [
        Aside(
            lambda p=p: served.work(  # type: ignore[misc]
                SoftmaxRegression(16, 4, rate=RATE), p, task=p, batch_size=16, columns=2
            )
        )
        for p in range(5)
    ]
    for worker in workers:
        worker.result()
    assert training.error is None
    return [event.loss for event in of(MilestoneCommitted, events)]


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_every_combiner_trains(serve: Any, name: str) -> None:
    losses = train(serve, get(name, **OWN.get(name, {})))
    assert len(losses) == 6 * 5 * 10
    assert np.mean(losses[-25:]) < 0.5 * np.mean(losses[:10])
