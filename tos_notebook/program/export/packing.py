"""Pack a step as a portable program: a zipped SavedModel with its specification."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ...archive.spec import SPEC_FILE, ProgramSpec
from ...archive.stack_frames import FRAMES_FILE
from ...common import temporary
from ...errors import UnsupportedProgram
from ...readable import LONGEST_NAME, readable
from ...runtime.eager import quiet
from ...wire.limits import MOST_METRICS
from .cut import cannot_be_cut
from .frozen import assigned
from .functions import (
    advance_function,
    batch_function,
    rows_function,
    train_function,
    update_function,
)
from .served import place_function, take_function
from .step import Step
from .tables import tables_of
from .tracing import traced


def export(
    step: Step, spec: ProgramSpec, columns: Sequence[tf.TensorSpec], frames: bytes, target: Path
) -> list[tf.Variable]:
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

    Returns
    -------
    list of tf.Variable
        All but the parameters whose values it holds.

    Raises
    ------
    UnsupportedProgram
        The step needs a resource that is neither a variable nor a lookup table; or it has too
        many metrics, or two of one name.
    """
    _check_metrics(spec.outputs)
    vectors = [tf.TensorSpec([s.size], s.dtype) for s in spec.layout.segments]
    module = tf.Module()
    train = train_function(step, spec.layout, spec.outputs)
    module.train = traced(train, vectors, list(columns), tf.TensorSpec([], tf.int32))
    functions = [module.train]
    if step.traced.touched is not None:
        module.train_rows = traced(
            rows_function(step, spec.layout, spec.outputs),
            vectors[: len(vectors) - len(spec.layout.tables)],
            [tf.TensorSpec([None], tf.int64) for _ in spec.layout.tables],
            [tf.TensorSpec([None, s.table[1]], s.dtype) for s in spec.layout.tables if s.table],
            list(columns),
            tf.TensorSpec([], tf.int32),
        )
        functions.append(module.train_rows)
    if step.cut is not None:
        module.update = traced(update_function(step, step.cut, spec.layout), vectors, vectors)
        functions.append(module.update)
        batch = batch_function(step, spec.layout, spec.outputs)
        module.train_batch = traced(batch, vectors, list(columns))
        if not any(step.constraints):
            # A constraint that is applied twice, as by those two, may change a bit.
            advance = advance_function(step, step.cut, spec.layout, spec.outputs)
            module.advance = traced(advance, vectors, list(columns))
    if step.served_ids is not None:
        module.served_ids = traced(step.served_ids, *columns)
        _add_served(module, step, spec)
    module.parameters = list(step.parameters)
    rate, state = step.optimizing.learning_rate, step.optimizing.state
    module.optimizer_state = list(state)
    known = set(map(id, [*step.parameters, *state]))
    graphs_used = [variable for function in functions for variable in function.graph.variables]
    others = {id(v): v for v in [*step.local, *graphs_used] if id(v) not in known}
    used = list(others.values())
    if step.cut is not None:
        module.updated = _updated([*state, *used], *functions)
    changed = [variable for function in functions for variable in assigned(function, used)]
    changing = set(map(id, [*step.local, rate, *changed]))
    module.local = [v for v in used if id(v) in changing]
    # Apart, since a worker need not keep the values of what never changes.
    module.constants = [v for v in used if id(v) not in changing]
    module.restart = traced(step.optimizing.restart)
    if rate is not None:
        module.learning_rate = rate
    guarded_save(module, {SPEC_FILE: spec.to_json(), FRAMES_FILE: frames}, target)
    return [*state, *used, *([] if rate is None else [rate])]


def _add_served(module: tf.Module, step: Step, spec: ProgramSpec) -> None:
    """Add what puts the rows of served tables in place, and takes them back."""
    tables = spec.layout.served
    ids = [tf.TensorSpec([None], tf.int64) for _ in tables]
    rows = [tf.TensorSpec([None, table.columns], tf.float32) for table in tables]
    counts = [tf.TensorSpec([], tf.int32) for _ in tables]
    module.place_rows = traced(place_function(step.served), ids, rows)
    module.take_rows = traced(take_function(step.served), counts)


def _updated(variables: Sequence[tf.Variable], gradients: Any, update: Any) -> list[tf.Variable]:
    """Return those variables, none of them a parameter, that an update changes.

    Raises
    ------
    UnsupportedProgram
        One part needs what the other changes, in another process.
    """
    apart = [(gradients, update, "the optimizer"), (update, gradients, "the step")]
    for reads, writes, who in apart:
        captured = {id(outer) for outer, _ in reads.graph.captures}
        found = assigned(writes, [v for v in variables if id(v.handle) in captured])
        if found:
            names = f"{found[0].name!r}{f' and {len(found) - 1} more' if found[1:] else ''}"
            raise cannot_be_cut(f"{names}, which {who} changes, is used in both of its parts")
    return assigned(update, variables)


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
        It needs a resource that is neither a variable nor a lookup table.
    """
    module.tables = tables_of([*vars(module).values(), *(signatures or {}).values()])
    with temporary.directory("tos-export-") as folder:
        try:
            with quiet("tensorflow", "absl"):
                tf.saved_model.save(module, folder, signatures=signatures or {})
        except (AssertionError, KeyError) as error:
            # How TensorFlow reports a captured resource that it cannot save.
            raise UnsupportedProgram(
                "The program uses a resource of this process that is neither a variable nor a "
                f"lookup table ({str(error.args[0]).splitlines()[0]}). Prepare the data in Spark, "
                "and feed what it has made."
            ) from error
        zip_folder(Path(folder), notes, target)


def zip_folder(folder: Path, notes: Mapping[str, bytes], target: Path) -> None:
    """Pack a folder's files, and notes, into a zip archive, without compressing weights.

    A note takes the place of a file of its name.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in notes.items():
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and name not in notes:
                archive.write(path, name)


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
