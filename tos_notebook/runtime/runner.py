"""Load an exported program and train it: TensorFlow's side of a worker."""

from __future__ import annotations

import socket
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..archive.runner import Advanced, Trained, TrainedRows
from ..archive.spec import read_spec
from ..archive.stack_frames import FRAMES_FILE, Frames, ends_of, nodes_in, operations
from ..common.arrays import Array, Arrays
from ..common.table_rows import TableRows
from ..errors import InvalidTransition, WorkerEnvironment
from ..readable import summary
from .import_guard import without_keras

with without_keras():
    import tensorflow as tf

from .eager import eagerly
from .saved import CPU, SavedFunction, as_tensor, load_saved
from .updater import TensorFlowUpdater

NO_ROWS: Array = np.empty(0, np.int64)


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


def device_for(gpus: Sequence[str]) -> str | None:
    """Return where to put a program's variables, once it is sure that TensorFlow has the GPUs.

    Parameters
    ----------
    gpus : sequence of str
        Addresses of those that Spark gave this task; see `tos_notebook.cluster.gpus`.

    Returns
    -------
    str or None
        A device; None for where TensorFlow puts them itself: on the first GPU.

    Raises
    ------
    WorkerEnvironment
        TensorFlow sees more GPUs, or fewer.
    """
    if not gpus:
        return CPU
    found = tf.config.list_physical_devices("GPU")
    if len(found) != len(gpus):
        raise WorkerEnvironment(
            f"Spark gave this task GPU {', '.join(gpus)} of {socket.gethostname()}, but TensorFlow "
            f"sees {len(found)} GPUs there. With none, it lacks CUDA: install tensorflow[and-cuda] "
            "and NVIDIA's driver, or ask for no GPU (spark.task.resource.gpu.amount=0). With too "
            "many, it was used in this process before: set spark.python.worker.reuse=false."
        )
    return None


