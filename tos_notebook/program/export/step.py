"""One training step of a program, traced: what `packing` makes a portable program of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ...archive.stack_frames import operations
from ...common.arrays import Buffer
from ...common.served import ServedTable
from ...errors import ShapeMismatch, UnsupportedProgram
from ...layout import Layout, ParameterSpec
from ...runtime.eager import eagerly
from .cut import Cut
from .rows import rows_written
from .served import ServedVariables
from .symbolic import graph_only

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


Outputs = dict[str, tf.Tensor]
"""What a step reports of a batch, by name."""


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
class Traced:
    """What a step does with one batch.

    Parameters
    ----------
    function : ConcreteFunction
        Returns the outputs by name, and the gradients of a step that is cut.
    outputs : mapping of str to tf.Tensor
        Its own.
    touched : sequence of tf.Tensor, optional
        Of each table, the numbers of the rows that the step changes; the function returns them as
        a third value. None where it may change others.
    """

    function: Any
    outputs: Mapping[str, tf.Tensor]
    touched: Sequence[tf.Tensor] | None = None


@dataclass(frozen=True)
class Step:
    """One training step of a program, as `export` needs it.

    Parameters
    ----------
    parameters : sequence of tf.Variable
        What is synchronised, in the layout's order.
    traced : Traced
    optimizing : Optimizing
    local : sequence of tf.Variable, optional
        What else it uses, as far as TensorFlow does not see it.
    metrics : RunningMetrics, optional
    constraints : sequence of (callable or None), optional
        For each parameter what makes a value one that it may have.
    cut : Cut, optional
        Where the optimizer's update begins; None for a step that is whole.
    served : sequence of ServedVariables, optional
        What has the rows of served tables.
    served_ids : callable, optional
        Takes a batch and returns which of their rows it needs; to be traced.
    """

    parameters: Sequence[tf.Variable]
    traced: Traced
    optimizing: Optimizing
    local: Sequence[tf.Variable] = ()
    metrics: RunningMetrics = RunningMetrics()
    constraints: Sequence[Callable[[tf.Tensor], tf.Tensor] | None] = ()
    cut: Cut | None = None
    served: Sequence[ServedVariables] = ()
    served_ids: Callable[..., Sequence[tf.Tensor]] | None = None


def trace(
    apply: Callable[..., Outputs | tuple[Outputs, Sequence[tf.Tensor]]],
    columns: Sequence[tf.TensorSpec],
    what: str = "the training step",
    tables: Sequence[tf.Variable] = (),
) -> Traced:
    """Trace what a step does with one batch.

    Parameters
    ----------
    apply : callable
        Takes a batch, an argument for each feed, trains on it, and returns the outputs by
        name: scalar tensors. That of a step which is cut also returns the gradients.
    columns : sequence of tf.TensorSpec
        dtype and shape, batch dimension included, of each feed's data.
    what : str
        The step, for messages.
    tables : sequence of tf.Variable, optional
        Those parameters that are exchanged by row.

    Raises
    ------
    ShapeMismatch
        An output is not a scalar.
    UnsupportedProgram
        The step holds an operation that only the driver can run, or uses Python on tensors.
    """

    def guarded(*batch: tf.Tensor) -> tuple[Outputs, Sequence[tf.Tensor], Any]:
        try:
            found = apply(*batch)
            outputs, gradients = found if isinstance(found, tuple) else (found, [])
            return outputs, gradients, rows_written(tables)
        except Exception:
            # What the driver alone can run has no gradient: say that, rather than what follows.
            refuse_driver_bound(operations(tf.compat.v1.get_default_graph()))
            raise

    with graph_only(what):
        function = tf.function(guarded, autograph=False).get_concrete_function(*columns)
    outputs, _, touched = function.structured_outputs
    for name, value in outputs.items():
        if not isinstance(value, tf.Tensor) or value.shape.rank not in (0, None):
            raise ShapeMismatch(
                f"A training step's output {name!r} must be a scalar tensor, got {value!r}. "
                "Reduce it with tf.reduce_mean."
            )
    refuse_driver_bound(operations(function.graph))
    return Traced(function, outputs, touched or None)


def layout_of(
    names: Sequence[str],
    variables: Sequence[tf.Variable],
    statistics: Collection[int] = (),
    shown: int | None = None,
    tables: Collection[int] = (),
    served: Iterable[ServedTable] = (),
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
    tables : collection of int, optional
        Which of them are exchanged by row.
    served : iterable of ServedTable, optional
        What shards have beside the variables.
    """
    # Subclassed models may hold two weights of one name; a number tells them apart.
    unique = [n if names.count(n) == 1 else f"{n}#{i}" for i, n in enumerate(names)]
    count = len(variables) if shown is None else shown
    specs = (
        ParameterSpec(
            name,
            tuple(v.shape.as_list()),
            v.dtype.base_dtype.name,
            trained=i not in statistics,
            shown=i < count,
            by_row=i in tables,
        )
        for i, (name, v) in enumerate(zip(unique, variables, strict=True))
    )
    return Layout(specs, served)


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


def values_of(layout: Layout, variables: Iterable[tf.Variable]) -> Buffer:
    """Return the present values of variables, packed by their layout."""
    buffer = layout.allocate()
    with eagerly():
        # One by one: a list would hold all parameters once more.
        for view, variable in zip(layout.tensors(buffer).values(), variables, strict=True):
            view[...] = variable.numpy()
    return buffer
