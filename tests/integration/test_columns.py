"""Columns of images, of arrays of any length and with holes, trained, measured and predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.long import few
from tos_notebook.errors import DataError

pytestmark = pytest.mark.usefixtures("seed")

Train = Callable[..., tos.TrainingSession]


@pytest.fixture(scope="module")
def digits(spark: Any) -> Any:
    """900 real digits of 8 x 8 pixels as PNG, in four partitions; every 100th one is broken."""
    import tensorflow as tf
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = np.rint(found.images[:900] * (255 / 16)).astype(np.uint8)[..., None]
    images = [bytes(tf.io.encode_png(image).numpy()) for image in pixels]
    rows = [
        (i, image[:40] if i % 100 == 7 else image, int(digit))
        for i, (image, digit) in enumerate(zip(images, found.target[:900], strict=True))
    ]
    schema = "id int, image binary, digit int"
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 4), schema).cache()


def reader() -> Any:
    """Return a small network for images of twice the size, in colors."""
    import keras
    from keras import layers

    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 3, activation="relu", strides=2),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def test_a_network_learns_from_encoded_images(digits: Any, train: Train) -> None:
    """Broken ones are left out of training and predicted null."""
    model = reader()
    data = tos.columns(digits, "image", "digit", on_bad="skip")
    session = train(model, batch_size=32, sync_interval=5)
    run = session.run(data, epochs=4, validation_split=0.2)
    assert sum(skipped.rows for skipped in run.skipped) == 9
    assert run.validation["accuracy"].iloc[-1] > 0.85
    accuracy = run.evaluate(data)["accuracy"]
    assert accuracy > 0.9
    scored = run.predict(tos.columns(digits, "image", on_bad="skip")).collect()
    assert [row.id for row in scored if row.prediction is None] == [*range(7, 900, 100)]
    right = [np.argmax(row.prediction) == row.digit for row in scored if row.prediction]
    assert np.mean(right) == pytest.approx(accuracy, abs=1e-6)


@pytest.mark.parametrize("limit", few([2, 8], 8))
def test_more_broken_images_than_allowed_end_the_run(digits: Any, train: Train, limit: int) -> None:
    """Of one partition where it is read, of all of them when they are known."""
    data = tos.columns(digits, "image", "digit", on_bad=f"skip:{limit}")
    session = train(reader(), batch_size=32)
    with pytest.raises(
        DataError, match=f"at most {limit} bad rows, got at least .* column 'image'"
    ):
        session.run(data, epochs=1)


def test_an_embedding_masks_what_arrays_are_filled_up_with(spark: Any, train: Train) -> None:
    """What a row is filled up with changes neither its prediction nor its label's."""
    import keras
    from keras import layers

    random = np.random.default_rng(0)
    lists = [random.integers(1, 20, random.integers(1, 9)).tolist() for _ in range(400)]
    rows = [(tokens, float(np.mean(tokens) > 10)) for tokens in lists]
    frame = spark.createDataFrame(rows, "tokens array<int>, label float")
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    hidden = layers.GlobalAveragePooling1D()(layers.Embedding(20, 4, mask_zero=True)(tokens))
    model = keras.Model(tokens, layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    data = tos.columns(frame, "tokens", "label", pad={"tokens": 8})
    run = train(model, batch_size=32).run(data, epochs=8)
    assert run.evaluate(data)["accuracy"] > 0.9
    short, long = (
        [
            r.prediction
            for r in run.predict(tos.columns(frame, "tokens", pad={"tokens": n})).collect()
        ]
        for n in (8, 30)
    )
    np.testing.assert_allclose(short, long, atol=1e-6)


@pytest.mark.long
def test_a_mask_of_its_own_and_filled_numbers_feed_one_model(spark: Any, train: Train) -> None:
    import keras
    from keras import layers, ops

    rows = [([float(n)] * (n % 5 + 1), None if n % 3 else n / 40, float(n > 20)) for n in range(40)]
    frame = spark.createDataFrame(rows, "values array<float>, age double, label float")
    values = keras.Input((4,), name="values")
    mask = keras.Input((4,), dtype="bool", name="values_mask")
    numbers = keras.Input((2,), name="numbers")
    kept = layers.Lambda(lambda pair: ops.where(pair[1], pair[0], 0.0))([values, mask])
    hidden = layers.concatenate([layers.Rescaling(1 / 40)(kept), numbers])
    model = keras.Model([values, mask, numbers], layers.Dense(1, activation="sigmoid")(hidden))
    model.compile("adam", "binary_crossentropy")
    options: Any = {
        "pad": {"values": 4}, "longer": "cut", "pad_value": -1e6, "masks": ["values"],
        "fill": {"age": "mean"}, "indicators": ["age"],
    }  # fmt: skip
    features = {"values": "values", "values_mask": "values_mask", "numbers": ["age"]}
    data = tos.columns(frame, features, "label", **options)
    run = train(model, batch_size=8).run(data, epochs=2)
    assert run.history["samples"].sum() == 80
    assert np.isfinite(run.evaluate(data)["loss"])
    assert run.predict(data).where("prediction is null").count() == 0
