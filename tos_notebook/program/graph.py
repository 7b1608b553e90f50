"""Capture a TF1-style graph: a train operation in a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..errors import CaptureError, ShapeMismatch, UnsupportedProgram
from ..params import Array
from .base import ColumnType, Program
from .eager import eagerly
from .export import Batch, Step, export, layout_of, refuse_driver_bound
from .spec import FeedSpec, ProgramSpec

v1 = tf.compat.v1


class GraphProgram(Program):
    """A train operation of a TF1-style graph, with the session that holds its values.

    Parameters
    ----------
    train_op : tf.Operation, tf.Tensor or a sequence of them
        What one training step runs.
    feeds : sequence of tf.Tensor or str
        Placeholders, in the order of a record's fields. The batch dimension must be None.
    session : tf.compat.v1.Session
        Holds the initial values; receives the trained ones.
    loss : tf.Tensor or str, optional
        A scalar.
    metrics : mapping of str to (tf.Tensor or str), optional
        Further scalars to report with the loss.
    params : sequence of tf.Variable, optional
        What is synchronised; all trainable variables by default.
    learning_rate : tf.Variable, optional
        The variable that `run.set(learning_rate=...)` sets.
    feed_dict : mapping of placeholder to value, optional
        Constants for placeholders that no record feeds, such as a keep probability.

    Raises
    ------
    CaptureError
        A feed, loss or parameter is not in the session's graph.
    ShapeMismatch
        The loss is no scalar, or a feed's batch dimension is fixed.
    UnsupportedProgram
        Nothing to train, or an operation that cannot run on an executor.
    """

    kind = "graph"

    def __init__(
        self,
        train_op: Any,
        feeds: Sequence[Any],
        session: Any,
        loss: Any = None,
        metrics: Mapping[str, Any] | None = None,
        params: Sequence[Any] | None = None,
        learning_rate: Any = None,
        feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        self._session = session
        self._graph = session.graph
        fetches = train_op if isinstance(train_op, list | tuple) else [train_op]
        self._train = [self._element(op, "train operation") for op in fetches]
        self._feeds = [self._placeholder(f) for f in feeds]
        self._constants = {
            self._placeholder(k, batched=False): v for k, v in (feed_dict or {}).items()
        }
        self._outputs = self._scalars(loss, metrics or {})
        self._params = self._parameters(params)
        self._learning_rate = learning_rate
        self.feeds = tuple(_feed_spec(f) for f in self._feeds)
        self.layout = layout_of([_plain(v.name) for v in self._params], self._params)
        self._refuse_unfed()

    def _element(self, value: Any, role: str) -> Any:
        try:
            return self._graph.as_graph_element(value)
        except (ValueError, KeyError, TypeError) as error:
            raise CaptureError(
                f"The {role} {value!r} is not in the session's graph. Name a tensor or operation "
                "that was created in the same graph as the session."
            ) from error

    def _placeholder(self, value: Any, batched: bool = True) -> Any:
        tensor = self._element(value, "feed")
        if not isinstance(tensor, tf.Tensor):
            raise CaptureError(
                f"The feed {value!r} is an operation; expected a tensor such as {value}:0."
            )
        if batched and tensor.shape.rank == 0:
            raise ShapeMismatch(
                f"Feed {tensor.name!r} is a scalar; records need a batch dimension. Give scalars "
                "through feed_dict."
            )
        if batched and tensor.shape.rank is not None and tensor.shape[0] is not None:
            raise ShapeMismatch(
                f"Feed {tensor.name!r} has shape {tuple(tensor.shape)}: expected None as its first "
                "dimension, since the last batch of a partition may be smaller."
            )
        return tensor

    def _scalars(self, loss: Any, metrics: Mapping[str, Any]) -> dict[str, Any]:
        named = ({} if loss is None else {"loss": loss}) | dict(metrics)
        found = {name: self._element(v, name) for name, v in named.items()}
        for name, tensor in found.items():
            if not isinstance(tensor, tf.Tensor) or tensor.shape.rank not in (0, None):
                shape = getattr(tensor, "shape", "no shape: it is an operation")
                raise ShapeMismatch(
                    f"{name} {tensor.name!r} must be a scalar, got shape {shape}. Reduce it with "
                    "tf.reduce_mean."
                )
        return found

    def _parameters(self, params: Sequence[Any] | None) -> list[Any]:
        with self._graph.as_default():
            chosen = list(v1.trainable_variables() if params is None else params)
            known = set(map(id, v1.global_variables()))
        for variable in chosen:
            if id(variable) not in known:
                raise CaptureError(
                    f"Parameter {variable!r} is not a variable of the session's graph."
                )
        if not chosen:
            raise UnsupportedProgram(
                "The graph has nothing to train: it has no trainable variable. Create one with "
                "tf.Variable, or name the parameters."
            )
        return chosen

    def _refuse_unfed(self) -> None:
        """Refuse placeholders that neither records nor `feed_dict` give a value."""
        needed = _ancestors([*self._train, *self._outputs.values()])
        refuse_driver_bound((op.type, op.name) for op in needed)
        given = {t.op.name for t in [*self._feeds, *self._constants]}
        for op in needed:
            if op.type == "Placeholder" and op.name not in given:
                raise CaptureError(
                    f"The graph needs placeholder {op.name + ':0'!r}, which is neither among the "
                    f"feeds {[f.name for f in self._feeds]} nor in feed_dict."
                )

    def _export(self, columns: tuple[ColumnType, ...]) -> tuple[ProgramSpec, bytes]:
        spec = ProgramSpec(
            self.kind, self.feeds, self.layout, tuple(self._outputs), self.has_learning_rate
        )
        values = self._values()
        with self._graph.as_default():
            meta = v1.train.export_meta_graph(clear_devices=True)
        specs = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in columns]
        with eagerly():
            return spec, export(self._rebuild(meta, values), spec, specs)

    def _rebuild(self, meta: Any, values: Mapping[str, Array]) -> Step:
        """Rebuild the graph around eager variables of the given values."""
        wrapped = v1.wrap_function(_importer(meta), [])
        variables = {_plain(v.name): v for v in wrapped.graph.variables}
        for name in values.keys() & variables.keys():
            variables[name].assign(values[name])
        names = list(self._outputs)
        fetches = [self._outputs[n] for n in names] + self._train
        function = _prune(wrapped, [*self._feeds, *self._constants], fetches)
        constants = [tf.constant(v, k.dtype) for k, v in self._constants.items()]
        feeds = [f.dtype for f in self._feeds]

        def apply(batch: Batch) -> dict[str, tf.Tensor]:
            cast = [tf.cast(b, t) if b.dtype != t else b for b, t in zip(batch, feeds, strict=True)]
            found = function(*cast, *constants)
            return dict(zip(names, found[: len(names)], strict=True))

        rate = self._learning_rate
        return Step(
            [variables[_plain(v.name)] for v in self._params],
            apply,
            learning_rate=None if rate is None else variables[_plain(rate.name)],
        )

    def _values(self) -> dict[str, Array]:
        """Return the session's value of every variable of the graph."""
        with self._graph.as_default():
            own = {_plain(v.name): v for v in v1.global_variables() + v1.local_variables()}
        try:
            values: dict[str, Array] = self._session.run(own)
        except tf.errors.FailedPreconditionError as error:
            raise CaptureError(
                "A variable has no value in the session. Run the initializer, "
                f"session.run(tf.global_variables_initializer()), before training. ({error.message})"
            ) from error
        return values

    @property
    def has_learning_rate(self) -> bool:
        """See `Program.has_learning_rate`."""
        return self._learning_rate is not None

    def read(self) -> npt.NDArray[np.uint8]:
        """See `Program.read`."""
        return self.layout.pack(self._session.run(self._params))

    def write(self, buffer: npt.NDArray[np.uint8]) -> None:
        """See `Program.write`."""
        values = self.layout.tensors(buffer).values()
        for variable, value in zip(self._params, values, strict=True):
            # The initializer's own operation, with another value: the graph may be finalized.
            initializer = variable.initializer
            self._session.run(initializer, {initializer.inputs[1]: value})

    def evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        """See `Program.evaluate`."""
        rows = len(columns[0])
        totals = dict.fromkeys(self._outputs, 0.0)
        for start in range(0, rows, batch_size):
            batch = [c[start : start + batch_size] for c in columns]
            feed = dict(zip(self._feeds, batch, strict=True)) | self._constants
            found = self._session.run(self._outputs, feed)
            for name, value in found.items():
                totals[name] += float(value) * len(batch[0])
        return {name: total / rows for name, total in totals.items()}


def _importer(meta: Any) -> Callable[[], None]:
    def import_graph() -> None:
        # wrap_function lifts the imported variables only if nothing is returned.
        v1.train.import_meta_graph(meta)

    return import_graph


def _prune(wrapped: Any, feeds: Iterable[Any], fetches: Iterable[Any]) -> Any:
    element = wrapped.graph.as_graph_element
    return wrapped.prune([element(f.name) for f in feeds], [element(f.name) for f in fetches])


def _plain(name: str) -> str:
    """Return a variable's name without the output number."""
    return name.split(":")[0]


def _feed_spec(tensor: Any) -> FeedSpec:
    shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list()[1:])
    return FeedSpec(tensor.name, tensor.dtype.base_dtype.name, shape)


def _ancestors(fetches: Iterable[Any]) -> list[Any]:
    """Return every operation that the fetches need."""
    pending = [getattr(f, "op", f) for f in fetches]
    seen: dict[str, Any] = {}
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen[op.name] = op
            pending.extend(t.op for t in op.inputs)
            pending.extend(op.control_inputs)
    return list(seen.values())
