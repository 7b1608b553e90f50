"""A task has the parameters by the layout of the program as its strategy trains it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.followed import followed
from tos_notebook.coordination.present import PresentParameters


def embedded(units: int) -> Any:
    """Return a compiled model with a table of more than 1 MB."""
    import keras

    layers = [
        keras.Input((1,), dtype="int32"),
        keras.layers.Embedding(20_000, 16),
        keras.layers.Flatten(),
        keras.layers.Dense(units),
    ]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    return model


def scaled() -> Any:
    """Return a compiled model whose optimizer scales the loss."""
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="mixed_float16")])
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
    return model


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("units", [10, 16, None])
def test_the_model_gets_each_weight_that_the_task_has_trained(
    units: int | None, gradients: bool
) -> None:
    """A table of 16 units has the length of both layouts, but another place in each."""
    model = scaled() if units is None else embedded(units)
    program = tos.capture(model)
    trained = program.for_gradients() if gradients else program
    assert trained.layout != program.layout or not gradients
    expected = {
        spec.name: np.random.default_rng(i).random(spec.shape, np.float32)
        for i, spec in enumerate(trained.layout.of_model.specs)
    }
    buffer = trained.layout.allocate()
    tensors = trained.layout.tensors(buffer)
    for name, value in expected.items():
        tensors[name][...] = value
    run = followed(program, gradients=gradients, state="finished")
    run.lifecycle.finish([buffer.tobytes()], None)
    assert run.parts.training.error is None
    for weight, value in zip(model.trainable_variables, expected.values(), strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    for name, value in run.parameters().items():
        np.testing.assert_array_equal(value, expected[name])


def test_after_a_swap_the_task_still_reads_by_the_layout_that_the_run_began_with() -> None:
    """So what the notebook was told at the start holds until the run's end."""

    class Held:
        torn, version = None, 1

        def __init__(self, program: Any) -> None:
            self.layout, self.buffer = program.layout, program.read()

        def read(self, out: Any = None, patience: float | None = None) -> tuple[Any, int]:
            return self.buffer.copy(), 1

    program = tos.capture(embedded(16))
    steps: Any = Held(program)
    gradients: Any = Held(program.for_gradients())
    for before, after in ((steps, gradients), (gradients, steps)):
        present = PresentParameters(before)
        for swapped in (after, before):
            present.change_hands(swapped)
            np.testing.assert_array_equal(present.read()[0], before.buffer)
