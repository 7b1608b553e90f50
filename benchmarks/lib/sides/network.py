"""The network that other packages train; see `benchmarks.lib.models` for ours."""

from __future__ import annotations

from typing import Any


def network(loss: str = "sparse_categorical_crossentropy") -> Any:
    """Return the compiled network."""
    import keras

    model = keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(200, activation="relu"),
            keras.layers.Dense(200, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    return model
