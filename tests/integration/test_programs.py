"""Every kind of program that can be trained, on real Spark, which knows none of its classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.long import few
from tos_notebook.errors import CaptureError

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(autouse=True)
def _policy() -> Iterator[None]:
    import keras

    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


def module() -> tuple[Any, dict[str, Any]]:
    """Return a module of TensorFlow's for digits, and what else is to be captured."""
    import keras
    import tensorflow as tf

    class Network(tf.Module):
        def __init__(self) -> None:
            super().__init__(name="network")
            self.w1 = tf.Variable(0.1 * tf.random.stateless_normal([64, 32], [0, 1]))
            self.w2 = tf.Variable(0.1 * tf.random.stateless_normal([32, 10], [2, 3]))
            self.mean = tf.Variable(tf.zeros([64]), trainable=False)

        @tf.function
        def __call__(self, x: Any, training: bool = False) -> Any:
            if training:
                self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x, 0))
            return tf.nn.relu((x - self.mean) @ self.w1) @ self.w2

    model = Network()

    def loss(x: Any, y: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))

    return model, {
        "loss": loss,
        "metrics": {"accuracy": lambda x, y: tf.equal(tf.argmax(model(x), 1), y)},
        "predict": lambda x: tf.nn.softmax(model(x)),
        "optimizer": keras.optimizers.Adam(0.01),
        "feeds": [tf.TensorSpec([None, 64]), tf.TensorSpec([None], tf.int64)],
    }


def test_a_module_learns_digits_and_holds_the_trained_values(
    spark_context: Any, train: Train, digits: Digits
) -> None:
    x, y, x_test, y_test = digits
    model, options = module()
    program = tos.capture(model, **options)
    session = train(program, batch_size=32, sync_interval=5, optimizer_state="reset")
    run = session.run((x, y), epochs=8, validation_data=(x_test, y_test))
    found = run.evaluate(x_test, y_test)
    assert found["accuracy"] > 0.93
    assert run.validation["accuracy"].iloc[-1] == pytest.approx(found["accuracy"])
    rdd = spark_context.parallelize(list(zip(x_test, y_test, strict=True)), 2)
    assert run.program.evaluate(rdd)["accuracy"] == pytest.approx(found["accuracy"])
    predicted = np.stack(run.program.predict(rdd).collect()).argmax(1)
    assert np.mean(predicted == y_test) == pytest.approx(found["accuracy"])
    assert {*run.history.columns} >= {"loss", "accuracy"}
    np.testing.assert_array_equal(model.w1, run.parameters()["w1"])
    # A moving average of its inputs, which Spark's workers have found together.
    np.testing.assert_allclose(model.mean, x.mean(0), atol=0.1)
    assert model.mean.numpy().any()


def own_classes() -> tuple[Any, Any]:
    """Return a model with a call and a train_step of its own, and a metric of its own."""
    import keras
    import tensorflow as tf

    class Magnitude(keras.metrics.Metric):
        """Mean of the largest output: no function of Keras', and weighted by rows."""

        def __init__(self) -> None:
            super().__init__(name="magnitude")
            self.total = self.add_variable((), "zeros", name="total")
            self.rows = self.add_variable((), "zeros", name="rows")

        def update_state(self, y: Any, predicted: Any, sample_weight: Any = None) -> None:
            self.total.assign_add(tf.reduce_sum(tf.reduce_max(predicted, 1)))
            self.rows.assign_add(tf.cast(tf.shape(predicted)[0], tf.float32))

        def result(self) -> Any:
            return self.total / self.rows

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = keras.layers.Dense(32, "relu")
            self.out = keras.layers.Dense(10, "softmax")

        def call(self, x: Any) -> Any:
            return self.out(self.hidden(x))

        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                predicted = self(x, training=True)
                loss = self.compute_loss(x, y, predicted)
            weights = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return {**self.compute_metrics(x, y, predicted), "loss": loss}

    model = Own()
    model(np.zeros((1, 64), np.float32))
    return model, Magnitude()


