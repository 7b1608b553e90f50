"""Real Spark, real TensorFlow: small models and data that they learn quickly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.watching import Watch
from tos_notebook.common.arrays import Buffer
from tos_notebook.program.export.base import Program


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """scikit-learn's real digits: train images and labels, test images and labels."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    parts = train_test_split(x, y, train_size=1437, stratify=y, random_state=0)
    return parts[0], parts[2], parts[1], parts[3]


def classifier(rate: float = 0.5) -> Any:
    """Return a compiled Keras classifier of 8x8 digits."""
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")]
    )
    optimizer = keras.optimizers.SGD(rate)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


@cache
def _captured(make: Callable[[], Program], number: int) -> tuple[Program, Buffer]:
    program = make()
    return program, program.read()


def shared(make: Callable[[], Program], number: int = 0) -> Program:
    """Return a program that is captured once, with its first values.

    Tests that train it one after the other share what is exported, and what workers have loaded.

    Parameters
    ----------
    make : callable
    number : int
        Of another number it is another program, which a test trains at the same time.
    """
    program, first = _captured(make, number)
    program.write(first)
    return program


def captured_classifier(number: int = 0) -> Program:
    """Return `classifier`, captured; shared with other tests, see `shared`."""
    return shared(_captured_classifier, number)


def _captured_classifier() -> Program:
    return tos.capture(classifier())


def counter() -> Program:
    """Return `new_counter`, shared with other tests."""
    return shared(new_counter)


def new_counter() -> Program:
    """Return a graph program whose only parameter adds up every row it is trained on.

    With a combiner that adds changes, the result is the exact sum over all batches that were
    applied: a batch lost or applied twice changes it.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        rows = v1.placeholder(tf.float64, [None], name="rows")
        total = v1.get_variable("total", initializer=np.zeros(2))
        # The second element counts rows.
        change = tf.stack([tf.reduce_sum(rows), tf.cast(tf.size(rows), tf.float64)])
        count = v1.assign_add(total, change)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        return tos.capture(count, feeds=[rows], loss=tf.reduce_mean(rows), session=session)


@pytest.fixture
def train(spark_context: Any) -> Iterator[Callable[..., tos.TrainingSession]]:
    """Make training sessions that are closed afterwards, leaving no thread behind."""
    before = {t for t in threading.enumerate() if t.name.startswith("tos-")}
    sessions: list[tos.TrainingSession] = []

    def make(program: Any, **options: Any) -> tos.TrainingSession:
        sessions.append(tos.TrainingSession(spark_context, program, **options))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()
    left = {t for t in threading.enumerate() if t.name.startswith("tos-")} - before
    assert not left, f"threads left behind: {left}"


@pytest.fixture
def seed() -> None:
    import keras

    keras.utils.set_random_seed(0)


@pytest.fixture(scope="session")
def spark(spark_context: Any) -> Any:
    return tos.connect(spark_context, warm_up=False)


@pytest.fixture
def watch() -> Watch:
    return Watch()
