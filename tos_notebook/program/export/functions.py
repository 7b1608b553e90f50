"""A program's functions: train batches, add up their gradients, make an optimizer's step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ...archive.stack_frames import graphs
from ...layout import Layout
from .cut import Cut
from .frozen import assigned
from .rows import unique
from .step import Step

SHARES_MEMORY = {
    "Identity", "Reshape", "ExpandDims", "Squeeze", "StridedSlice", "Slice", "Split", "SplitV",
    "Unpack", "StopGradient", "PreventGradient", "EnsureShape", "Bitcast", "CheckNumerics",
    "Cast", "ConcatV2", "Snapshot", "IdentityN", "Transpose",
}  # fmt: skip
"""Operations whose output may be their input's memory."""

Batch = tuple[tf.Tensor, ...]


def _adopt(step: Step, layout: Layout, vectors: Sequence[tf.Tensor]) -> None:
    """Adopt the parameters of the first segments."""
    for index, value in _tensors(layout, vectors).items():
        constraint = step.constraints[index] if step.constraints else None
        # What several workers' changes add up to may lie outside.
        step.parameters[index].assign(value if constraint is None else constraint(value))


def _tensors(layout: Layout, vectors: Sequence[tf.Tensor]) -> dict[int, tf.Tensor]:
    """Return the tensors of the first segments, copied from their vectors, by their places."""
    found: dict[int, tf.Tensor] = {}
    for segment, vector in zip(layout.segments, vectors, strict=False):
        for index, start in zip(segment.indices, segment.starts, strict=True):
            spec = layout.specs[index]
            found[index] = tf.reshape(_copy(vector[start : start + spec.size]), spec.shape)
    return found


