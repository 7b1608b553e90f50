"""Columns of a Spark DataFrame against an RDD of blocks: the same MNIST rows, fed both ways.

python -m benchmarks.throughput.dataframes [--quick]
"""

from __future__ import annotations

import itertools
from statistics import median
from typing import Any

import numpy as np

import tos_notebook as tos
from tos_notebook.blocks.block import describe
from tos_notebook.blocks.skips import SkipCounter
from tos_notebook.data.rdd import RddSource

from ..lib.data import Labelled, mnist
from ..lib.harness import Row, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, Measured, measure, spark

PARTITIONS = 2
GOAL = ">= 0.9"
FLOATS = 15_000
"""Rows of floats, which are four times as large: both ways' rows are in the memory of one JVM."""


def blocks(sc: Any, data: Labelled, pixels: bool) -> Any:
    """Return the rows as an RDD of columnar blocks, in the executors' memory."""
    x, y = _typed(data, pixels)
    bounds = itertools.pairwise([*range(0, len(x), 1000), len(x)])
    rdd = sc.parallelize([(x[a:b], y[a:b]) for a, b in bounds], PARTITIONS).cache()
    rdd.count()
    return rdd


def frame(session: Any, data: Labelled, pixels: bool) -> Any:
    """Return the rows as a DataFrame, in the executors' memory: raw bytes, or array<float>."""
    import pyarrow as pa

    x, y = _typed(data, pixels)
    values = (
        pa.array(list(map(bytes, x)))
        if pixels
        else pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1]).cast(
            pa.list_(pa.float32())
        )
    )
    table = pa.table({"pixels": values, "digit": y})
    found = session.createDataFrame(table).coalesce(PARTITIONS).cache()
    found.count()
    return found


def _typed(data: Labelled, pixels: bool) -> Labelled:
    x, y = data if pixels else (column[:FLOATS] for column in data)
    return (x if pixels else x.astype(np.float32) / np.float32(255)), y.astype(np.int64)


def compared(session: Any, data: Labelled, pixels: bool, epochs: int, rounds: int) -> list[Row]:
    """Train in turns on both; return the ratios of their rates."""
    rdd, df = blocks(session.sparkContext, data, pixels), frame(session, data, pixels)
    shapes = {"pixels": (data[0].shape[1],)} if pixels else {}
    columns = tos.columns(df, "pixels", "digit", shapes=shapes)
    found: dict[str, list[Measured]] = {"DataFrame": [], "RDD of blocks": []}
    model = network(TWO_NN, pixels=pixels)
    with tos.TrainingSession(session, model, batch_size=BATCH_SIZE) as training:
        training.run(columns, 1)
        for _ in range(rounds):
            found["DataFrame"].append(measure(training, columns, epochs))
            source = RddSource.from_decoded(rdd, describe(rdd.first()), SkipCounter())
            found["RDD of blocks"].append(measure(training, source, epochs))
    rdd.unpersist()
    df.unpersist()
    kind = "uint8" if pixels else "float32"
    return [_row(found, kind, name, epochs) for name in ("whole", "steady")]


def _row(found: dict[str, list[Measured]], kind: str, name: str, epochs: int) -> Row:
    rates = {feeding: [getattr(m, name) for m in runs] for feeding, runs in found.items()}
    ratio = median(a / b for a, b in zip(*rates.values(), strict=True))
    parts = {feeding: rate(median(values)) for feeding, values in rates.items()}
    if name == "whole":
        parts |= {
            f"{feeding}, until the first milestone": f"{median(m.until_first for m in runs):.2f} s"
            for feeding, runs in found.items()
        }
    what = {"whole": f"whole run of {epochs} epochs", "steady": "steady state"}[name]
    return Row(
        f"DataFrame / RDD of blocks, {kind}, {what}",
        ratio,
        "x",
        GOAL,
        parts,
        len(found["DataFrame"]),
    )


def run(quick: bool) -> list[Row]:
    """Measure raw bytes and arrays of floats."""
    data, _ = mnist()
    epochs, rounds = (3, 2) if quick else (10, 5)
    with spark() as session:
        return [
            row
            for pixels in (True, False)
            for row in compared(session, data, pixels, epochs, rounds)
        ]


if __name__ == "__main__":
    program(run, __doc__)
