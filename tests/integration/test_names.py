"""Inputs and outputs by name, whatever kind the data are: what tos learns is what Keras learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tos_notebook import errors

Train = Callable[..., tos.TrainingSession]

RNG = np.random.default_rng(0)
A, B = (RNG.normal(size=(64, 1)).astype(np.float32) for _ in range(2))
Y = 3 * A
ROWS = [tuple(float(v) for v in row) for row in np.hstack([A, B, Y])]


def summing(form: str) -> Any:
    """Return a model of wa a + wb b, whose inputs are written as b, a."""
    import keras

    keras.utils.set_random_seed(0)
    b, a = keras.Input((1,), name="b"), keras.Input((1,), name="a")
    one = keras.layers.Dense(1, use_bias=False, name="wa")(a)
    other = keras.layers.Dense(1, use_bias=False, name="wb")(b)
    inputs = [b, a] if form == "list" else {"b": b, "a": a}
    model = keras.Model(inputs, keras.layers.Add(name="out")([one, other]))
    model.compile(keras.optimizers.SGD(0.3), "mse")
    return model


def forked() -> Any:
    """Return a model of one input, whose outputs are written as z, a."""
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((1,), name="x")
    heads = {name: keras.layers.Dense(1, use_bias=False, name=f"w{name}")(x) for name in "za"}
    model = keras.Model(x, heads)
    model.compile(keras.optimizers.SGD(0.3), {"z": "mse", "a": "mse"})
    return model


def weights(model: Any) -> dict[str, float]:
    return {w.path.split("/")[0]: float(w.value.numpy().item()) for w in model.weights}


def dataset(x: Any, y: Any) -> Callable[[Any], Any]:
    def make(ctx: Any) -> Any:
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices((x, y))

    return make


@pytest.fixture(scope="module")
def frame(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    return spark.createDataFrame(ROWS, "a float, b float, y float").coalesce(1)


SUMMED: dict[str, Callable[[Any], Any]] = {
    "arrays by name": lambda frame: ({"a": A, "b": B}, Y),
    "arrays by position": lambda frame: (B, A, Y),
    "dataset": lambda frame: dataset({"a": A, "b": B}, Y),
    "dataset with named labels": lambda frame: dataset({"a": A, "b": B}, {"out": Y}),
    "RDD by position": lambda frame: frame.rdd.map(lambda row: ([row.b], [row.a], [row.y])),
    "columns named as the inputs": lambda frame: _columns(frame, ["a", "b"], "y"),
    "columns in the order of definition": lambda frame: _columns(frame, ["b", "a"], "y"),
    "columns by a mapping": lambda frame: _columns(
        frame.toDF("one", "two", "y"), {"a": "one", "b": "two"}, {"out": "y"}
    ),
}


def _columns(frame: Any, features: Any, label: Any) -> Any:
    return tos.columns(frame, features, label, shapes=dict.fromkeys(frame.columns, (1,)))


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        (
            "list",
            [
                *("arrays by name", "dataset with named labels", "RDD by position"),
                *("columns named as the inputs", "columns by a mapping"),
            ],
        ),
        pytest.param("list", [*SUMMED], marks=pytest.mark.long),
        # Captured, both forms are feeds with names: these show that they are the same ones.
        pytest.param(
            "dict",
            ["arrays by name", "arrays by position", "dataset"],
            marks=pytest.mark.long,
        ),
    ],
    ids=["list", "list, all", "dict"],
)
def test_each_input_learns_the_weight_that_keras_learns(
    train: Train, frame: Any, form: str, kinds: list[str]
) -> None:
    expected = summing(form)
    expected.fit({"a": A, "b": B}, Y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    assert weights(expected) == pytest.approx({"wa": 3.0, "wb": 0.0}, abs=0.05)
    program = tos.capture(summing(form))
    first = program.read()
    session = train(program, combiner="downpour", batch_size=16, sync_interval=1)
    known = {"validation_data": ({"a": A, "b": B}, Y)}
    for kind in kinds:
        program.write(first)
        session.run(SUMMED[kind](frame), epochs=2, partitions=1, shuffle=False, **known)
        assert weights(program.model) == pytest.approx(weights(expected), abs=1e-4), kind
        # Once is enough: their names do not depend on what trains.
        known = {}


FORKED: dict[str, Callable[[Any], Any]] = {
    "arrays by name": lambda frame: (A, {"a": 3 * A, "z": -A}),
    "arrays by position": lambda frame: (A, -A, 3 * A),
    "dataset": lambda frame: dataset(A, {"a": 3 * A, "z": -A}),
    "columns named as the outputs": lambda frame: _columns(_labeled(frame), "x", ["a", "z"]),
    "columns in the order of definition": lambda frame: _columns(_labeled(frame), "x", ["z", "a"]),
    "columns by a mapping": lambda frame: _columns(
        _labeled(frame).toDF("x", "three", "minus"), {"x": "x"}, {"a": "three", "z": "minus"}
    ),
}


def _labeled(frame: Any) -> Any:
    return frame.selectExpr("a as x", "y as a", "-a as z")


@pytest.mark.parametrize(
    "kinds",
    [
        ["arrays by name", "columns by a mapping"],
        pytest.param([*FORKED], marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_each_output_learns_the_weight_that_keras_learns(
    train: Train, frame: Any, kinds: list[str]
) -> None:
    expected = forked()
    expected.fit(A, {"a": 3 * A, "z": -A}, batch_size=16, epochs=2, shuffle=False, verbose=0)
    assert weights(expected) == pytest.approx({"wa": 3.0, "wz": -1.0}, abs=0.05)
    program = tos.capture(forked())
    first = program.read()
    session = train(program, combiner="downpour", batch_size=16, sync_interval=1)
    for kind in kinds:
        program.write(first)
        run = session.run(FORKED[kind](frame), epochs=2, partitions=1, shuffle=False)
        assert weights(program.model) == pytest.approx(weights(expected), abs=1e-4), kind
    # Another order of names is another order of the same columns.
    for names in (["z", "a"], ["a", "z"]):
        scored = run.predict(_columns(frame.select("b"), {"x": "b"}, ()), output=names)
        row = scored.first()
        assert (row.a, row.z) == pytest.approx((3 * row.b, -row.b), abs=0.2)
    z, a = run.predict(A)
    np.testing.assert_allclose(np.hstack([z, a]), np.hstack([-A, 3 * A]), atol=0.2)


def test_predictions_and_evaluations_go_by_name(train: Train, frame: Any) -> None:
    model = summing("dict")
    model.set_weights([np.full((1, 1), value) for value in _wanted(model)])
    expected = model.predict({"a": A, "b": B}, verbose=0)[:, 0]
    np.testing.assert_allclose(expected, Y[:, 0], rtol=1e-5)
    program = tos.capture(model)
    for served in (program, tos.load_model(model)):
        for features in (["a", "b"], ["b", "a"], {"a": "a", "b": "b"}):
            rows = served.predict(_columns(frame, features, ())).collect()
            np.testing.assert_allclose([row.prediction for row in rows], expected, rtol=1e-5)
        found = served.predict({"a": A, "b": B})
        np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)
    for data in (({"a": A, "b": B}, Y), _columns(frame, ["a", "b"], "y")):
        assert program.evaluate(data)["loss"] == pytest.approx(0.0, abs=1e-6)
    scored = program.predict(_columns(frame, {"a": "a", "b": "b"}, {"out": "y"}))
    np.testing.assert_allclose([r.prediction for r in scored.collect()], expected, rtol=1e-5)


def _wanted(model: Any) -> list[float]:
    return [3.0 if weight.path.startswith("wa") else 0.0 for weight in model.weights]


def test_names_at_the_wrong_place_are_refused_before_anything_is_trained(
    train: Train, frame: Any
) -> None:
    renamed = frame.toDF("a", "c", "y")
    session = train(summing("list"), combiner="downpour")
    with pytest.raises(errors.ShapeMismatch, match="a -> b, c -> a"):
        session.run(tos.columns(renamed, ["a", "c"], "y"))
    with pytest.raises(errors.ShapeMismatch, match="'b', 'a', got 'left', 'right'"):
        session.run(dataset({"left": A, "right": B}, Y))


@pytest.mark.long
def test_the_estimator_feeds_columns_by_the_names_of_inputs(frame: Any) -> None:
    from tos_notebook.ml import TensorEstimator

    model = summing("list")
    estimator = TensorEstimator(
        model=model, inputCols=["a", "b"], labelCol="y", epochs=8, batchSize=16, combiner="downpour"
    )
    fitted = estimator.fit(frame)
    assert weights(fitted.model) == pytest.approx({"wa": 3.0, "wb": 0.0}, abs=0.05)
    row = fitted.transform(frame).first()
    assert row.prediction == pytest.approx(row.y, abs=0.1)
