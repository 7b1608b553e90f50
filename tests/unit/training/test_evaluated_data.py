"""What a run's `evaluate` takes arrays as."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tos_notebook.training.results.evaluate import evaluate

X, Y = np.zeros((4, 3)), np.arange(4)


def evaluated(feeds: int, *data: Any) -> Any:
    """Return what a model would have evaluated."""
    model: Any = SimpleNamespace(feeds=range(feeds), evaluate=lambda given, batch_size: given)
    return evaluate(model, data, 1)


@pytest.mark.parametrize("data", [(X, Y), ((X, Y),), ([X, Y],), ((X.tolist(), Y.tolist()),)])
def test_arrays_may_come_in_one_tuple_as_for_training(data: Any) -> None:
    x, y = evaluated(2, *data)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize("data", [X, (X,), [X], X.tolist()])
def test_rows_of_the_only_feed_may_be_a_list(data: Any) -> None:
    (x,) = evaluated(1, data)
    np.testing.assert_array_equal(x, X)
