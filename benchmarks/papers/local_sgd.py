"""Local SGD beside a mean of gradients at every step: accuracy, time and bytes, on Spark.

Stich 2019, "Local SGD Converges Fast and Communicates Little", ICLR (arXiv:1805.09767): H local
steps between two means converge as fast as synchronous SGD does, with H times fewer exchanges.
Each worker trains the same rows in the same order, whatever is exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import tos_notebook as tos
from tos_notebook.errors import DataError
from tos_notebook.strategies import AllReduce

from ..lib import ours
from ..lib.data import Labelled, digits, mnist
from ..lib.harness import Row
from ..lib.models import network
from .report import Options, row, say

INTERVALS = (1, 4, 16)
EPOCHS = 5
BATCH_SIZE = 32
HIDDEN = (200, 200)
TOLERANCE = 0.5
"""Points of accuracy that local SGD may lose to a mean at every step."""


@dataclass(frozen=True)
class Outcome:
    """One training.

    Parameters
    ----------
    accuracies : tuple of float
        Percent of the test rows, after each epoch.
    seconds : float
        From the first milestone to the last.
    nbytes : int
        What went between driver and workers, both ways.
    """

    accuracies: tuple[float, ...]
    seconds: float
    nbytes: int


def train(
    spark: Any, data: tuple[Labelled, Labelled], way: AllReduce, epochs: int, seed: int
) -> Outcome:
    """Train on all slots of `spark`, and test after each epoch."""
    import keras

    rows, test = data
    keras.utils.set_random_seed(seed)
    sizes = (rows[0].shape[1], *HIDDEN, 10)
    model = network(sizes, pixels=rows[0].dtype == "uint8", metrics=("accuracy",))
    session = tos.TrainingSession(spark, tos.capture(model), strategy=way, batch_size=BATCH_SIZE)
    run = session.run(rows, epochs, shuffle=True, seed=seed, validation_data=test)
    history = run.history
    return Outcome(
        tuple(100 * run.validation["accuracy"]),
        float(history["time"].max() - history["time"].min()),
        int(history[["bytes_up", "bytes_down"]].to_numpy().sum()),
    )


def rows_of(
    name: str, interval: int, found: Sequence[Outcome], every: Sequence[Outcome]
) -> list[Row]:
    """Return accuracy, bytes and time of one way beside a mean of gradients at every step."""
    last = mean(o.accuracies[-1] for o in found)
    behind = mean(o.accuracies[-1] for o in every) - last
    by_epoch = " ".join(
        f"{mean(each):.2f}" for each in zip(*(o.accuracies for o in found), strict=True)
    )
    nbytes, seconds = (
        mean(getattr(o, part) for o in found) / mean(getattr(o, part) for o in every)
        for part in ("nbytes", "seconds")
    )
    is_local = found is not every
    return [
        row(
            f"{name}: accuracy",
            last,
            "%",
            published="that of every step" if is_local else "",
            setup=f"SGD 0.1, B={BATCH_SIZE}, after each epoch: {by_epoch}",
            each=" ".join(f"{o.accuracies[-1]:.2f}" for o in found),
            goal=f"at most {TOLERANCE} points less" if is_local else "",
            within=behind <= TOLERANCE if is_local else None,
        ),
        row(
            f"{name}: bytes",
            nbytes,
            "x",
            published=f"1/{interval}" if is_local else "",
            setup=f"{mean(o.nbytes for o in found) / 1e6:,.0f} MB both ways",
            goal=f"{1 / interval:.3f} ± 10%" if is_local else "",
            within=abs(nbytes * interval - 1) <= 0.1 if is_local else None,
        ),
        row(
            f"{name}: time",
            seconds,
            "x",
            published="",
            setup=f"{mean(o.seconds for o in found):.1f} s from the first milestone to the last",
        ),
    ]


def measure(options: Options) -> Iterator[Row]:
    """Train with gradients at every step, and with parameters every H steps."""
    try:
        data, name = mnist(), "MNIST"
    except DataError:
        data, name = digits(), "digits"
    ways = {0: AllReduce()} | {n: AllReduce(of="parameters", every=n) for n in INTERVALS}
    found: dict[int, list[Outcome]] = {}
    with ours.spark() as spark:
        for interval, way in ways.items():
            found[interval] = [
                train(spark, data, way, 2 if options.quick else EPOCHS, seed)
                for seed in range(options.seeds)
            ]
            what = f"{name}, local SGD, H={interval}" if interval else f"{name}, every gradient"
            say(f"local_sgd {interval}: {found[interval]}")
            yield from rows_of(what, interval, found[interval], found[0])