class TensorFlowRunner:
    """Trains an exported program; see `tos_notebook.archive.runner.Runner`.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.export.packing.export` packed.
    device : str or None
        Where its variables are to be; None for where TensorFlow puts them.
    """

    def __init__(self, archive: Path, device: str | None = CPU) -> None:
        self.spec = read_spec(archive)
        with zipfile.ZipFile(archive) as packed:
            self._frames = packed.read(FRAMES_FILE)
        with eagerly(), tf.device(device):
            self._module = load_saved(archive)
            self._initial = [v.numpy() for v in self._module.local]
            self._initial_state = [tf.constant(v.numpy()) for v in self._module.optimizer_state]
        self._batches = SavedFunction(self._module.train)
        # A program whose gradients are added up has a function for one batch alone.
        single = getattr(self._module, "train_batch", None)
        self._batch = None if single is None else SavedFunction(single)
        both = getattr(self._module, "advance", None)
        self._both = None if both is None else SavedFunction(both)
        by_row = getattr(self._module, "train_rows", None)
        self._by_row = None if by_row is None else SavedFunction(by_row)
        if self.spec.layout.served:
            self._served_ids = SavedFunction(self._module.served_ids)
            self._place_rows = SavedFunction(self._module.place_rows)
            self._take_rows = SavedFunction(self._module.take_rows)
        self._sizes: dict[int, tf.Tensor] = {}

    def load(self) -> None:
        """See `Runner.load`: a program that is there is loaded."""

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Runner.train`."""
        with eagerly():
            tensors = [as_tensor(array) for array in (*vectors, *columns)]
            if self._batch is not None and len(columns[0]) <= batch_size:
                *new, means = self._batch(*tensors)
            else:
                *new, means = self._batches(*tensors, self._size(batch_size))
            # Not numpy(), which copies: the tensors are ours, TensorFlow writes to them no more.
            return Trained([np.asarray(v) for v in new], self._values(means))

    def train_rows(
        self, vectors: Arrays, moved: Sequence[Array | None], columns: Arrays, batch_size: int
    ) -> TrainedRows | None:
        """See `Runner.train_rows`; the tables are in TensorFlow's variables."""
        layout = self.spec.layout
        if self._by_row is None:
            return None
        count = len(layout.tables)
        dense = vectors[: len(vectors) - count]
        with eagerly():
            ids, rows = [], []
            for segment, vector, numbers in zip(
                layout.tables, vectors[len(dense) :], moved, strict=True
            ):
                table = vector.reshape(segment.table)
                if numbers is None:
                    self._module.parameters[segment.indices[0]].assign(tf.constant(table))
                    numbers = NO_ROWS
                ids.append(tf.constant(numbers))
                rows.append(tf.constant(table[numbers]))
            given = [*map(as_tensor, dense), *ids, *rows, *map(as_tensor, columns)]
            *found, means = self._by_row(*given, self._size(batch_size))
            arrays = [np.asarray(value) for value in found]
            others = len(arrays) - 2 * count
            tables = map(TableRows, arrays[others : others + count], arrays[others + count :])
            return TrainedRows(arrays[:others], list(tables), self._values(means))

    def served_ids(self, columns: Arrays) -> list[Array]:
        """See `ServedRunner.served_ids`."""
        with eagerly():
            return [np.asarray(ids) for ids in self._served_ids(*map(as_tensor, columns))]

    def place_rows(self, ids: Sequence[Array], rows: Sequence[Array]) -> None:
        """See `ServedRunner.place_rows`."""
        with eagerly():
            self._place_rows(*map(as_tensor, (*ids, *rows)))

    def take_rows(self, ids: Sequence[Array]) -> list[Array]:
        """See `ServedRunner.take_rows`."""
        with eagerly():
            counts = [tf.constant(len(each), tf.int32) for each in ids]
            return [np.asarray(taken) for taken in self._take_rows(*counts)]

    def _values(self, means: tf.Tensor) -> dict[str, float]:
        return dict(zip(self.spec.outputs, np.asarray(means).tolist(), strict=True))

    def advance(
        self, vectors: Arrays, means: Arrays, columns: Arrays, batch_size: int
    ) -> Advanced | None:
        """See `Runner.advance`; the parameters before are in TensorFlow's variables."""
        if self._both is None or len(columns[0]) > batch_size:
            return None
        with eagerly():
            *found, values = self._both(*map(as_tensor, (*means, *columns)))
            made = [np.asarray(vector) for vector in found]
            return Advanced(made[: len(means)], made[len(means) :], self._values(values))

    def _size(self, batch_size: int) -> tf.Tensor:
        if batch_size not in self._sizes:
            self._sizes[batch_size] = tf.constant(batch_size, tf.int32)
        return self._sizes[batch_size]

    def updater(self) -> TensorFlowUpdater:
        """See `Runner.updater`."""
        return TensorFlowUpdater(self.spec, self._module)

    def explain(self, error: BaseException) -> tuple[str, list[str]] | None:
        """See `Runner.explain`."""
        if not isinstance(error, tf.errors.OpError):
            return None
        frames = Frames(self._frames)
        nodes = [self._operation(name) for name in nodes_in(error.message)]
        found = next(filter(None, (frames.of(name) for name, _ in nodes)), [])
        return summary(error), found or [frames.place(*node) for node in nodes[:1]]

    def _operation(self, node: str) -> tuple[str, str]:
        """Return name and type of the operation that ran as this node."""
        kinds = {name: kind for kind, name in operations(self._batches.graph)}
        known = next((end for end in ends_of(node) if end in kinds), None)
        return (node, "?") if known is None else (known, kinds[known])

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""
        if not self.spec.learning_rate:
            raise InvalidTransition("running", "set learning_rate", "the program has no variable")
        with eagerly():
            self._module.learning_rate.assign(value)

    def reset(self) -> None:
        """See `Runner.reset`."""
        with eagerly():
            _assign(self._module.local, self._initial)
            _assign(self._module.optimizer_state, self._initial_state)

    def reset_optimizer_state(self) -> None:
        """See `Runner.reset_optimizer_state`."""
        with eagerly():
            _assign(self._module.optimizer_state, self._initial_state)
            self._module.restart()

    def reset_non_finite_state(self) -> None:
        """See `Runner.reset_non_finite_state`."""
        with eagerly():
            floats = [v for v in self._module.optimizer_state if v.dtype.is_floating]
            finite = all(bool(tf.reduce_all(tf.math.is_finite(v))) for v in floats)
        if not finite:
            self.reset_optimizer_state()


def _assign(variables: Iterable[tf.Variable], values: Iterable[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        # A variable takes over the memory it is assigned: that of a copy, or of a tensor, which
        # TensorFlow copies at the first update.
        variable.assign(tf.constant(value), read_value=False)
