"""Turn one training step into a portable program: a zipped SavedModel with its specification."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ...archive.spec import SPEC_FILE, ProgramSpec
from ...archive.stack_frames import FRAMES_FILE, graphs, operations
from ...common import temporary
from ...errors import ShapeMismatch, UnsupportedProgram
from ...layout import Layout, ParameterSpec
from ...readable import LONGEST_NAME, readable
from ...runtime.eager import quiet
from ...wire.limits import MOST_METRICS
from .frozen import assigned

BOUND_TO_THE_DRIVER = {
    "PyFunc": "a Python function",
    "EagerPyFunc": "a Python function",
    "Iterator": "a dataset iterator",
    "OneShotIterator": "a dataset iterator",
    "AnonymousIterator": "a dataset iterator",
    "QueueDequeue": "an input queue",
    "ReaderRead": "a file reader",
    "HashTable": "a lookup table",
    "MutableHashTable": "a lookup table",
    "MutableDenseHashTable": "a lookup table",
}
"""Operations that live in the driver's process, by the beginning of their type."""

SHARES_MEMORY = {
    "Identity", "Reshape", "ExpandDims", "Squeeze", "StridedSlice", "Slice", "Split", "SplitV",
    "Unpack", "StopGradient", "PreventGradient", "EnsureShape", "Bitcast", "CheckNumerics",
    "Cast", "ConcatV2", "Snapshot", "IdentityN", "Transpose",
}  # fmt: skip
"""Operations whose output may be their input's memory."""

Batch = tuple[tf.Tensor, ...]


def _nothing() -> None:
    """Do nothing: a step without metrics or counters of its own."""


@dataclass(frozen=True)
class RunningMetrics:
    """Outputs of a step that are already means over all batches since `reset`.

    The others are averaged over the batches, weighted by samples.

    Parameters
    ----------
    names : frozenset of str
    results : callable
        Returns outputs by name, for after the last batch: what need not be computed at every batch.
    reset : callable
        Called before the first batch of each training call.
    """

    names: frozenset[str] = frozenset()
    results: Callable[[], Mapping[str, tf.Tensor]] = dict
    reset: Callable[[], None] = _nothing


@dataclass(frozen=True)
class Optimizing:
    """What a step's optimizer keeps.

    Parameters
    ----------
    learning_rate : tf.Variable, optional
    state : sequence of tf.Variable, optional
        In the order of the specification's.
    restart : callable
        Puts the counters that belong to the state back to where they are now.
    """

    learning_rate: tf.Variable | None = None
    state: Sequence[tf.Variable] = ()
    restart: Callable[[], None] = _nothing


@dataclass(frozen=True)
class Step:
    """One training step of a program, as `export` needs it.

    Parameters
    ----------
    parameters : sequence of tf.Variable
        What is synchronised, in the layout's order.
    function : ConcreteFunction
        What `trace` returned.
    optimizing : Optimizing
    local : sequence of tf.Variable, optional
        What else it uses, as far as TensorFlow does not see it.
    metrics : RunningMetrics, optional
    constraints : sequence of (callable or None), optional
        For each parameter what makes a value one that it may have.
    """

    parameters: Sequence[tf.Variable]
    function: Any
    optimizing: Optimizing
    local: Sequence[tf.Variable] = ()
    metrics: RunningMetrics = RunningMetrics()
    constraints: Sequence[Callable[[tf.Tensor], tf.Tensor] | None] = ()


def trace(apply: Callable[..., dict[str, tf.Tensor]], columns: Sequence[tf.TensorSpec]) -> Any:
    """Trace what a step does with one batch.

    Parameters
    ----------
    apply : callable
        Takes a batch, an argument for each feed, trains on it, and returns the outputs by
        name: scalar tensors.
    columns : sequence of tf.TensorSpec
        dtype and shape, batch dimension included, of each feed's data.

    Returns
    -------
    ConcreteFunction
        Its ``structured_outputs`` are the outputs by name.

    Raises
    ------
    ShapeMismatch
        An output is not a scalar.
    UnsupportedProgram
        The step holds an operation that only the driver can run.
    """

    def guarded(*batch: tf.Tensor) -> dict[str, tf.Tensor]:
        try:
            return apply(*batch)
        except Exception:
            # What the driver alone can run has no gradient: say that, rather than what follows.
            refuse_driver_bound(operations(tf.compat.v1.get_default_graph()))
            raise

    function = tf.function(guarded, autograph=False).get_concrete_function(*columns)
    for name, value in function.structured_outputs.items():
        if not isinstance(value, tf.Tensor) or value.shape.rank not in (0, None):
            raise ShapeMismatch(
                f"A training step's output {name!r} must be a scalar tensor, got {value!r}. "
                "Reduce it with tf.reduce_mean."
            )
    refuse_driver_bound(operations(function.graph))
    return function