def test_a_subclass_with_a_step_of_its_own_learns_digits(train: Train, digits: Digits) -> None:
    x, y, x_test, y_test = digits
    model, metric = own_classes()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy", metric])
    run = train(model, batch_size=32, sync_interval=5).run((x, y), epochs=20)
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.93
    assert {*run.history.columns} >= {"loss", "accuracy", "magnitude"}


def test_a_metric_of_the_users_own_is_that_of_all_rows_once_weighted_by_samples(
    spark_context: Any, train: Train, digits: Digits
) -> None:
    """On weights that stay: three unequal partitions, batches and milestones of unequal sizes."""
    import keras

    x, y, *_ = digits
    model, metric = own_classes()
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy", metrics=[metric])
    sizes = [700, 30, 500]
    ends = np.cumsum(sizes)
    parts = [
        list(zip(x[e - n : e], y[e - n : e], strict=True)) for e, n in zip(ends, sizes, strict=True)
    ]
    rdd = spark_context.parallelize(range(3), 3).flatMap(lambda p: parts[p])
    session = train(model, batch_size=32, sync_interval=7)
    history = session.run(rdd, epochs=2, shuffle="partitions").history
    assert history["samples"].nunique() > 2
    expected = model.predict(x[: ends[-1]], verbose=0).max(1)
    for _, rows in history.groupby("epoch"):
        found = np.average(rows["magnitude"], weights=rows["samples"])
        assert found == pytest.approx(expected.mean(), rel=1e-5)
    small = history[history["partition"] == 1].iloc[0]
    assert small["magnitude"] == pytest.approx(expected[700:730].mean(), rel=1e-5)


def headed(seed: int = 0) -> Any:
    """Return a classifier: a frozen base with normalisation, and a head to train."""
    import keras

    keras.utils.set_random_seed(seed)
    parts = [keras.layers.Dense(64, "relu"), keras.layers.BatchNormalization()]
    base = keras.Sequential([keras.Input((64,)), *parts], name="base")
    base.trainable = False
    model = keras.Sequential([keras.Input((64,)), base, keras.layers.Dense(10, "softmax")])
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def test_a_frozen_base_is_not_exchanged_and_the_run_can_be_resumed(
    spark_context: Any, train: Train, digits: Digits, tmp_path: Path
) -> None:
    x, y, x_test, y_test = digits
    model = headed()
    before = model.layers[0].get_weights()
    session = train(model, batch_size=32, sync_interval=5, checkpoint_dir=f"file://{tmp_path}")
    run = session.run((x, y), epochs=6, checkpoint_every=20)
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.8
    assert run.program.layout.size == 64 * 10 + 10
    assert set(run.history["bytes_up"]) == {run.program.layout.nbytes}
    for old, new in zip(before, model.layers[0].get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    with pytest.raises(CaptureError, match="frozen weights have other values"):
        tos.resume(run.uri, spark=spark_context, program=headed(seed=1), epochs=8)
    anew = headed()
    again = tos.resume(run.uri, spark=spark_context, program=anew, epochs=8)
    again.wait(60)
    assert again.evaluate(x_test, y_test)["accuracy"] > 0.8
    np.testing.assert_array_equal(anew.layers[0].get_weights()[0], before[0])


@pytest.mark.parametrize("policy", few(["mixed_float16", "mixed_bfloat16"], "mixed_float16"))
def test_mixed_precision_learns_digits(train: Train, digits: Digits, policy: str) -> None:
    import keras

    x, y, x_test, y_test = digits
    keras.config.set_dtype_policy(policy)
    parts = [keras.layers.Dense(32, "relu"), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input((64,)), *parts, keras.layers.Dense(10, "softmax")])
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (policy == "mixed_float16")
    session = train(model, batch_size=32, sync_interval=5, optimizer_state="reset")
    run = session.run((x, y), epochs=8)
    assert {spec.dtype for spec in run.program.layout.specs} == {"float32"}
    assert np.isfinite(run.history["loss"]).all()
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.85
