"""The networks that are trained, and how accurate they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from .data import Labelled

SOFTMAX = (784, 10)
TWO_NN = (784, 200, 200, 10)
WIDE = (784, 1000, 1000, 10)


def network(
    sizes: Sequence[int],
    *,
    pixels: bool = True,
    optimizer: str = "SGD",
    metrics: Sequence[str] = (),
    steps_per_execution: int = 1,
    initializer: str = "glorot_uniform",
) -> Any:
    """Return a compiled Keras network.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden layers, classes.
    pixels : bool
        Whether it is fed uint8 from 0 to 255, which it rescales itself, else float32.
    optimizer : {"SGD", "Adam"}
        With a learning rate of 0.1 or 0.001.
    metrics : sequence of str
    steps_per_execution : int
        For `fit`.
    initializer : str
        Of the weights, by Keras' name; biases begin at 0.
    """
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras

    first = [keras.layers.Rescaling(1 / 255)] if pixels else []
    dense = partial(keras.layers.Dense, kernel_initializer=initializer)
    hidden = [dense(size, activation="relu") for size in sizes[1:-1]]
    model = keras.Sequential(
        [
            keras.Input((sizes[0],), dtype="uint8" if pixels else "float32"),
            *first,
            *hidden,
            dense(sizes[-1], activation="softmax"),
        ]
    )
    rules = {"SGD": keras.optimizers.SGD(0.1), "Adam": keras.optimizers.Adam(1e-3)}
    model.compile(
        rules[optimizer],
        "sparse_categorical_crossentropy",
        metrics=list(metrics),
        steps_per_execution=steps_per_execution,
    )
    return model


def seeded_network(optimizer: str, seed: int, steps_per_execution: int = 1) -> Any:
    """Return the 2NN; the same seed gives the same weights."""
    import keras

    keras.utils.set_random_seed(seed)
    return network(
        TWO_NN,
        optimizer=optimizer,
        metrics=("accuracy",),
        steps_per_execution=steps_per_execution,
    )


def accuracy_of(model: Any, test: Labelled) -> float:
    """Return the share of the test images that a model gets right."""
    return float(model.evaluate(*test, batch_size=1000, verbose=0, return_dict=True)["accuracy"])


def name_of(sizes: Sequence[int]) -> str:
    """Return the sizes as text."""
    return "-".join(map(str, sizes))
