"""Speed of training a model with a large embedding, whole calls against `keras.Model.fit`.

python -m benchmarks.throughput.embeddings [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.data import Labelled
from ..lib.harness import Row, program, rate
from ..lib.ours import spark
from ..lib.peers import Peer

BATCH_SIZE = 32
SAMPLES = 20_000
USERS, ITEMS, WIDTH = 190_000, 5_000, 64
"""Two tables of 50 MB together."""
GOAL = 1.5
TRAFFIC_GOAL = 1.2


def ratings() -> Labelled:
    """Return seeded ratings: pairs of user and item, and what the one gives the other."""
    random = np.random.default_rng(0)
    pairs = np.stack([random.integers(0, n, SAMPLES) for n in (USERS, ITEMS)], 1, dtype="int32")
    return pairs, random.normal(size=(SAMPLES, 1)).astype("float32")


def factors() -> Any:
    """Return a compiled Keras model of users' and items' factors."""
    import keras

    pair = keras.Input((2,), dtype="int32")
    users = keras.layers.Embedding(USERS, WIDTH)(pair[:, 0])
    items = keras.layers.Embedding(ITEMS, WIDTH)(pair[:, 1])
    both = keras.layers.Concatenate()([users, items])
    hidden = keras.layers.Dense(64, activation="relu")(both)
    model = keras.Model(pair, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model


def fitter() -> Callable[[], float]:
    """Return a function: the seconds that `keras.Model.fit` takes, warm, on all cores."""
    (x, y), model = ratings(), factors()
    model.fit(x[:BATCH_SIZE], y[:BATCH_SIZE], BATCH_SIZE, verbose=0)

    def seconds() -> float:
        began = perf_counter()
        model.fit(x, y, BATCH_SIZE, verbose=0)
        return perf_counter() - began

    return seconds


def run(quick: bool) -> list[Row]:
    """Measure in turns, whole calls on both sides."""
    rounds = 3 if quick else 5
    x, y = ratings()
    model = factors()

    @cache
    def options() -> dict[str, Any]:
        return {"epochs": 1, "batch_size": BATCH_SIZE, "verbose": False}

    with spark() as session, Peer(fitter) as fit:
        tos.fit(model, (x[:64], y[:64]), spark=session, **options())
        fits, ours = [], []
        for _ in range(rounds):
            fits.append(fit.call())
            began = perf_counter()
            done = tos.fit(model, (x, y), spark=session, **options())
            ours.append(perf_counter() - began)
    ratio = median(theirs / mine for mine, theirs in zip(ours, fits, strict=True))
    return [
        Row(
            "x",
            ratio,
            "x",
            f">= {GOAL:g}",
            {
                "ours": rate(SAMPLES / median(ours)),
                "fit": rate(SAMPLES / median(fits)),
                "all": f"{ours} {fits}",
                "t": f"{done.history.bytes_up.sum()} {done.history.bytes_down.sum()} {len(done.history)}",
            },
            rounds,
        )
    ]


if __name__ == "__main__":
    program(run, __doc__)
