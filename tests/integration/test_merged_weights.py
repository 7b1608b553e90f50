"""What several workers' changes add up to is still a model that Keras could have made."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.long import few

Train = Callable[..., tos.TrainingSession]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(512, 8)).astype(np.float32)


def test_statistics_of_batches_are_those_of_the_data_under_rules_that_take_steps(
    train: Train,
) -> None:
    import keras

    y = (X.sum(axis=1) > 0).astype(np.int64)
    wide = 5 + 3 * X
    for combiner in ("fedadam", "adag"):
        keras.utils.set_random_seed(0)
        norm = keras.layers.BatchNormalization(momentum=0.95)
        head = keras.layers.Dense(2, "softmax")
        model = keras.Sequential([keras.Input((8,)), norm, head])
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        session = train(model, combiner=combiner, sync="bsp", batch_size=32, sync_interval=4)
        run = session.run((wide, y), epochs=10, partitions=2)
        np.testing.assert_allclose(norm.moving_mean, wide.mean(axis=0), atol=0.6)
        np.testing.assert_allclose(norm.moving_variance, wide.var(axis=0), rtol=0.3)
        history = run.history
        shown = history["loss"][history["epoch"] == history["epoch"].max()].mean()
        assert run.evaluate(wide, y)["loss"] == pytest.approx(shown, abs=0.1), combiner


AVERAGED = {"use_ema": True, "ema_momentum": 0.5}
OVERWRITE = {"ema_overwrite_frequency": 5}


@pytest.mark.parametrize(
    ("combiner", "options"),
    few(
        itertools.product(["downpour", "slowmo", "fedadam"], [{}, AVERAGED]),
        ("downpour", {}),
        ("fedadam", AVERAGED),
    ),
)
def test_constraints_hold_for_what_the_user_gets(
    train: Train, combiner: str, options: dict[str, Any]
) -> None:
    import keras

    keras.utils.set_random_seed(0)
    limits = {
        "kernel_constraint": keras.constraints.NonNeg(),
        "bias_constraint": keras.constraints.MaxNorm(0.5),
    }
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, **limits)])
    model.compile(keras.optimizers.SGD(0.2, **options), "mse")
    # Half of the best kernel is negative, so that the constraint is what keeps it at 0.
    y = (X @ RNG.normal(size=(8, 4)) + 3).astype(np.float32)
    session = train(model, combiner=combiner, batch_size=16, sync_interval=4)
    run = session.run((X, y), epochs=4, partitions=2)
    for kernel, bias in (model.get_weights(), list(run.parameters().values())):
        assert kernel.min() >= 0
        assert (kernel == 0).any()
        assert np.linalg.norm(bias) <= 0.5 + 1e-5


def averaging(**options: Any) -> Any:
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True, ema_momentum=0.9, **options)
    model.compile(optimizer, "mse")
    return model


@pytest.mark.parametrize("options", few([{}, OVERWRITE], OVERWRITE))
def test_averages_of_weights_are_those_that_keras_makes(
    train: Train, options: dict[str, int]
) -> None:
    y = (X[:, :2] + RNG.normal(size=(512, 2))).astype(np.float32)
    expected, model = averaging(**options), averaging(**options)
    expected.fit(X, y, batch_size=32, epochs=2, shuffle=False, verbose=0)
    session = train(model, batch_size=32, sync_interval=3)
    run = session.run((X, y), epochs=2, partitions=1, shuffle=False)
    for found in (model.get_weights(), list(run.parameters().values())):
        for one, other in zip(found, expected.get_weights(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_averages_of_several_workers_are_of_all_of_them(train: Train) -> None:
    """At a constant gradient every worker's average lags behind its weights by the same."""
    y = np.tile(X[:, :1], 2)
    model = averaging()
    run = train(model, combiner="fedavg", sync="bsp", batch_size=32, sync_interval=2).run(
        (X, y), epochs=12, partitions=2
    )
    best = np.zeros((8, 2))
    best[0] = 1
    np.testing.assert_allclose(model.get_weights()[0], best, atol=0.05)
    assert run.evaluate(X, y)["loss"] < 0.01
