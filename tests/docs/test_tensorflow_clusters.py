"""The programs on the pages about TensorFlow clusters run as they stand, on real digits."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.docs.pages import DOCS, ROOT, programs
from tests.support.python_workers import own_python_workers

CLUSTERS = programs(DOCS / "how-to" / "tensorflow-clusters.md")
FED = programs(DOCS / "how-to" / "tensorflowonspark.md")
SYNCHRONOUS_STEPS, BATCH, RATE = 100, 50, 0.5
"""What the program under *Synchronous* does."""


@pytest.fixture(scope="module")
def taken_for_granted(
    spark_context: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The names that both pages use without saying more: MNIST's rows if they are here."""
    from pyspark.sql import SparkSession

    from tos_notebook.demo import find_digits

    digits = find_digits(None)
    found: dict[str, Any] = {"folder": tmp_path_factory.mktemp("shared")}
    for name, (images, labels), most in (
        ("train", digits.train, 2000),
        ("test", digits.test, 400),
    ):
        scaled = images[:most].astype(np.float32) / digits.white
        found |= {f"x_{name}": scaled, f"y_{name}": labels[:most].astype(np.int64)}
    with own_python_workers(spark_context) as sc:
        yield found | {"spark": SparkSession(sc)}


@pytest.fixture(scope="module")
def names(taken_for_granted: dict[str, Any]) -> dict[str, Any]:
    """What the first program of the page on clusters defines."""
    known = dict(taken_for_granted)
    exec(CLUSTERS["TensorFlow clusters"], known)
    return known


@pytest.fixture(scope="module")
def trained(names: dict[str, Any]) -> dict[str, Any]:
    """What there is after the asynchronous training."""
    known = dict(names)
    exec(CLUSTERS["Between-graph replication"], known)
    return known


def run(program: str, known: dict[str, Any]) -> dict[str, Any]:
    """Run a program by its heading, on top of other names; return all names."""
    known = dict(known)
    exec(program, known)
    return known


