"""Capture a TF1-style graph: a train operation in a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from ...archive.served_graph import ServedGraph
from ...archive.spec import FeedSpec
from ...archive.stack_frames import collect, graphs, named_operations
from ...blocks.block import ColumnSpec
from ...common.arrays import Array, Buffer
from ...errors import CaptureError, UnsupportedProgram
from ...runtime.eager import eagerly
from ..export.base import ColumnType, Program
from ..export.cut import Cut
from ..export.packing import export
from ..export.saving import session_checkpoint
from ..export.serving import evaluated, means_of, pack_means, serve, specs_of
from ..export.step import Optimizing, Step, layout_of, refuse_driver_bound, trace
from .elements import Elements, feed_spec
from .halves import halves_of
from .optimizer_state import VARIABLES, powers_of, state_of
from .packed import pack, places_of
from .rebuild import SCOPE, Part, ancestors, as_function

v1 = tf.compat.v1


@dataclass(frozen=True)
class GraphOptions:
    """Options of a TF1-style graph, in addition to the operation that trains it.

    Parameters
    ----------
    feeds : sequence of tf.Tensor or str
        Placeholders, in the order of a record's fields. The batch dimension must be None.
    session : tf.compat.v1.Session
        Holds the initial values; receives the trained ones.
    loss : tf.Tensor or str, optional
        A scalar.
    metrics : mapping of str to (tf.Tensor or str), optional
        Further scalars to report with the loss.
    params : sequence of tf.Variable, optional
        The synchronized variables; all trainable ones by default.
    learning_rate : tf.Variable, optional
        The variable that `run.set(learning_rate=...)` sets.
    feed_dict : mapping of placeholder to value, optional
        Constants for placeholders that no record feeds, such as a keep probability.
    predictions : tf.Tensor, str, list or mapping of str to them, optional
        What `predict` returns: tensors with a row for each row that is fed.
    test_feed_dict : mapping of placeholder to value, optional
        What replaces constants of `feed_dict` in `evaluate` and `predict`, such as a keep
        probability of 1.
    """

    feeds: Sequence[Any]
    session: Any
    loss: Any = None
    metrics: Mapping[str, Any] | None = None
    params: Sequence[Any] | None = None
    learning_rate: Any = None
    feed_dict: Mapping[Any, Any] | None = None
    predictions: Any = None
    test_feed_dict: Mapping[Any, Any] | None = None


class GraphProgram(Program):
    """A train operation of a TF1-style graph, with the session that holds its values.

    Parameters
    ----------
    train_op : tf.Operation, tf.Tensor or a sequence of them
        What one training step runs.
    options : GraphOptions

    Raises
    ------
    CaptureError
        A feed, loss or parameter is not in the session's graph.
    ShapeMismatch
        The loss is not a scalar, or a feed's batch dimension is fixed.
    UnsupportedProgram
        Nothing to train, or an operation that cannot run on an executor.
    """

    kind = "graph"

    def __init__(self, train_op: Any, options: GraphOptions) -> None:
        super().__init__()
        self._session = options.session
        found = Elements(options.session)
        self._graph = found.graph
        fetches = train_op if isinstance(train_op, list | tuple) else [train_op]
        elements = [found.element(op, "train operation") for op in fetches]
        self._train = [getattr(e, "op", e) for e in elements]
        self._feeds = found.feeds(options.feeds)
        self._constants = found.fixed(options.feed_dict or {})
        replaced = found.replaced(options.test_feed_dict or {}, self._constants)
        self._test_constants = self._constants | replaced
        self._outputs = found.scalars(options.loss, options.metrics or {})
        self._predictions = found.named(options.predictions)
        self._needed = ancestors(
            [*self._train, *self._outputs.values()], [*self._feeds, *self._constants]
        )
        self._rate = self._learning_rate(options.learning_rate)
        self._params = self._parameters(options.params)
        self.feeds = tuple(feed_spec(f) for f in self._feeds)
        self._lay_out()
        self._state = state_of(self._needed, self._params, self._variables())
        self.optimizer_state = tuple(v.op.name for v in self._state)
        self._refuse_unfed()

    def for_sessions(self) -> Program:
        """See `Program.for_sessions`."""
        if self.sessions:
            return self
        twin = copy(self)
        Program.__init__(twin)
        twin.sessions = True
        return twin

    def _lay_out(self) -> None:
        self._halves, shared = None, []
        if self.gradients:
            given = self._outputs.values(), self._feeds, self._constants
            self._halves = halves_of(self._needed, *given, self._params)
            shared = [v for v in self._variables() if v.op.name in self._halves.shared]
            shared = [v for v in shared if _is_scalar(v) and v is not self._rate]
        self._exchanged = [*self._params, *shared]
        # Without the output number.
        names = [v.name.split(":")[0] for v in self._exchanged]
        count = len(self._params)
        statistics = [i for i, v in enumerate(self._exchanged) if i >= count or not v.trainable]
        self.layout = layout_of(names, self._exchanged, statistics, count)

    @property
    def fields(self) -> tuple[int, ...]:
        """See `Predictor.fields`: the feeds that the predictions need."""
        if not self._predictions:
            raise UnsupportedProgram(
                "This graph was captured without what it predicts. Name the tensor: "
                "tos.capture(train_op, ..., predictions=y)."
            )
        used = ancestors(list(self._predictions.values()))
        return tuple(i for i, feed in enumerate(self._feeds) if feed.op in used)

    @property
    def inputs(self) -> tuple[FeedSpec, ...]:
        """See `Predictor.inputs`."""
        return tuple(self.feeds[field] for field in self.fields)

    def _variables(self) -> list[Any]:
        with self._graph.as_default():
            return list(dict.fromkeys(v1.global_variables() + v1.local_variables()))

    def _parameters(self, params: Sequence[Any] | None) -> list[Any]:
        with self._graph.as_default():
            # A learning rate that was left trainable would be set, and then overwritten.
            default = [v for v in v1.trainable_variables() if v is not self._rate]
        chosen = list(default if params is None else params)
        known = set(map(id, self._variables()))
        for variable in chosen:
            if id(variable) not in known:
                raise CaptureError(
                    f"Parameter {variable!r} is not a variable of the session's graph."
                )
            if variable is self._rate:
                raise CaptureError(
                    f"{variable!r} is both the learning rate and a parameter: what is set would be "
                    "overwritten at each exchange. Leave it out of the parameters."
                )
        if not chosen:
            raise UnsupportedProgram(
                "The graph has nothing to train: it has no trainable variable. Create one with "
                "tf.Variable, or name the parameters."
            )
        return chosen

    def _learning_rate(self, variable: Any) -> Any:
        if variable is None:
            return None
        if not any(variable is v for v in self._variables()):
            raise CaptureError(
                f"The learning rate {variable!r} is not a variable of the session's graph. Give "
                "the optimizer a tf.Variable(0.1, trainable=False), and name that."
            )
        if variable.op not in self._needed:
            raise CaptureError(f"The train operation does not use the learning rate {variable!r}.")
        return variable

    def _refuse_unfed(self) -> None:
        """Refuse placeholders that neither records nor `feed_dict` give a value."""
        refuse_driver_bound((op.type, op.name) for op in self._needed)
        for op in self._needed:
            if op.type == "Placeholder":
                raise CaptureError(
                    f"The graph needs placeholder {op.name + ':0'!r}, which is neither among the "
                    f"feeds {[f.name for f in self._feeds]} nor in feed_dict."
                )

    def _export(self, columns: tuple[ColumnType, ...], target: Path) -> None:
        values = self._values(self._needed)
        specs = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in columns]
        scope = "" if self.sessions else f"{SCOPE}/"
        own = ((f"{scope}{op.name}", op) for op in self._needed)
        _, *functions = graphs(self._graph)
        frames = collect([*own, *named_operations(functions)])
        if self.sessions:
            self._pack(values, frames, target)
            return
        with eagerly():
            step = self._rebuild(values, specs)
            export(step, self._spec(tuple(self._outputs)), specs, frames, target)

    def _pack(self, values: Mapping[str, Array], frames: bytes, target: Path) -> None:
        """Pack the graph itself, cut or whole."""
        names = [v.op.name for v in self._exchanged]
        whole = Part(self._needed, [op.name for op in self._train])
        first, update, gradients = whole, Part(()), dict[str, str]()
        if self._halves is not None:
            first, update = self._halves.first, self._halves.update
            gradients = {name: t.name for name, t in self._halves.gradients.items()}
        parts = ServedGraph(
            [feed.name for feed in self._feeds],
            [tensor.name for tensor in self._constants],
            [tensor.name for tensor in self._outputs.values()],
            [op.name for op in first.needed],
            first.runs,
            [*names, *(name for name in values if name not in names)],
            places_of(self._needed),
            None if self._rate is None else self._rate.op.name,
            gradients,
            [op.name for op in update.needed],
            update.runs,
        )
        spec = self._spec(tuple(self._outputs))
        pack(self._graph, parts, spec, frames, values, list(self._constants.values()), target)

    def _rebuild(self, values: Mapping[str, Array], columns: Sequence[tf.TensorSpec]) -> Step:
        """Rebuild the step around eager variables of the given values."""
        variables = {name: tf.Variable(value, name=name) for name, value in values.items()}
        rebuilt = partial(as_function, self._graph, fixed=self._constants, variables=variables)
        outputs = list(self._outputs.values())
        if self._halves is None:
            whole, cut = Part(self._needed, [op.name for op in self._train]), None
            function = rebuilt(whole, self._feeds, outputs=outputs)
        else:
            gradients = self._halves.gradients
            handed = list(gradients.values())
            function = rebuilt(self._halves.first, self._feeds, outputs=[*outputs, *handed])
            update = rebuilt(self._halves.update, handed, outputs=())
            cut = Cut([variables[name] for name in gradients], lambda means: update(*means))

        def apply(*batch: tf.Tensor) -> tuple[dict[str, tf.Tensor], Sequence[tf.Tensor]]:
            found = function(*batch)
            count = len(outputs)
            return dict(zip(self._outputs, found[:count], strict=True)), found[count:]

        def restart() -> None:
            for name in powers:
                variables[name].assign(values[name])

        params = [variables.pop(v.op.name) for v in self._exchanged]
        powers = [name for name in powers_of(self._needed) if name in variables]
        rate = None if self._rate is None else variables[self._rate.op.name]
        optimizing = Optimizing(rate, [variables[v.op.name] for v in self._state], restart)
        return Step(params, trace(apply, columns), optimizing, list(variables.values()), cut=cut)

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Predictor.serve`."""
        inputs = [self._feeds[field] for field in self.fields]
        with eagerly():
            function, variables = self._function(self._predictions, inputs)

            def predict(*batch: tf.Tensor) -> dict[str, tf.Tensor]:
                return dict(zip(self._predictions, function(*batch), strict=True))

            named = [(t.name, spec) for t, spec in zip(inputs, specs_of(columns), strict=True)]
            serve(predict, named, variables, target)

    def _function(
        self, outputs: Mapping[str, Any], inputs: Sequence[Any]
    ) -> tuple[Callable[..., Sequence[tf.Tensor]], list[tf.Variable]]:
        """Return what makes outputs of a batch, without training, and the variables it reads."""
        needed = ancestors(list(outputs.values()), [*inputs, *self._constants])
        refuse_driver_bound((op.type, op.name) for op in needed)
        values = self._values(needed)
        variables = {name: tf.Variable(value, name=name) for name, value in values.items()}
        function = as_function(
            self._graph, Part(needed), inputs, self._test_constants, variables, outputs.values()
        )
        return function, list(variables.values())

    def _values(self, needed: Iterable[Any]) -> dict[str, Array]:
        """Return the session's value of every variable among operations, and parameter."""
        known = {v.op.name: v for v in self._variables()}
        used = [op.name for op in needed if op.type in VARIABLES]
        for name in used:
            if name not in known:
                raise UnsupportedProgram(
                    f"Variable {name!r} is in no collection of the graph, so that its value cannot "
                    "be read. Create it without naming collections."
                )
        wanted = [*used, *(v.op.name for v in self._params)]
        values: dict[str, Array] = self._fetch({name: known[name] for name in wanted})
        return values

    def _fetch(self, variables: Any) -> Any:
        try:
            return self._session.run(variables)
        except tf.errors.FailedPreconditionError as error:
            raise CaptureError(
                "A variable has no value in the session. Run the initializer, session.run("
                f"tf.global_variables_initializer()), before training. ({error.message})"
            ) from error

    @property
    def drawing(self) -> tuple[str, bytes] | None:
        """See `Program.drawing`."""
        return "graph", self._graph.as_graph_def().SerializeToString()

    @property
    def _writers(self) -> Mapping[str, Callable[[Path], None]]:
        return {"checkpoint": partial(session_checkpoint, self._session, self._params)}

    @property
    def has_learning_rate(self) -> bool:
        """See `Program.has_learning_rate`."""
        return self._rate is not None

    @property
    def learning_rate(self) -> float | None:
        """See `Program.learning_rate`."""
        return None if self._rate is None else float(self._fetch(self._rate))

    def read(self) -> Buffer:
        """See `Program.read`."""
        return self.layout.pack(self._fetch(self._exchanged))

    def write(self, buffer: Buffer) -> None:
        """See `Program.write`."""
        values = self.layout.tensors(buffer).values()
        for variable, value in zip(self._exchanged, values, strict=True):
            # The initializer's own operation, with another value: the graph may be finalized.
            initializer = variable.initializer
            self._session.run(initializer, {initializer.inputs[1]: value})

    def pack_measure(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Program.pack_measure`."""
        with eagerly():
            function, variables = self._function(self._outputs, self._feeds)
            pack_means(function, len(self._outputs), columns, variables, target)

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """See `Program.measured`."""
        return means_of(self._outputs, sums)

    def _evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        def measure(batch: list[Array]) -> Mapping[str, Any]:
            feed = dict(zip(self._feeds, batch, strict=True)) | self._test_constants
            found: Mapping[str, Any] = self._session.run(self._outputs, feed)
            return found

        return evaluated(measure, self._outputs, columns, batch_size)


def _is_scalar(variable: Any) -> bool:
    dtype = variable.dtype.base_dtype
    return variable.shape.rank == 0 and (dtype.is_floating or dtype.is_integer)
