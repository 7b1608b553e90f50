"""Turn one training step into a portable program: a zipped SavedModel with its specification."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ...archive.spec import SPEC_FILE, ProgramSpec
from ...archive.stack_frames import FRAMES_FILE, graphs, operations
from ...common import temporary
from ...errors import ShapeMismatch, UnsupportedProgram
from ...layout import Layout, ParameterSpec
from ...runtime.muted import quiet
from .frozen import assigned
from .names import check_metrics

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


class Step:
    """One training step of a program, as `export` needs it.

    Parameters
    ----------
    parameters : sequence of tf.Variable
        What is synchronised, in the layout's order.
    function : ConcreteFunction
        What `trace` returned.
    local : sequence of tf.Variable, optional
        What else it uses, as far as TensorFlow does not see it.
    running : frozenset of str
        Outputs that are already means over all batches since `reset_metrics`; the others
        are averaged over the batches, weighted by samples.
    metrics : callable
        Returns running outputs by name, for after the last batch: what need not be computed
        at every batch.
    reset_metrics : callable
        Called before the first batch of each training call.
    learning_rate : tf.Variable, optional
    optimizer_state : sequence of tf.Variable, optional
        The optimizer's, in the order of the specification's.
    restart : callable
        Puts the counters that belong to the optimizer state back to where they are now.
    constraints : sequence of (callable or None), optional
        For each parameter what makes a value one that it may have.
    """

    def __init__(
        self,
        parameters: Sequence[tf.Variable],
        function: Any,
        local: Sequence[tf.Variable] = (),
        running: frozenset[str] = frozenset(),
        metrics: Callable[[], Mapping[str, tf.Tensor]] = dict,
        reset_metrics: Callable[[], None] = lambda: None,
        learning_rate: tf.Variable | None = None,
        optimizer_state: Sequence[tf.Variable] = (),
        restart: Callable[[], None] = lambda: None,
        constraints: Sequence[Callable[[tf.Tensor], tf.Tensor] | None] = (),
    ) -> None:
        self.parameters = tuple(parameters)
        self.function = function
        self.local = tuple(local)
        self.running = running
        self.metrics = metrics
        self.reset_metrics = reset_metrics
        self.learning_rate = learning_rate
        self.optimizer_state = tuple(optimizer_state)
        self.restart = restart
        self.constraints = tuple(constraints) or (None,) * len(self.parameters)
        self.copies = _kept_batches(function.graph)


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
            value, constraint = tf.reshape(own, spec.shape), step.constraints[index]
            # What several workers' changes add up to may lie outside.
            step.parameters[index].assign(value if constraint is None else constraint(value))


def _train_function(step: Step, layout: Layout, outputs: Sequence[str]) -> Callable[..., Any]:
    at_end = set(step.metrics())
    at_each = [name for name in outputs if name not in at_end]
    running = tf.constant([name in step.running for name in at_each], tf.bool)

    def cut(columns: list[tf.Tensor], start: tf.Tensor, stop: tf.Tensor) -> Batch:
        batch = [column[start:stop] for column in columns]
        return tuple(tf.raw_ops.DeepCopy(x=b) if step.copies else b for b in batch)

    def train(vectors: list[tf.Tensor], columns: list[tf.Tensor], batch_size: tf.Tensor) -> Any:
        _adopt(step, layout, vectors)
        step.reset_metrics()
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
        found = dict(zip(at_each, tf.unstack(means), strict=True)) | dict(step.metrics())
        return [tf.convert_to_tensor(v) for v in step.parameters], _stacked(found, outputs)

    return train


def _stacked(found: Mapping[str, tf.Tensor], names: Sequence[str]) -> tf.Tensor:
    if not names:
        return tf.zeros([0], tf.float64)
    # The reshape tells what is a scalar although the graph does not know it.
    return tf.stack([tf.reshape(tf.cast(found[name], tf.float64), []) for name in names])


def _kept_batches(graph: Any) -> bool:
    """Whether a step may keep its batch in a variable, which would then share its memory."""
    return any(_assigns_an_input(g) for g in graphs(graph))


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
    step: Step,
    spec: ProgramSpec,
    columns: Sequence[tf.TensorSpec],
    frames: bytes,
    target: Path,
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
    check_metrics(spec.outputs)
    train = tf.function(_train_function(step, spec.layout, spec.outputs), autograph=False)
    concrete = train.get_concrete_function(
        [tf.TensorSpec([s.size], s.dtype) for s in spec.layout.segments],
        list(columns),
        tf.TensorSpec([], tf.int32),
    )
    module = tf.Module()
    module.train = train
    module.parameters = list(step.parameters)
    module.optimizer_state = list(step.optimizer_state)
    known = [*step.parameters, *step.optimizer_state]
    used = _without(known, [*step.local, *concrete.graph.variables])
    changing = set(map(id, [*step.local, step.learning_rate, *assigned(concrete, used)]))
    module.local = [v for v in used if id(v) in changing]
    # Apart, since a worker need not keep the values of what never changes.
    module.constants = [v for v in used if id(v) not in changing]
    module.restart = tf.function(step.restart, input_signature=[], autograph=False)
    if step.learning_rate is not None:
        module.learning_rate = step.learning_rate
    guarded_save(module, {SPEC_FILE: spec.to_json(), FRAMES_FILE: frames}, target)


def _without(known: Iterable[Any], found: Iterable[Any]) -> list[Any]:
    """Return what was found and is not known, each once."""
    others = {id(value): value for value in found}
    for value in known:
        others.pop(id(value), None)
    return list(others.values())


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
        _save(module, folder, signatures or {})
        zip_folder(Path(folder), notes, target)


def zip_folder(folder: Path, notes: Mapping[str, bytes], target: Path) -> None:
    """Pack a folder's files, and notes, into a zip archive, without compressing weights."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in notes.items():
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder).as_posix())


def _save(module: tf.Module, folder: str, signatures: Mapping[str, Any]) -> None:
    try:
        with quiet("tensorflow", "absl"):
            tf.saved_model.save(module, folder, signatures=signatures)
    except (AssertionError, KeyError) as error:
        # How TensorFlow reports a captured resource that it cannot save.
        raise UnsupportedProgram(
            "The program uses a resource of this process that is not a variable, such as a "
            f"lookup table ({str(error.args[0]).splitlines()[0]}). Look values up in Spark, and "
            "feed what was found."
        ) from error
