"""The programs on the page "Coming from ..." run as they stand, on real digits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.docs.pages import DOCS, programs

PAGE = DOCS / "how-to" / "coming-from.md"
HELD_OUT = 300


def images() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return scikit-learn's digits at the size of MNIST's."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    large = np.kron(x.reshape(-1, 8, 8) * 15.9, np.ones((3, 3))).astype(np.uint8)
    return np.pad(large, ((0, 0), (2, 2), (2, 2))).reshape(-1, 784), y


@pytest.fixture(scope="module")
def names(spark_context: Any) -> dict[str, Any]:
    """What the page takes for granted."""
    import keras
    from pyspark.sql import SparkSession

    import tos_notebook as tos

    keras.utils.set_random_seed(0)
    x, y = images()
    known = {"spark": SparkSession.builder.getOrCreate(), "tos": tos, "np": np, "keras": keras}
    known |= {"x_train": x[HELD_OUT:], "y_train": y[HELD_OUT:], "layers": keras.layers}
    return known | {"x_test": x[:HELD_OUT], "y_test": y[:HELD_OUT]}


def test_the_page_has_a_program_for_each_neighbour() -> None:
    assert list(programs(PAGE)) == ["TensorFlowOnSpark", "Elephas", "dist-keras"]


@pytest.mark.long
def test_tensorflowonspark(names: dict[str, Any], tmp_path: Path) -> None:
    # A convolution on each takes its time, and some hundreds are enough to learn.
    x, y = names["x_train"][:900], names["y_train"][:900]
    csv = tmp_path / "mnist.csv"
    rows = np.column_stack([y, x])
    csv.write_text("\n".join(",".join(map(str, row)) for row in rows.tolist()))
    paths = {"csv": str(csv), "export_dir": str(tmp_path / "m"), "output": str(tmp_path / "out")}
    exec(programs(PAGE)["TensorFlowOnSpark"], names | paths)
    lines = [line for part in sorted((tmp_path / "out").glob("part-*")) for line in part.open()]
    pairs = np.array([tuple(map(int, re.findall(r"\d+", line))) for line in lines])
    np.testing.assert_array_equal(pairs[:, 0], y)
    assert np.mean(pairs[:, 0] == pairs[:, 1]) > 0.8


@pytest.mark.long
def test_elephas(names: dict[str, Any]) -> None:
    known = dict(names)
    exec(programs(PAGE)["Elephas"], known)
    assert known["accuracy"] > 0.8


@pytest.mark.long
def test_dist_keras(names: dict[str, Any]) -> None:
    spark = names["spark"]
    known = dict(names)
    for name, part in (("training_set", "train"), ("test_set", "test")):
        pixels = names[f"x_{part}"].astype(np.float32).tolist()
        rows = zip(pixels, names[f"y_{part}"].tolist(), strict=True)
        schema = "pixels array<float>, digit int"
        # Spark would look at the type of each pixel.
        known[name] = spark.createDataFrame(list(rows), schema, verifySchema=False).cache()
    exec(programs(PAGE)["dist-keras"], known)
    assert len(known["accuracies"]) == 4
    assert min(known["accuracies"].values()) > 0.8, known["accuracies"]