def layout_of(
    names: Sequence[str],
    variables: Sequence[tf.Variable],
    statistics: Collection[int] = (),
    shown: int | None = None,
) -> Layout:
    """Return the layout of variables under the given names.

    Parameters
    ----------
    names : sequence of str
    variables : sequence of tf.Variable
    statistics : collection of int
        Which of them are not trained.
    shown : int, optional
        How many are the model's; those behind them are an optimizer's own. By default all.
    """
    # Subclassed models may hold two weights of one name; a number tells them apart.
    unique = [n if names.count(n) == 1 else f"{n}#{i}" for i, n in enumerate(names)]
    count = len(variables) if shown is None else shown
    return Layout(
        ParameterSpec(
            name,
            tuple(v.shape.as_list()),
            v.dtype.base_dtype.name,
            trained=i not in statistics,
            shown=i < count,
        )
        for i, (name, v) in enumerate(zip(unique, variables, strict=True))
    )


def _adopt(step: Step, layout: Layout, vectors: Sequence[tf.Tensor]) -> None:
    for segment, vector in zip(layout.segments, vectors, strict=True):
        for index, start in zip(segment.indices, segment.starts, strict=True):
            spec = layout.specs[index]
            # A variable takes over the memory it is assigned, here the caller's. A copy costs
            # nothing: TensorFlow would make it at the first update of shared memory.
            own = tf.raw_ops.DeepCopy(x=vector[start : start + spec.size])
            value = tf.reshape(own, spec.shape)
            constraint = step.constraints[index] if step.constraints else None
            # What several workers' changes add up to may lie outside.
            step.parameters[index].assign(value if constraint is None else constraint(value))


