"""Columns of strings against the same columns as numbers, indexed before the run.

Twenty columns of strings and thirty of numbers. The model looks the strings up and embeds them;
beside it a model embeds the numbers that the strings stand for. Once each column goes to an input
of its own, and once all strings go to one input and all numbers to another.

    python -m benchmarks.throughput.strings [--quick]
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import tos_notebook as tos

from ..lib.harness import Row, program, rate
from ..lib.ours import BATCH_SIZE, Measured, measure, spark

ROWS, PARTITIONS = 40_000, 2
STRINGS, NUMBERS, VALUES = 20, 30, 50
GOAL = ">= 0.8"
WORDS = np.array([f"category {number}" for number in range(VALUES)])
TEXT = [f"s{i}" for i in range(STRINGS)]
INDEXED = [f"i{i}" for i in range(STRINGS)]
FLOATS = [f"x{i}" for i in range(NUMBERS)]


def frame(session: Any) -> Any:
    """Return the rows, in the executors' memory: each string also by its number."""
    random = np.random.default_rng(0)
    codes = random.integers(0, VALUES, (STRINGS, ROWS), np.int32)
    columns: dict[str, Any] = {name: WORDS[c] for name, c in zip(TEXT, codes, strict=True)}
    columns |= dict(zip(INDEXED, codes, strict=True))
    columns |= {name: random.standard_normal(ROWS, np.float32) for name in FLOATS}
    columns["y"] = (codes.sum(0) % 2).astype(np.float32)
    found = session.createDataFrame(pa.table(columns)).coalesce(PARTITIONS).cache()
    found.count()
    return found


def model(text: bool, apart: bool) -> Any:
    """Return a compiled model of the strings, or of their numbers."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(0)
    dtype = "string" if text else "int32"
    if apart:
        categories = [keras.Input((1,), name=n, dtype=dtype) for n in (TEXT if text else INDEXED)]
        numbers = [keras.Input((1,), name=name) for name in FLOATS]
    else:
        categories = [keras.Input((STRINGS,), name="categories", dtype=dtype)]
        numbers = [keras.Input((NUMBERS,), name="numbers")]
    parts = list(numbers)
    for column in categories:
        found = layers.StringLookup(vocabulary=WORDS, num_oov_indices=1)(column) if text else column
        parts.append(layers.Flatten()(layers.Embedding(VALUES + 1, 8)(found)))
    hidden = layers.Dense(64, activation="relu")(
        layers.Dense(128, activation="relu")(layers.concatenate(parts))
    )
    made = keras.Model([*categories, *numbers], layers.Dense(1, activation="sigmoid")(hidden))
    made.compile("adam", "binary_crossentropy")
    return made


def compared(session: Any, df: Any, apart: bool, epochs: int, rounds: int) -> list[Row]:
    """Train in turns on both; return the ratios of their rates."""
    sides = {}
    for name, text in (("strings", True), ("numbers", False)):
        columns = TEXT if text else INDEXED
        features: Any = [*columns, *FLOATS] if apart else {"categories": columns, "numbers": FLOATS}
        program = tos.capture(model(text, apart))
        sides[name] = (
            tos.TrainingSession(session, program, batch_size=BATCH_SIZE),
            tos.columns(df, features, "y"),
        )
    found: dict[str, list[Measured]] = {name: [] for name in sides}
    try:
        for training, data in sides.values():
            training.run(data, 1)
        for number in range(rounds):
            for name in [*sides][:: 1 if number % 2 else -1]:
                found[name].append(measure(*sides[name], epochs))
    finally:
        for training, _ in sides.values():
            training.close()
    return [_row(found, apart, name, epochs) for name in ("whole", "steady")]


def _row(found: dict[str, list[Measured]], apart: bool, name: str, epochs: int) -> Row:
    rates = {side: [getattr(m, name) for m in runs] for side, runs in found.items()}
    ratios = [a / b for a, b in zip(*rates.values(), strict=True)]
    parts = {side: rate(median(values)) for side, values in rates.items()}
    parts["range of the ratio"] = f"{min(ratios):.3f} to {max(ratios):.3f}"
    inputs = "50 inputs" if apart else "2 inputs"
    what = {"whole": f"whole run of {epochs} epochs", "steady": "steady state"}[name]
    return Row(
        f"strings / numbers, {inputs}, {what}", median(ratios), "x", GOAL, parts, len(ratios)
    )


def run(quick: bool) -> list[Row]:
    """Measure an input for each column, and one for all of a kind."""
    epochs, rounds = (2, 2) if quick else (5, 15)
    with spark() as session:
        df = frame(session)
        return [
            row for apart in (True, False) for row in compared(session, df, apart, epochs, rounds)
        ]


if __name__ == "__main__":
    program(run, __doc__)
