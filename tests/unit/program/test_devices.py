"""Where a worker's program lies: on the CPU, or where TensorFlow puts it."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf

from tos_notebook.errors import WorkerEnvironment
from tos_notebook.program.capture import capture
from tos_notebook.runtime.runner import CPU, TensorFlowRunner, device_for


@pytest.mark.parametrize(
    ("given", "seen", "device"), [([], 2, CPU), (["1"], 1, None), (["0", "3"], 2, None)]
)
def test_a_program_lies_on_a_gpu_where_spark_gave_one(
    monkeypatch: pytest.MonkeyPatch, given: list[str], seen: int, device: str | None
) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [object()] * seen)
    assert device_for(given) == device


@pytest.mark.parametrize("seen", [0, 4])
def test_gpus_that_tensorflow_does_not_see_or_too_many_are_told(
    monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [object()] * seen)
    with pytest.raises(WorkerEnvironment, match=f"this task GPU 1 of .* sees {seen} GPUs there"):
        device_for(["1"])


@pytest.fixture
def strict() -> Iterator[None]:
    """TensorFlow refuses a device that is not there, instead of taking another one."""
    tf.config.set_soft_device_placement(False)
    yield
    tf.config.set_soft_device_placement(True)


def test_variables_are_put_where_they_are_to_be(strict: None) -> None:
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    program = capture(model)
    archive = program.export([("float32", (5,)), ("float32", (1,))])
    with pytest.raises(tf.errors.InvalidArgumentError, match="CPU:7"):
        TensorFlowRunner(archive, "CPU:7")
    runner = TensorFlowRunner(archive, None)
    columns = [np.ones((8, 5), np.float32), np.ones((8, 1), np.float32)]
    trained = runner.train(program.layout.vectors(program.read()), columns, 4)
    assert np.isfinite(trained.values["loss"])
