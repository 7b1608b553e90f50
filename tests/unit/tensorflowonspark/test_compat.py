"""What differs from one TensorFlow, or Keras, to the next."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tos_notebook.nodes.context import NodeContext
from tos_notebook.tensorflowonspark import compat
from tos_notebook.tensorflowonspark.legacy_keras import WithLegacyKeras


class Doubler(tf.Module):
    """A module with a signature."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def __call__(self, x: Any) -> Any:
        return {"y": 2 * x}


def one_layer() -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])


@pytest.mark.parametrize("make", [one_layer, Doubler])
def test_only_the_chief_keeps_a_saved_model_that_others_can_call(make: Any, tmp_path: Path) -> None:
    model = make()
    compat.export_saved_model(model, str(tmp_path / "other"))
    compat.export_saved_model(model, str(tmp_path / "chief"), is_chief=True)
    assert [path.name for path in tmp_path.iterdir()] == ["chief"]
    loaded = tf.saved_model.load(str(tmp_path / "chief"))
    (name,) = loaded.signatures["serving_default"].structured_input_signature[1]
    given = np.ones((2, 2) if make is one_layer else (2,), np.float32)
    found = loaded.signatures["serving_default"](**{name: tf.constant(given)})
    assert [values.numpy().ravel().tolist() for values in found.values()] == [[2, 2]]


def test_a_dataset_that_is_fed_is_not_divided_among_workers() -> None:
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    off = tf.data.experimental.AutoShardPolicy.OFF
    assert options.experimental_distribute.auto_shard_policy == off


def test_a_model_that_trains_alone_fits_as_before_with_the_patch() -> None:
    def fitted() -> list[float]:
        keras.utils.set_random_seed(0)
        model = one_layer()
        model.compile("sgd", "mse", metrics=["mae"])
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        found = model.fit(x, x.sum(1), epochs=2, verbose=0).history
        return [*found["loss"], *found["mae"]]

    before = fitted()
    assert compat.patch_keras_fit()
    assert fitted() == before


@pytest.mark.parametrize(("asked", "rate"), [("1", 0.2), ("0", 0.001)])
def test_keras_two_takes_lr_where_a_program_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, asked: str, rate: float
) -> None:
    class Optimizer:
        """Drops ``lr``, as the one of tf-keras does."""

        def __init__(self, learning_rate: float = 0.001, **kwargs: Any) -> None:
            self._process_kwargs(kwargs)
            self.rate = self._build_learning_rate(learning_rate)

        def _process_kwargs(self, kwargs: dict[str, Any]) -> None:
            kwargs.pop("lr", None)
            assert not kwargs

        def _build_learning_rate(self, learning_rate: float) -> float:
            return learning_rate

    parts = ["tf_keras", "src", "optimizers", "optimizer"]
    for count in range(1, 5):
        name = ".".join(parts[:count])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["tf_keras.src.optimizers.optimizer"]._BaseOptimizer = Optimizer  # type: ignore[attr-defined]
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", asked)

    def main(args: Any, ctx: NodeContext) -> list[float]:
        return [Optimizer(lr=0.2).rate, Optimizer(0.5).rate]

    for _ in range(2):
        assert WithLegacyKeras(main)(None, NodeContext()) == [rate, 0.5]