def _train_function(step: Step, layout: Layout, outputs: Sequence[str]) -> Callable[..., Any]:
    at_end = set(step.metrics.results())
    at_each = [name for name in outputs if name not in at_end]
    running = tf.constant([name in step.metrics.names for name in at_each], tf.bool)
    # A step that keeps its batch in a variable would share its memory.
    copies = any(map(_assigns_an_input, graphs(step.function.graph)))

    def cut(columns: list[tf.Tensor], start: tf.Tensor, stop: tf.Tensor) -> Batch:
        batch = [column[start:stop] for column in columns]
        return tuple(tf.raw_ops.DeepCopy(x=b) if copies else b for b in batch)

    def train(vectors: list[tf.Tensor], columns: list[tf.Tensor], batch_size: tf.Tensor) -> Any:
        _adopt(step, layout, vectors)
        step.metrics.reset()
        rows = tf.shape(columns[0])[0]

        def one_step(start: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            stop = tf.minimum(start + batch_size, rows)
            found = step.function(*cut(columns, start, stop))
            if not at_each:
                return stop, total
            values, weight = _stacked(found, at_each), tf.cast(stop - start, tf.float64)
            return stop, tf.where(running, values, total + weight * values)

        _, total = tf.while_loop(
            lambda start, _: start < rows,
            one_step,
            (tf.constant(0), tf.zeros([len(at_each)], tf.float64)),
            parallel_iterations=1,
        )
        means = tf.where(running, total, total / tf.cast(rows, tf.float64))
        found = dict(zip(at_each, tf.unstack(means), strict=True)) | dict(step.metrics.results())
        return [tf.convert_to_tensor(v) for v in step.parameters], _stacked(found, outputs)

    return train


def _stacked(found: Mapping[str, tf.Tensor], names: Sequence[str]) -> tf.Tensor:
    if not names:
        return tf.zeros([0], tf.float64)
    # The reshape tells what is a scalar although the graph does not know it.
    return tf.stack([tf.reshape(tf.cast(found[name], tf.float64), []) for name in names])


def _assigns_an_input(graph: Any) -> bool:
    inputs = {t.op.name for t in graph.inputs if t.dtype != tf.resource}
    pending = [op.inputs[1].op for op in graph.get_operations() if op.type == "AssignVariableOp"]
    while pending:
        op = pending.pop()
        if op.name in inputs:
            return True
        if op.type in SHARES_MEMORY:
            pending.extend(t.op for t in op.inputs)
    return False


def refuse_driver_bound(operations: Iterable[tuple[str, str]]) -> None:
    """Raise `UnsupportedProgram` at the first (type, name) that only the driver can run."""
    for kind, name in operations:
        for prefix, what in BOUND_TO_THE_DRIVER.items():
            if kind.startswith(prefix):
                raise UnsupportedProgram(
                    f"Operation {name!r} ({kind}) is {what} of this process; it cannot run on "
                    "an executor. Use TensorFlow operations, or prepare the data in Spark and "
                    "feed it."
                )


def export(
    step: Step, spec: ProgramSpec, columns: Sequence[tf.TensorSpec], frames: bytes, target: Path
) -> None:
    """Trace a step's training loop and pack it.

    Parameters
    ----------
    step : Step
    spec : ProgramSpec
    columns : sequence of tf.TensorSpec
        As `trace` was given.
    frames : bytes
        What `tos_notebook.archive.stack_frames.collect` found.
    target : Path
        Becomes a zip archive: `SPEC_FILE`, `FRAMES_FILE` and a SavedModel. A file, since it
        holds the parameters once more.

    Raises
    ------
    UnsupportedProgram
        The step needs a resource that is not a variable, such as a lookup table; or it has too
        many metrics, or two of one name.
    """
    _check_metrics(spec.outputs)
    train = tf.function(_train_function(step, spec.layout, spec.outputs), autograph=False)
    concrete = train.get_concrete_function(
        [tf.TensorSpec([s.size], s.dtype) for s in spec.layout.segments],
        list(columns),
        tf.TensorSpec([], tf.int32),
    )
    module = tf.Module()
    module.train = train
    module.parameters = list(step.parameters)
    rate, state = step.optimizing.learning_rate, step.optimizing.state
    module.optimizer_state = list(state)
    known = set(map(id, [*step.parameters, *state]))
    others = {id(v): v for v in [*step.local, *concrete.graph.variables] if id(v) not in known}
    used = list(others.values())
    changing = set(map(id, [*step.local, rate, *assigned(concrete, used)]))
    module.local = [v for v in used if id(v) in changing]
    # Apart, since a worker need not keep the values of what never changes.
    module.constants = [v for v in used if id(v) not in changing]
    module.restart = tf.function(step.optimizing.restart, input_signature=[], autograph=False)
    if rate is not None:
        module.learning_rate = rate
    guarded_save(module, {SPEC_FILE: spec.to_json(), FRAMES_FILE: frames}, target)


def guarded_save(
    module: tf.Module,
    notes: Mapping[str, bytes],
    target: Path,
    signatures: Mapping[str, Any] | None = None,
) -> None:
    """Write a module as a zipped SavedModel.

    Parameters
    ----------
    module : tf.Module
    notes : mapping of str to bytes
        Further files in the archive.
    target : Path
    signatures : mapping of str to ConcreteFunction, optional

    Raises
    ------
    UnsupportedProgram
        It needs a resource that is not a variable, such as a lookup table.
    """
    with temporary.directory("tos-export-") as folder:
        try:
            with quiet("tensorflow", "absl"):
                tf.saved_model.save(module, folder, signatures=signatures or {})
        except (AssertionError, KeyError) as error:
            # How TensorFlow reports a captured resource that it cannot save.
            raise UnsupportedProgram(
                "The program uses a resource of this process that is not a variable, such as a "
                f"lookup table ({str(error.args[0]).splitlines()[0]}). Look values up in Spark, "
                "and feed what was found."
            ) from error
        zip_folder(Path(folder), notes, target)


def zip_folder(folder: Path, notes: Mapping[str, bytes], target: Path) -> None:
    """Pack a folder's files, and notes, into a zip archive, without compressing weights."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in notes.items():
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder).as_posix())


def _check_metrics(outputs: Sequence[str]) -> None:
    """Refuse metrics that a worker could not tell the server of."""
    names = [name for name in outputs if name != "loss"]
    if len(names) > MOST_METRICS:
        raise UnsupportedProgram(
            f"Expected at most {MOST_METRICS} metrics, got {len(names)}: {names[0]!r}, "
            f"{names[1]!r} and so on. Return fewer."
        )
    told: dict[str, str] = {}
    for name in names:
        other = told.setdefault(readable(name, LONGEST_NAME), name)
        if other != name:
            raise UnsupportedProgram(
                f"Metrics {other!r} and {name!r} have the same name once it is cut to "
                f"{LONGEST_NAME} readable characters. Give one of them another name."
            )
