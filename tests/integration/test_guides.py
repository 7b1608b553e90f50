"""Models of Keras' guides, as they stand there, trained by their data alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.long import few
from tos_notebook.errors import CaptureError, ConfigError, ShapeMismatch, UnsupportedProgram

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
OPTIONS: dict[str, Any] = {"batch_size": 32, "sync_interval": 5}


@pytest.fixture(autouse=True)
def _seed() -> None:
    import keras

    keras.utils.set_random_seed(0)


@pytest.mark.parametrize("strategy", few(["ps", "allreduce"], "allreduce"))
def test_steps_of_ones_own_measure_by_compiled_metrics(
    train: Train, digits: Digits, strategy: str
) -> None:
    import keras

    from tests.support.guided import Guided

    x, y, x_test, y_test = digits
    inputs = keras.Input((64,))
    hidden = keras.layers.Dense(32, "relu")(inputs)
    model = Guided(inputs, keras.layers.Dense(10, "softmax")(hidden))
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    session = train(model, strategy=strategy, batch_size=32)
    run = session.run(
        (x, y), epochs=20, validation_data=(x_test, y_test), stop_when="val_accuracy > 0.9"
    )
    assert run.validation["accuracy"].iloc[-1] > 0.9
    assert {"loss", "accuracy"} <= {*run.history.columns}
    accuracy = model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"]
    assert run.evaluate(x_test, y_test)["accuracy"] == pytest.approx(accuracy)


def autoencoder() -> Any:
    """Return keras.io's variational autoencoder, smaller: no labels, and never called itself."""
    import keras
    import tensorflow as tf
    from keras import layers, ops

    class Sampling(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.seed_generator = keras.random.SeedGenerator(1)

        def call(self, inputs: Any) -> Any:
            mean, log_variance = inputs
            noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
            return mean + ops.exp(0.5 * log_variance) * noise

    class VAE(keras.Model):
        def __init__(self, encoder: Any, decoder: Any) -> None:
            super().__init__()
            self.encoder, self.decoder = encoder, decoder
            self.total = keras.metrics.Mean(name="total_loss")
            self.reconstruction = keras.metrics.Mean(name="reconstruction_loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.total, self.reconstruction]

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                mean, log_variance, code = self.encoder(data)
                made = self.decoder(code)
                errors = keras.losses.binary_crossentropy(data, made)
                reconstruction = ops.mean(ops.sum(errors, axis=(1, 2)))
                divergence = -0.5 * (1 + log_variance - ops.square(mean) - ops.exp(log_variance))
                total = reconstruction + ops.mean(ops.sum(divergence, axis=1))
            weights = self.trainable_weights
            gradients = tape.gradient(total, weights)
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
            self.total.update_state(total)
            self.reconstruction.update_state(reconstruction)
            return {"loss": self.total.result(), "reconstruction": self.reconstruction.result()}

    image = keras.Input((8, 8, 1))
    hidden = layers.Conv2D(8, 3, activation="relu", strides=2, padding="same")(image)
    hidden = layers.Dense(16, activation="relu")(layers.Flatten()(hidden))
    mean, log_variance = layers.Dense(2)(hidden), layers.Dense(2)(hidden)
    encoder = keras.Model(image, [mean, log_variance, Sampling()([mean, log_variance])])
    code = keras.Input((2,))
    hidden = layers.Reshape((4, 4, 8))(layers.Dense(128, activation="relu")(code))
    hidden = layers.Conv2DTranspose(8, 3, activation="relu", strides=2, padding="same")(hidden)
    out = layers.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(hidden)
    model = VAE(encoder, keras.Model(code, out))
    model.compile(optimizer=keras.optimizers.Adam(0.005))
    return model


def test_a_variational_autoencoder_trains_on_images_alone(
    spark_context: Any, train: Train, digits: Digits, tmp_path: Path
) -> None:
    images = digits[0].reshape(-1, 8, 8, 1)
    model = autoencoder()
    session = train(model, **OPTIONS)
    with pytest.raises(UnsupportedProgram, match="no call and no test_step"):
        session.start(images, validation_data=images)
    run = session.run(images, epochs=4)
    first, last = (run.history[run.history["epoch"] == epoch]["loss"] for epoch in (1, 4))
    assert last.mean() < first.mean() - 5
    assert run.history["samples"].sum() == 4 * len(images)
    # Its parts predict, and are saved.
    decoded = tos.load_model(model.decoder).predict(np.zeros((1, 2), np.float32))
    np.testing.assert_allclose(decoded, model.decoder.predict(np.zeros((1, 2)), verbose=0), 1e-5)
    with pytest.raises(UnsupportedProgram, match=r"tos.load_model\(part\)"):
        run.predict(images[:2])
    with pytest.raises(UnsupportedProgram, match="save the models that it consists of"):
        run.save(str(tmp_path / "model.keras"))


def adversaries() -> Any:
    """Return keras.io's GAN, smaller: two optimizers, and a compile of its own."""
    import keras
    import tensorflow as tf
    from keras import layers

    class GAN(keras.Model):
        def __init__(self, discriminator: Any, generator: Any) -> None:
            super().__init__()
            self.discriminator, self.generator = discriminator, generator
            self.d_loss = keras.metrics.Mean(name="d_loss")
            self.g_loss = keras.metrics.Mean(name="g_loss")
            self.seed_generator = keras.random.SeedGenerator(1)
            self.built = True

        @property
        def metrics(self) -> list[Any]:
            return [self.d_loss, self.g_loss]

        def compile(self, d_optimizer: Any, g_optimizer: Any, loss_fn: Any) -> None:
            super().compile()
            self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
            self.loss_fn = loss_fn

        def train_step(self, real: Any) -> dict[str, Any]:
            if isinstance(real, tuple):
                real = real[0]
            rows = tf.shape(real)[0]
            ones, zeros = tf.ones((rows, 1)), tf.zeros((rows, 1))
            noise = keras.random.normal((rows, 8), seed=self.seed_generator)
            both = tf.concat([self.generator(noise), real], 0)
            labels = tf.concat([ones, zeros], 0)
            with tf.GradientTape() as tape:
                d_loss = self.loss_fn(labels, self.discriminator(both))
            weights = self.discriminator.trainable_weights
            self.d_optimizer.apply(tape.gradient(d_loss, weights), weights)
            with tf.GradientTape() as tape:
                g_loss = self.loss_fn(zeros, self.discriminator(self.generator(noise)))
            weights = self.generator.trainable_weights
            self.g_optimizer.apply(tape.gradient(g_loss, weights), weights)
            self.d_loss.update_state(d_loss)
            self.g_loss.update_state(g_loss)
            return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}

    dense = [layers.Dense(32), layers.LeakyReLU(negative_slope=0.2)]
    model = GAN(
        keras.Sequential([keras.Input((64,)), *dense, layers.Dense(1)]),
        keras.Sequential([keras.Input((8,)), layers.Dense(64, "sigmoid")]),
    )
    model.compile(
        keras.optimizers.Adam(0.003),
        keras.optimizers.Adam(0.003),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    return model


@pytest.mark.parametrize("kind", few(["array", "rdd", "frame", "dataset"], "dataset"))
def test_adversaries_train_with_an_optimizer_each_on_images_alone(
    spark_context: Any, train: Train, digits: Digits, kind: str
) -> None:
    pixels = digits[0]
    data: Any = pixels
    if kind == "rdd":
        data = spark_context.parallelize([(row,) for row in pixels], 2)
    elif kind == "frame":
        spark = tos.connect(spark_context, warm_up=False)
        frame = spark.createDataFrame([(row.tolist(),) for row in pixels], "pixels array<float>")
        data = tos.columns(frame, "pixels")
    elif kind == "dataset":

        def data(context: Any) -> Any:
            import tensorflow as tf

            whole = tf.data.Dataset.from_tensor_slices(pixels)
            return whole.shard(context.partitions, context.partition)

    model = adversaries()
    before = [part.get_weights()[0] for part in (model.discriminator, model.generator)]
    run = train(model, **OPTIONS).run(data, epochs=2)
    assert run.history["samples"].sum() == 2 * len(pixels)
    assert np.isfinite(run.history[["d_loss", "g_loss"]]).all(axis=None)
    for old, part in zip(before, (model.discriminator, model.generator), strict=True):
        assert (part.get_weights()[0] != old).any()


def test_adversaries_cannot_train_by_gradients_and_the_alternative_is_named(
    train: Train, digits: Digits
) -> None:
    session = train(adversaries(), strategy="allreduce", batch_size=32)
    with pytest.raises(UnsupportedProgram, match=r'strategy="ps"'):
        session.start(digits[0])


def reconstructing() -> Any:
    """Return a model that adds its loss where it is called; it has no weights yet."""
    import keras

    class Reconstructing(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.code, self.out = keras.layers.Dense(16, "relu"), keras.layers.Dense(64)

        def call(self, x: Any) -> Any:
            made = self.out(self.code(x))
            self.add_loss(keras.ops.mean((made - x) ** 2))
            return made

    model = Reconstructing()
    model.compile(keras.optimizers.Adam(0.01))
    return model


def test_an_added_loss_trains_without_labels_and_without_a_call_before(
    train: Train, digits: Digits
) -> None:
    x, _, x_test, _ = digits
    model = reconstructing()
    session = train(model, **OPTIONS)
    with pytest.raises(CaptureError, match="The first run makes them"):
        _ = session.program
    run = session.run(x, epochs=4, validation_data=x_test)
    assert run.validation["loss"].iloc[-1] == pytest.approx(model.evaluate(x_test, verbose=0))
    assert run.evaluate(x_test)["loss"] < 0.05
    np.testing.assert_allclose(
        run.predict(x_test[:5]), model.predict(x_test[:5], verbose=0), atol=1e-5
    )


def test_an_autoencoder_takes_its_input_as_label(train: Train, digits: Digits) -> None:
    import keras

    x = digits[0]
    model = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(64)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    session = train(model, **OPTIONS)
    with pytest.raises(ShapeMismatch, match=r"takes its input as the label as well: \(x, x\)"):
        session.start(x)
    assert session.run((x, x), epochs=4).evaluate(x, x)["loss"] < 0.05


def test_inputs_by_name_make_the_weights_of_a_model(train: Train, digits: Digits) -> None:
    import keras

    class Halves(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = keras.layers.Dense(16), keras.layers.Dense(10, "softmax")

        def call(self, inputs: Any) -> Any:
            return self.out(self.hidden(inputs["top"]) - self.hidden(inputs["bottom"]))

    x, y, *_ = digits
    model = Halves()
    model.compile("adam", "sparse_categorical_crossentropy")
    run = train(model, **OPTIONS).run(({"top": x[:, :32], "bottom": x[:, 32:]}, y))
    assert {feed.name for feed in run.program.feeds} == {"top", "bottom", "y"}


def test_data_that_a_model_cannot_be_called_on_say_what_was_tried(
    train: Train, digits: Digits
) -> None:
    import keras

    model = keras.Sequential([keras.layers.Conv2D(2, 3), keras.layers.Dense(10)])
    model.compile("adam", "mse")
    with pytest.raises(CaptureError, match=r"float32 of shape \(64,\)"):
        train(model).start(digits[:2])


def test_a_stateful_layer_says_before_it_trains_which_batches_it_takes(
    train: Train, digits: Digits
) -> None:
    import keras

    x, y = digits[0].reshape(-1, 8, 8), digits[1]
    parts = [keras.layers.LSTM(8, stateful=True), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential([keras.Input(batch_shape=(32, 8, 8)), *parts])
    model.compile("adam", "sparse_categorical_crossentropy")
    with pytest.raises(ConfigError, match="batch_size: expected 32"):
        train(model, batch_size=16).start((x, y))
    session = train(model, batch_size=32)
    with pytest.raises(ShapeMismatch, match="expected a multiple of 64 rows in 2 partitions"):
        session.start((x, y))
    run = session.run((x[:1408], y[:1408]))
    assert run.history["samples"].sum() == 1408


@pytest.mark.long
def test_a_run_without_labels_continues_from_its_checkpoint(
    spark_context: Any, train: Train, digits: Digits, tmp_path: Path
) -> None:
    x, _, x_test, _ = digits
    session = train(reconstructing(), checkpoint_dir=f"file://{tmp_path}", **OPTIONS)
    run = session.run(x, epochs=1, checkpoint_every=5)
    model = reconstructing()
    model(x[:1])
    again = tos.resume(run.uri, spark=spark_context, program=model, epochs=3)
    again.wait(60)
    assert again.evaluate(x_test)["loss"] == pytest.approx(model.evaluate(x_test, verbose=0))
    assert again.evaluate(x_test)["loss"] < run.evaluate(x_test)["loss"]