def weights_of(path: str) -> list[Any]:
    """Return weights, bias and step of a checkpoint."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(path)
    return [reader.get_tensor(name) for name in ("W", "b", "global_step")]


def test_each_program_is_python_that_finds_what_it_imports() -> None:
    """Also of those that only make test-long runs."""
    for program in (*CLUSTERS.values(), *FED.values()):
        for node in ast.walk(ast.parse(program)):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                module = import_module(f"{node.module}")
                inner = f"{module.__name__}.{alias.name}"
                assert hasattr(module, alias.name) or find_spec(inner), ast.unparse(node)


@pytest.mark.long
def test_a_calculator_uses_two_servers(names: dict[str, Any]) -> None:
    assert run(CLUSTERS["A calculator on two servers"], names)["answer"] == 24


@pytest.mark.long
def test_a_mean_is_mapped_and_reduced(names: dict[str, Any]) -> None:
    known = run(CLUSTERS["A mean by map and reduce"], names)
    assert known["found"] == pytest.approx(known["numbers"].mean(), rel=1e-12)


@pytest.mark.long
def test_one_graph_trains_on_two_workers(names: dict[str, Any]) -> None:
    assert run(CLUSTERS["In-graph replication"], names)["accuracy"] > 0.7


def test_workers_train_each_by_itself_and_another_cluster_continues(
    trained: dict[str, Any],
) -> None:
    *_, before = weights_of(trained["args"]["logs"])
    assert 200 <= before <= 202
    known = run(CLUSTERS["Restore, and look at it"], trained)
    *_, after = weights_of(known["args"]["logs"])
    assert 300 <= after <= 302
    assert known["accuracy"] > 0.7
    curve = known["curve"]
    assert curve[curve.index > before].iloc[:5].mean() < 0.7 * curve.iloc[0]


@pytest.mark.long
def test_synchronous_workers_compute_what_one_process_would(trained: dict[str, Any]) -> None:
    logs = run(CLUSTERS["Synchronous"], trained)["args"]["logs"]
    x, y = trained["x_train"], trained["y_train"]
    weights, bias = np.zeros((x.shape[1], 10)), np.zeros(10)
    randoms = [np.random.default_rng(number) for number in (0, 1)]
    for _ in range(SYNCHRONOUS_STEPS):
        pieces = []
        for number, random in enumerate(randoms):
            batch = random.integers(len(x[number::2]), size=BATCH)
            pieces.append((x[number::2][batch], np.eye(10)[y[number::2][batch]]))
        images, wanted = map(np.concatenate, zip(*pieces, strict=True))
        chances = np.exp(images @ weights + bias)
        error = (chances / chances.sum(axis=1, keepdims=True) - wanted) / len(images)
        weights, bias = weights - RATE * images.T @ error, bias - RATE * error.sum(axis=0)
    found_weights, found_bias, step = weights_of(logs)
    assert step == SYNCHRONOUS_STEPS
    np.testing.assert_allclose(found_weights, weights, atol=1e-4)
    np.testing.assert_allclose(found_bias, bias, atol=1e-4)


@pytest.mark.long
def test_an_evaluator_looks_at_checkpoints(trained: dict[str, Any]) -> None:
    assert run(CLUSTERS["An evaluator"], trained)["accuracy"] > 0.7


ONCE = "Rows that Spark feeds, each of them once"


# tests/integration/test_tensorflowonspark_pipeline.py trains so, too.
@pytest.mark.long
@pytest.mark.parametrize("heading", ["MultiWorkerMirroredStrategy", ONCE, "The same by `fit`"])
def test_keras_trains_on_mirrors(names: dict[str, Any], heading: str) -> None:
    import keras

    known = run(CLUSTERS[heading], names)
    model = keras.models.load_model(known["args"]["model"])
    chances = model.predict(known["x_test"], verbose=0)
    assert np.mean(chances.argmax(axis=1) == known["y_test"]) > 0.8


@pytest.mark.long
def test_a_coordinator_schedules_the_steps(names: dict[str, Any], tmp_path: Path) -> None:
    # A program of its own: TensorFlow binds its process to the cluster.
    np.savez(tmp_path / "digits.npz", **{k: v for k, v in names.items() if k[:2] in ("x_", "y_")})
    begin = f"""
import numpy as np
import tos_notebook as tos

folder = {str(tmp_path)!r}
spark = tos.connect("local[2]")
globals().update(np.load(f"{{folder}}/digits.npz"))
"""
    end = "\nprint(float(first), float(last), float(accuracy))\n"
    parts = [CLUSTERS["TensorFlow clusters"], CLUSTERS["ParameterServerStrategy"]]
    program = tmp_path / "program.py"
    program.write_text("\n".join([begin, *parts, end]))
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, str(program)], env=environ, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    first, last, accuracy = map(float, done.stdout.splitlines()[-1].split())
    assert last < 0.7 * first
    assert accuracy > 0.8


@pytest.fixture(scope="module")
def fed(taken_for_granted: dict[str, Any]) -> dict[str, Any]:
    """What there is after the first program of the page on TensorFlowOnSpark."""
    known = dict(taken_for_granted)
    exec(FED["Feed an RDD, and predict into an RDD"], known)
    return known


@pytest.mark.long
def test_rows_are_fed_and_predicted_in_their_order(fed: dict[str, Any]) -> None:
    assert fed["accuracy"] > 0.8


@pytest.mark.long
def test_each_executor_predicts_its_share(fed: dict[str, Any]) -> None:
    assert run(FED["TFParallel"], fed)["accuracy"] > 0.8


@pytest.mark.long
def test_a_pipeline_has_an_estimator_of_tensorflow(fed: dict[str, Any]) -> None:
    known = run(FED["Pipelines"], fed)
    assert len(known["scored"]) == len(known["x_test"])
    assert known["accuracy"] > 0.8