def _vectors(layout: Layout, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the layout's vectors of its tensors."""
    made = []
    for segment in layout.segments:
        parts: list[tf.Tensor] = []
        end = 0
        for index, start in zip(segment.indices, segment.starts, strict=True):
            if start > end:
                parts.append(tf.zeros([start - end], segment.dtype))
            parts.append(tf.reshape(tensors[index], [-1]))
            end = start + layout.specs[index].size
        made.append(tf.concat(parts, 0))
    return made


def _one_batch(step: Step, outputs: Sequence[str]) -> Callable[[Sequence[tf.Tensor]], Any]:
    """Return what computes the gradients of one batch, by the parameters that are there."""
    function, places = step.traced.function, _places(step)
    copies = _keeps_its_batch(step)

    def train(columns: Sequence[tf.Tensor]) -> Any:
        step.metrics.reset()
        found, gradients, _ = function(*map(_copy, columns) if copies else columns)
        values = [tf.convert_to_tensor(variable) for variable in step.parameters]
        for (place, _), gradient in zip(places, gradients, strict=True):
            values[place] = gradient
        return values, _stacked(dict(found) | dict(step.metrics.results()), outputs)

    return train


def batch_function(step: Step, layout: Layout, outputs: Sequence[str]) -> Callable[..., Any]:
    """Return what computes the gradients of one batch; see `train_function`.

    A loop and its sums would cost a small batch a good part of its time.
    """
    one_batch = _one_batch(step, outputs)

    def train(vectors: list[tf.Tensor], columns: list[tf.Tensor]) -> Any:
        _adopt(step, layout, vectors)
        return one_batch(columns)

    return train


def advance_function(
    step: Step, cut: Cut, layout: Layout, outputs: Sequence[str]
) -> Callable[..., Any]:
    """Return what makes a step, and computes the gradients of the next batch.

    It is `update_function` and `batch_function` one after the other, for parameters that are still
    there from the last call.
    """
    update, one_batch = _update(step, cut, layout), _one_batch(step, outputs)

    def advance(means: list[tf.Tensor], columns: list[tf.Tensor]) -> Any:
        update(means)
        # Before the batch moves its statistics.
        parameters = _vectors(layout, [tf.convert_to_tensor(v) for v in step.parameters])
        gradients, values = one_batch(columns)
        return parameters, _vectors(layout, gradients), values

    return advance


def train_function(step: Step, layout: Layout, outputs: Sequence[str]) -> Callable[..., Any]:
    """Return what trains batches one after the other, or adds up their gradients.

    It returns a value for each parameter: its gradient, if the step is cut and it has one.
    """
    batches, places = _batches(step, outputs), _places(step)

    def train(vectors: list[tf.Tensor], columns: list[tf.Tensor], batch_size: tf.Tensor) -> Any:
        _adopt(step, layout, vectors)
        sums, _, means = batches(columns, batch_size)
        values = [tf.convert_to_tensor(v) for v in step.parameters]
        for (place, _), gradient in zip(places, sums, strict=True):
            values[place] = gradient
        return values, means

    return train


def rows_function(step: Step, layout: Layout, outputs: Sequence[str]) -> Callable[..., Any]:
    """Return what trains as `train_function` does, where tables are there but for some rows.

    It takes a vector for each segment that is no table, and the numbers and values of the rows to
    put into each table. It returns a value for each other parameter, and of each table the numbers
    and values of the rows that have changed.
    """
    both = list(zip(step.parameters, layout.specs, strict=True))
    tables = [variable for variable, spec in both if spec.by_row]
    others = [variable for variable, spec in both if not spec.by_row]
    batches = _batches(step, outputs)

    def train(
        vectors: list[tf.Tensor],
        ids: list[tf.Tensor],
        rows: list[tf.Tensor],
        columns: list[tf.Tensor],
        batch_size: tf.Tensor,
    ) -> Any:
        _adopt(step, layout, vectors)
        for table, numbers, values in zip(tables, ids, rows, strict=True):
            table.scatter_update(tf.IndexedSlices(values, numbers))
        _, touched, means = batches(columns, batch_size)
        numbers = [unique(found) for found in touched]
        changed = [tf.gather(t, found) for t, found in zip(tables, numbers, strict=True)]
        return [tf.convert_to_tensor(v) for v in others], numbers, changed, means

    return train


def _batches(step: Step, outputs: Sequence[str]) -> Callable[..., Any]:
    """Return what trains batches with the parameters that are there.

    It returns the sums of the gradients, the numbers of the rows of tables that were changed, and
    the outputs.
    """
    at_end = set(step.metrics.results())
    at_each = [name for name in outputs if name not in at_end]
    running = tf.constant([name in step.metrics.names for name in at_each], tf.bool)
    function = step.traced.function
    copies = _keeps_its_batch(step)
    places = _places(step)

    def cut(columns: list[tf.Tensor], start: tf.Tensor, stop: tf.Tensor) -> Batch:
        batch = [column[start:stop] for column in columns]
        return tuple(map(_copy, batch) if copies else batch)

    def train(columns: list[tf.Tensor], batch_size: tf.Tensor) -> Any:
        step.metrics.reset()
        rows = tf.shape(columns[0])[0]

        def one_step(
            start: tf.Tensor, total: tf.Tensor, sums: list[tf.Tensor], touched: list[tf.Tensor]
        ) -> Any:
            stop = tf.minimum(start + batch_size, rows)
            found, gradients, written = function(*cut(columns, start, stop))
            touched = [tf.concat(two, 0) for two in zip(touched, written, strict=True)]
            # Of one batch the share is 1, and its gradient stays as it is to the bit.
            share = tf.cast(stop - start, tf.float64) / tf.cast(rows, tf.float64)
            both = zip(sums, gradients, strict=True)
            sums = [s + tf.cast(share, s.dtype) * gradient for s, gradient in both]
            if not at_each:
                return stop, total, sums, touched
            values, weight = _stacked(found, at_each), tf.cast(stop - start, tf.float64)
            return stop, tf.where(running, values, total + weight * values), sums, touched

        zeros = [tf.zeros(step.parameters[place].shape, g.dtype) for place, g in places]
        none = [tf.zeros([0], tf.int64) for _ in step.traced.touched or ()]
        state = (tf.constant(0), tf.zeros([len(at_each)], tf.float64), zeros, none)
        fixed = tf.nest.map_structure(lambda tensor: tensor.shape, state[:3])
        shapes = (*fixed, [tf.TensorShape([None]) for _ in none])
        _, total, sums, touched = tf.while_loop(
            lambda start, *_: start < rows,
            one_step,
            state,
            shapes,
            parallel_iterations=1,
        )
        means = tf.where(running, total, total / tf.cast(rows, tf.float64))
        found = dict(zip(at_each, tf.unstack(means), strict=True)) | dict(step.metrics.results())
        return sums, touched, _stacked(found, outputs)

    return train


def _places(step: Step) -> list[tuple[int, tf.Tensor]]:
    """Return the gradients of a step that is cut, each with the place of its parameter."""
    if step.cut is None:
        return []
    known = {id(variable): index for index, variable in enumerate(step.parameters)}
    _, gradients, _ = step.traced.function.structured_outputs
    return [(known[id(v)], g) for v, g in zip(step.cut.variables, gradients, strict=True)]


def update_function(step: Step, cut: Cut, layout: Layout) -> Callable[..., Any]:
    """Return what lets the optimizer make a step by the mean of all workers' gradients."""
    by_means = _update(step, cut, layout)

    def update(vectors: list[tf.Tensor], means: list[tf.Tensor]) -> list[tf.Tensor]:
        for index, old in _tensors(layout, vectors).items():
            step.parameters[index].assign(old)
        by_means(means)
        return [tf.convert_to_tensor(variable) for variable in step.parameters]

    return update


def _update(step: Step, cut: Cut, layout: Layout) -> Callable[[Sequence[tf.Tensor]], None]:
    """Return what makes a step from the parameters that are there."""
    places = [place for place, _ in _places(step)]
    # What a batch moves, such as statistics, is a mean of values; all else is as it was.
    moved = set(map(id, assigned(step.traced.function, step.parameters)))

    def update(means: Sequence[tf.Tensor]) -> None:
        found = _tensors(layout, means)
        for index, variable in enumerate(step.parameters):
            if id(variable) in moved:
                variable.assign(found[index])
        cut.update([found[place] for place in places])

    return update


def _stacked(found: Mapping[str, tf.Tensor], names: Sequence[str]) -> tf.Tensor:
    if not names:
        return tf.zeros([0], tf.float64)
    # The reshape tells what is a scalar although the graph does not know it.
    return tf.stack([tf.reshape(tf.cast(found[name], tf.float64), []) for name in names])


def _copy(tensor: tf.Tensor) -> tf.Tensor:
    # A variable takes over the memory it is assigned, here the caller's. A copy costs nothing:
    # TensorFlow would make it at the first update of shared memory.
    return tf.raw_ops.DeepCopy(x=tensor)


def _keeps_its_batch(step: Step) -> bool:
    """Return whether a variable of the step would share memory with the caller's rows."""
    return any(map(_assigns_an_input, graphs(step.traced.function.graph)))


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
