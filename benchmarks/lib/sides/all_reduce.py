"""One of two workers that train together, under TensorFlow's strategy of this process.

A module of its own, since AutoGraph needs the source.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from network import network

WORKERS = 2


def train(path: str, epochs: int, batch_size: int) -> float:
    """Train from the start; return the accuracy."""
    strategy = tf.distribute.get_strategy()
    rank = strategy.cluster_resolver.task_id
    data: Any = np.load(path)
    x, y = (tf.constant(data[name][rank::WORKERS]) for name in ("x", "y"))
    model = network()
    model.optimizer.build(model.trainable_variables)

    def step(rows: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(y=labels, y_pred=model(rows, training=True)) / WORKERS
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    # Keras's own fit does not run under this strategy.
    @tf.function
    def epoch(order: Any) -> None:
        for first in tf.range(0, len(x) - batch_size + 1, batch_size):
            rows = order[first : first + batch_size]
            strategy.run(step, (tf.gather(x, rows), tf.gather(y, rows)))

    for _ in range(epochs):
        epoch(tf.random.shuffle(tf.range(len(x))))
    guesses = np.argmax(model(data["x_test"]), 1)
    return float(np.mean(guesses == data["y_test"]))
