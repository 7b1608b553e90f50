"""Speed of training a model with a large embedding, whole calls against `keras.Model.fit`.

python -m benchmarks.throughput.embeddings [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
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
GOAL, MOST = 1.5, 1.2


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


def touched(run: Any, dense: int, partitions: int) -> int:
    """Return the fewest bytes that the pushes of an epoch can have: new rows, and all else.

    Parameters
    ----------
    run : Run
        Over partitions whose rows it has not shuffled.
    dense : int
        Bytes of the parameters that are no tables.
    partitions : int
    """
    pairs, total = ratings()[0], 0
    for number, part in enumerate(np.array_split(pairs, partitions)):
        ends = run.history[run.history["partition"] == number]["samples"].cumsum()
        for rows in np.split(part, ends[:-1]):
            total += dense + sum(len(np.unique(ids)) for ids in rows.T) * WIDTH * 4
    return total


def run(quick: bool) -> list[Row]:
    """Measure in turns, whole calls on both sides."""
    rounds = 3 if quick else 5
    data, model = ratings(), factors()
    dense = sum(weight.nbytes for weight in model.get_weights()[2:])
    with spark() as session, Peer(fitter) as fit:
        options: dict[str, Any] = {"spark": session, "batch_size": BATCH_SIZE}
        options |= {"verbose": False, "shuffle": False}

        def seconds() -> tuple[float, Any]:
            began = perf_counter()
            done = tos.fit(model, data, partitions=2, **options)
            return perf_counter() - began, done

        seconds()
        fits, ours, runs = [], [], []
        for _ in range(rounds):
            fits.append(fit.call())
            took, done = seconds()
            ours.append(took)
            runs.append(done)
        sharded = [
            tos.fit(model, data, partitions=1, strategy="ps:shards=1", **options)
            for _ in range(rounds)
        ]
    ratios = sorted(theirs / mine for mine, theirs in zip(ours, fits, strict=True))
    moved, to_shard = (
        [done.history["bytes_up"].sum() / touched(done, dense, count) for done in some]
        for some, count in ((runs, 2), (sharded, 1))
    )
    parts = {
        "ours": rate(SAMPLES / median(ours)),
        "fit": rate(SAMPLES / median(fits)),
        "range": f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
    }
    return [
        Row(
            "50 MB of embeddings, 20,000 rows: fit / whole call",
            median(ratios),
            "x",
            f">= {GOAL:g}",
            parts,
            rounds,
        ),
        Row(
            "bytes pushed / rows that have changed, and all else",
            median(moved),
            "x",
            f"<= {MOST:g}",
            {},
            rounds,
        ),
        Row("the same with a shard", median(to_shard), "x", f"<= {MOST:g}", {}, rounds),
    ]


if __name__ == "__main__":
    program(run, __doc__)
