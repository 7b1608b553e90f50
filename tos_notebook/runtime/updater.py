"""Load the optimizer of an exported program, and let it make steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..archive.spec import ProgramSpec, read_spec
from ..common.arrays import Array
from ..errors import InvalidTransition
from .import_guard import without_keras
from .saved import CPU, SavedFunction, as_tensor, load_saved

with without_keras():
    import tensorflow as tf

from .eager import eagerly


class TensorFlowUpdater:
    """Makes an optimizer's steps, with the state that it keeps; see `archive.runner.Updater`.

    Parameters
    ----------
    spec : ProgramSpec
        Of a program that was exported for gradients.
    module : object
        Its SavedModel, loaded.
    """

    def __init__(self, spec: ProgramSpec, module: Any) -> None:
        self._spec = spec
        self._module = module
        self.scales_loss = spec.scales_loss
        self._function = SavedFunction(module.update)

    @classmethod
    def load(cls, archive: Path) -> TensorFlowUpdater:
        """Return the optimizer in a program's archive."""
        with eagerly(), tf.device(CPU):
            return cls(read_spec(archive), load_saved(archive))

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        """See `Updater.update`."""
        with eagerly():
            found = self._function(*map(as_tensor, vectors), *map(as_tensor, means))
            return [np.asarray(value) for value in found]

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""
        if not self._spec.learning_rate:
            raise InvalidTransition("running", "set learning_rate", "the program has no variable")
        with eagerly():
            self._module.learning_rate.assign(value)

    def state(self) -> list[Array]:
        """See `Updater.state`."""
        with eagerly():
            return [np.array(variable.numpy()) for variable in self._module.updated]

    def restore(self, state: Sequence[Array]) -> None:
        """See `Updater.restore`."""
        variables = list(self._module.updated)
        # By dtype: NumPy has two types for int64, and a file's may be the other one.
        expected = [(tuple(v.shape), np.dtype(v.dtype.as_numpy_dtype)) for v in variables]
        if [(s.shape, s.dtype) for s in state] != expected:
            raise ValueError(
                f"expected the state of an optimizer with {len(variables)} variables, got "
                f"{len(state)} arrays of other shapes or dtypes"
            )
        with eagerly():
            for variable, value in zip(variables, state, strict=True):
                variable.assign(value)
