"""Load an exported program and train it: TensorFlow's side of a worker."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidTransition
from ..params import ALIGNMENT, Array
from .spec import SPEC_FILE, ProgramSpec, Trained

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf


def configure_threads(cores: int) -> None:
    """Give TensorFlow this task's cores, before its first operation.

    Two workers on one machine that each take all cores fight over them.

    Parameters
    ----------
    cores : int
        Cores of one Spark task (``spark.task.cpus``).
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        # The process has run TensorFlow before; a reused worker was configured then.
        return


def _tensor(array: Array) -> tf.Tensor:
    """Wrap an array, without copying it where that is safe.

    It costs about 1 µs, against 100 µs for a copy of 800 kB; but TensorFlow aborts the
    process when it meets a wrapped buffer at another alignment than its own allocator's.
    """
    if array.ctypes.data % ALIGNMENT or not array.flags.c_contiguous:
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


class TensorFlowRunner:
    """Trains an exported program; see `tos_notebook.program.spec.Runner`.

    Parameters
    ----------
    archive : bytes
        What `tos_notebook.program.export.export` packed.
    """

    def __init__(self, archive: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="tos-program-") as folder:
            with zipfile.ZipFile(io.BytesIO(archive)) as packed:
                self.spec = ProgramSpec.from_json(packed.read(SPEC_FILE))
                packed.extractall(folder)
            with tf.device("CPU:0"):
                self._module: Any = tf.saved_model.load(folder)
        self._function = self._module.train.concrete_functions[0]
        self._initial = [v.numpy() for v in self._module.local]
        self._batch_sizes: dict[int, tf.Tensor] = {}

    def train(
        self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int
    ) -> Trained:
        """See `Runner.train`."""
        size = self._batch_sizes.setdefault(batch_size, tf.constant(batch_size, tf.int32))
        new, means = self._function(
            *[_tensor(v) for v in vectors], *[_tensor(c) for c in columns], size
        )
        values = dict(zip(self.spec.outputs, means.numpy().tolist(), strict=True))
        return Trained([np.asarray(v) for v in new], values)

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""
        if not self.spec.learning_rate:
            raise InvalidTransition("running", "set learning_rate", "the program has no variable")
        self._module.learning_rate.assign(value)

    def reset(self) -> None:
        """See `Runner.reset`."""
        for variable, value in zip(self._module.local, self._initial, strict=True):
            variable.assign(value)
