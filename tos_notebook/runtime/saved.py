"""Load a SavedModel, and hand arrays to it."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..archive.stack_frames import nodes_in
from ..common.arrays import ALIGNMENT, Array
from .import_guard import without_keras

with without_keras():
    import tensorflow as tf

from .eager import eagerly, quiet

CPU = "CPU:0"


def as_tensor(array: Array) -> tf.Tensor:
    """Wrap an array, without copying it where that is safe.

    It costs about 1 µs, against 100 µs for a copy of 800 kB; but TensorFlow aborts the
    process when it meets a wrapped buffer at another alignment than its own allocator's,
    and numpy wraps neither an array that is read-only nor one in another byte order.
    """
    flags, dtype = array.flags, array.dtype
    if dtype.kind == "O":
        return tf.constant(array, tf.string)
    if not dtype.isnative:
        return tf.constant(array.astype(dtype.newbyteorder("=")))
    if array.ctypes.data % ALIGNMENT or not (flags.c_contiguous and flags.writeable):
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


class SavedFunction:
    """A function of a SavedModel, with what it captures.

    Calling the function itself, TensorFlow looks at the type of each argument, and at what might
    record gradients, and lets another thread run it: for a small model that takes longer than to
    train a batch. As an operation, it runs in the thread that calls.

    Parameters
    ----------
    function : ConcreteFunction
        Of a loaded SavedModel.

    Attributes
    ----------
    graph : tf.Graph
        What it runs.
    """

    def __init__(self, function: Any) -> None:
        self.graph = function.graph
        self._captured = list(function.captured_inputs)
        self._named = function.inference_fn.call_flat
        self._call = partial(
            tf.raw_ops.StatefulPartitionedCall,
            Tout=[output.dtype for output in function.outputs],
            f=function,
        )

    def __call__(self, *tensors: tf.Tensor) -> Sequence[tf.Tensor]:
        """Return its values, in their order."""
        arguments = [*tensors, *self._captured]
        try:
            values: Sequence[tf.Tensor] = self._call(args=arguments)
        except tf.errors.OpError as error:
            if not nodes_in(error.message):
                # Only the function itself says which of its operations has failed.
                self._named(*arguments)
            raise
        return values


def load_saved(archive: Path) -> Any:
    """Load the SavedModel in an archive, on the device of the caller's scope."""
    with tempfile.TemporaryDirectory(prefix="tos-program-") as folder:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        with eagerly(), quiet("absl"):
            return tf.saved_model.load(folder)
