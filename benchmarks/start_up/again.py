"""A model that is trained again, against one that is new: from the call to the first milestone.

A notebook trains the same model in cell after cell. In turns, in one Spark, all warm.

    python -m benchmarks.start_up.again [--quick]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.harness import Row, program
from ..lib.ours import BATCH_SIZE, spark

ROWS = 2000
GOAL = "<= 0.5"
AGAIN, NEW = "again", "new"


def images() -> Any:
    """Return a small network of convolutions."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def sequences() -> Any:
    """Return an LSTM."""
    import keras
    from keras import layers

    return keras.Sequential(
        [keras.Input((20, 8)), layers.LSTM(16), layers.Dense(10, activation="softmax")]
    )


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "small CNN": (images, (28, 28, 1)),
    "LSTM": (sequences, (20, 8)),
}


def until_first(model: Any, data: Any) -> float:
    """Train, and return the seconds from the call to the first milestone."""
    began = time.time()
    history = tos.fit(model, data, epochs=1, batch_size=BATCH_SIZE).history
    return float(history["time"].iloc[0]) - began


def compared(name: str, rounds: int) -> Row:
    """Measure both in turns."""
    make, shape = MODELS[name]
    random = np.random.default_rng(0)
    data = random.random((ROWS, *shape), np.float32), random.integers(0, 10, ROWS)

    def compiled() -> Any:
        made = make()
        made.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        return made

    known = compiled()
    until_first(known, data)
    found: dict[str, list[float]] = {AGAIN: [], NEW: []}
    for number in range(rounds):
        for side in (AGAIN, NEW)[:: 1 if number % 2 else -1]:
            found[side].append(until_first(known if side == AGAIN else compiled(), data))
    ratios = [a / b for a, b in zip(*found.values(), strict=True)]
    parts = {side: f"{median(seconds):.2f} s" for side, seconds in found.items()}
    parts["range of the ratio"] = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return Row(f"{name}: trained again / new", median(ratios), "x", GOAL, parts, rounds)


def run(quick: bool) -> list[Row]:
    """Measure both networks."""
    with spark():
        return [compared(name, 3 if quick else 9) for name in MODELS]


if __name__ == "__main__":
    program(run, __doc__)
