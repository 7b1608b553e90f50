"""Load an exported program and train it: TensorFlow's side of a worker."""

from __future__ import annotations

import io
import os
import re
import tempfile
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidTransition
from ..params import ALIGNMENT, Array
from .frames import FRAMES_FILE, Frames, ends_of, nodes_in, operations
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


def summary(error: BaseException) -> str:
    """Return an error's type and what it says is wrong, without TensorFlow's dump of nodes.

    Parameters
    ----------
    error : BaseException

    Returns
    -------
    str
        ``TypeName: text``.
    """
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    lines = (_DECORATION.sub("", line).strip() for line in text.splitlines())
    return f"{type(error).__name__}: {next(filter(None, lines), 'no message')}"


_DECORATION = re.compile(
    r"Graph execution error:|^Detected at node.*|^\s*<stack traces unavailable>|^Node: '.*'$"
    r"|\[\[\{\{node .*|\[Op:.*\]|^.*root error\(s\) found\.|^\s*\(\d+\) [A-Z_ ]+: "
)
"""What TensorFlow puts around the sentence that says what is wrong."""


def _tensor(array: Array) -> tf.Tensor:
    """Wrap an array, without copying it where that is safe.

    It costs about 1 µs, against 100 µs for a copy of 800 kB; but TensorFlow aborts the
    process when it meets a wrapped buffer at another alignment than its own allocator's,
    and numpy wraps neither an array that is read-only nor one that is not in native order.
    """
    flags = array.flags
    if array.ctypes.data % ALIGNMENT or not (flags.c_contiguous and flags.writeable):
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
                self._frames = packed.read(FRAMES_FILE)
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

    def explain(self, error: BaseException) -> list[str]:
        """See `Runner.explain`."""
        if not isinstance(error, tf.errors.OpError):
            return []
        frames = Frames(self._frames)
        nodes = nodes_in(error.message)
        found = next(filter(None, map(frames.of, nodes)), [])
        if found or not nodes:
            return found
        return [frames.place(nodes[-1], self._kind(nodes[-1]))]

    def _kind(self, node: str) -> str:
        """Return a node's type, whatever prefix it got while it ran."""
        kinds = {name: kind for kind, name in operations(self._function.graph)}
        return next((kinds[end] for end in ends_of(node) if end in kinds), node.split("/")[-1])

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""
        if not self.spec.learning_rate:
            raise InvalidTransition("running", "set learning_rate", "the program has no variable")
        self._module.learning_rate.assign(value)

    def reset(self) -> None:
        """See `Runner.reset`."""
        for variable, value in zip(self._module.local, self._initial, strict=True):
            variable.assign(value)
