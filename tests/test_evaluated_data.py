"""What a run's `evaluate` takes arrays as."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tos_notebook.training.outputs import Outputs

X, Y = np.zeros((4, 3)), np.arange(4)


class Evaluated(Outputs):
    """Keeps what it would have evaluated."""

    def __init__(self, feeds: int) -> None:
        self._program: Any = SimpleNamespace(feeds=range(feeds))
        self._model: Any = SimpleNamespace(evaluate=lambda given, batch_size: given)


@pytest.mark.parametrize("data", [(X, Y), ((X, Y),), ([X, Y],), ((X.tolist(), Y.tolist()),)])
def test_arrays_may_come_in_one_tuple_as_for_training(data: Any) -> None:
    x, y = Evaluated(2).evaluate(*data)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize("data", [X, (X,), [X], X.tolist()])
def test_rows_of_the_only_feed_may_be_a_list(data: Any) -> None:
    (x,) = Evaluated(1).evaluate(data)
    np.testing.assert_array_equal(x, X)
