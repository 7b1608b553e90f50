"""A Keras model whose steps are its own, as Keras' guide writes them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class Guided(keras.Model):
    """Both steps as Keras' guide writes them: what is compiled is one metric that has several."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predicted)
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return self._measured(loss, y, predicted)

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        predicted = self(x, training=False)
        return self._measured(self.compute_loss(y=y, y_pred=predicted), y, predicted)

    def _measured(self, loss: Any, y: Any, predicted: Any) -> dict[str, Any]:
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}
