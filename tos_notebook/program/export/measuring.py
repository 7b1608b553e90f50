"""Make a program that measures rows: loss and metrics as sums, which add up over partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ...archive.stack_frames import operations
from ...blocks.block import ColumnSpec
from .serving import specs_of
from .step import guarded_save, refuse_driver_bound


def pack_measure(
    step: Callable[..., object],
    columns: Sequence[ColumnSpec],
    state: Callable[[], Sequence[Any]],
    reads: Iterable[Any],
    reset: Callable[[], object],
    target: Path,
) -> None:
    """Trace what is done with a batch, and pack it with the variables' present values.

    Parameters
    ----------
    step : callable
        Takes a tensor for each column, and adds what it finds to the state.
    columns : sequence of ColumnSpec
    state : callable
        Returns, after the trace, the variables that are added to.
    reads : iterable of tf.Variable
        What else the step reads.
    reset : callable
        Puts the state back to where it begins.
    target : Path
        Becomes an archive; see `tos_notebook.runtime.measure.Measure`.

    Raises
    ------
    UnsupportedProgram
        The step holds an operation that only the driver can run.
    """

    def measure(*batch: tf.Tensor) -> tf.Tensor:
        step(*batch)
        return tf.zeros([])

    function = tf.function(measure, input_signature=specs_of(columns), autograph=False)
    concrete = function.get_concrete_function()
    refuse_driver_bound(operations(concrete.graph))
    module = tf.Module()
    module.measure = function
    module.state = list(state())
    module.reads = [*reads, *concrete.graph.variables]
    reset()
    guarded_save(module, {}, target)
