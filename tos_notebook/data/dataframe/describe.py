"""What users say of a DataFrame's columns, before a program is known."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ...blocks.naming import Names
from ...blocks.skips import limit_of
from ...errors import DataError
from ..described import as_frame
from . import kinds
from .frame import FrameColumns, values_of
from .kinds import Column
from .prepared import Prepared, Value


def columns(
    frame: Any,
    features: Any,
    label: Any = (),
    *,
    weight: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    pad: Mapping[str, int | str] | None = None,
    longer: str = "bad",
    pad_value: Any = None,
    masks: Sequence[str] = (),
    fill: Mapping[str, Value] | None = None,
    indicators: Sequence[str] = (),
    on_bad: str = "raise",
) -> FrameColumns:
    """Describe which columns of a Spark DataFrame to train on.

    The result is training or validation data for `TrainingSession.start` and ``%%tos_train``. A
    row is fed as one record: its features, then its labels. Rows go from Spark to the training
    processes as Arrow batches; a partition of the DataFrame is one of the training.

    Parameters
    ----------
    frame : DataFrame
        Of Spark, or pandas-on-Spark's.
    features : str, Column, sequence of them, or mapping of str to them
        Columns, one for each input of the program: in its order, or in any order if they have the
        inputs' names. Names are resolved as Spark does: ``"Age"`` finds ``age``, and
        ``"person.age"`` what is in a struct. A mapping, such as ``{"left": "column"}``, has an
        input's name for each column. Several columns of one number each are fed to an only input
        as one array; for one of several inputs give it a list, ``{"left": ["a", "b"]}``. Columns
        hold numbers or booleans, arrays of them (nested for more dimensions) of one length, or
        Spark's vectors (sparse ones become dense, wide ones batch by batch). They also hold text,
        raw bytes (uint8, with a shape), or images: encoded ones (JPEG, PNG, BMP, GIF) or those of
        ``spark.read.format("image")``. Images are decoded on the executors, get the channels of
        the input, and are scaled to its size. They are numbers from 0 to 255. Decimals, dates and
        timestamps become doubles, times in seconds since 1970. A flat array takes the shape of the
        program's input.
    label : str, Column, sequence of them, or mapping of str to them
        The same for the outputs' labels; none for a program that takes none.
    weight : str, optional
        The column that says how much a row counts in the loss, for a model that was captured with
        ``tos.capture(model, weights=True)``.
    shapes : mapping of str to sequence of int, optional
        The shape of one row of a column, such as ``{"image": (28, 28, 1)}``: of raw bytes, or of
        arrays that are flat in the DataFrame. Without it bytes are encoded images.
    pad : mapping of str to int or "longest", optional
        The length of a column whose arrays differ, such as ``{"tokens": 128}``: shorter ones are
        filled up behind with zeros, or with empty text. A Spark job finds the ``"longest"``; give
        the same to other data: ``pad=train.pad``.
    longer : {"bad", "cut"}
        What becomes of arrays that are longer: the row is bad, or what is too much is left out.
    pad_value : number or str, or mapping of str to them, optional
        What arrays are filled up with, for all columns of `pad` or for each by its name.
    masks : sequence of str
        Columns of `pad` of which the model also takes which positions are real: booleans, in a
        column such as ``tokens_mask``. It follows the features, unless they name it.
    fill : mapping of str to number or str, optional
        What stands for null and NaN in columns of numbers or text, such as ``{"age": 0.0, "city":
        "unknown"}``. For numbers ``"mean"``, ``"median"`` and ``"mode"`` are found by a Spark job;
        give the same to other data: ``fill=train.fill``.
    indicators : sequence of str
        Columns of `fill` of which the model also takes where a value was missing: 1.0, in a column
        such as ``age_missing``. It follows the features, unless they name it.
    on_bad : {"raise", "skip", "skip:100"}
        For a bad row, the run ends and names it, or the row is skipped and counted. A row is bad if
        it has a null, NaN, infinity, a broken image, or an array of another length than the first
        row's. An integer that does not fit and an unknown label are also bad. Skipped rows are
        counted in `RunStatus.rows_skipped` and events `RowsSkipped`. With ``"skip:100"`` more
        than 100 of them end the run.

    Raises
    ------
    DataError
        A column is missing, or of a type that cannot be fed.
    ConfigError
        An option has a value that it cannot have, or names a column that another one has to name.

    Examples
    --------
    >>> train = tos.columns(df, features=["pixels"], label="digit")           # doctest: +SKIP
    >>> session.run(train, epochs=5)                                          # doctest: +SKIP
    """
    given = {name: tuple(int(n) for n in shape) for name, shape in (shapes or {}).items()}
    frame = as_frame(frame)
    if not getattr(frame, "schema", None):
        raise DataError(f"Expected a Spark DataFrame, got {type(frame).__name__}.")
    prepared = Prepared(frame)
    fill = prepared.fill(fill or {}, indicators)
    lengths = prepared.pad(pad or {}, longer, pad_value, masks)
    known: dict[str, Column] = {}
    features = prepared.with_added(features)
    groups = [_named(prepared, group, known) for group in (features, label, weight or ())]
    for name in (*given, *lengths):
        if name not in known:
            kinds.found(frame, name)
    prepared.check_used("fill", fill)
    prepared.check_used("pad", lengths)
    prepared.check_used("masks", masks)
    limit_of(on_bad)
    names, labels, weights = groups
    fixed = given, lengths, on_bad
    return FrameColumns(frame, names, labels, values_of(weights), *fixed, columns=known, fill=fill)


def _named(prepared: Prepared, group: Any, known: dict[str, Column]) -> Names:
    """Return the names of a group's columns, which are added to those that are known."""
    if isinstance(group, Mapping):
        return {port: _one(prepared, each, known) for port, each in group.items()}
    single = isinstance(group, str) or not isinstance(group, Sequence)
    return tuple(_one(prepared, each, known) for each in ([group] if single else group))


def _one(prepared: Prepared, given: Any, known: dict[str, Column]) -> str:
    several = isinstance(given, Sequence) and not isinstance(given, str)
    parts = [prepared.found(each) for each in (given if several else [given])]
    column = kinds.stacked(parts) if several else parts[0]
    name = _key(column, known)
    known[name] = column
    return name


def _key(column: Column, known: Mapping[str, Column]) -> str:
    """Return by what a column is known: its name, with a number if another one has that.

    Spark calls a column and a cast of it the same.
    """
    more = (f"{column.name} ({number})" for number in itertools.count(2))
    return next(
        name
        for name in itertools.chain([column.name], more)
        if name not in known or kinds.are_same(known[name].value, column.value)
    )
