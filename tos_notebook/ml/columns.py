"""Which columns of a DataFrame a stage feeds its model, and in which shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import types

from ..blocks.feeds import Feed
from ..blocks.naming import in_order
from ..blocks.skips import Advice
from ..common.arrays import STRING
from ..data.by_names import as_inputs
from ..data.dataframe import FrameColumns, columns
from ..data.dataframe.frame import values_of
from ..data.dataframe.kinds import quoted
from ..data.images import is_encoded
from ..errors import ConfigError, DataError, ShapeMismatch
from .params import PredictingParams

ADVICE = Advice('handleInvalid="skip"', "in a stage before this one, in column {!r}")


def fed(
    stage: PredictingParams,
    frame: Any,
    inputs: Sequence[Feed],
    label: Sequence[str] = (),
    weight: str | None = None,
) -> FrameColumns:
    """Return a stage's columns of a DataFrame, as training or prediction takes them.

    Flat columns get the shape of the model's input, and so do raw bytes; encoded images are
    decoded. Several columns for an only input are one array.

    Parameters
    ----------
    stage : PredictingParams
    frame : DataFrame
    inputs : sequence of Feed
        The model's.
    label : sequence of str
    weight : str, optional

    Raises
    ------
    ConfigError
        There are more or fewer columns than the model has inputs.
    DataError
        A column is missing, or of a type that cannot be fed; the parameter is named.
    ShapeMismatch
        A column has the name of another input than the one at its place.
    """
    names = stage.features
    which = "inputCols" if stage.given("inputCols") else "featuresCol"
    together = len(inputs) == 1 < len(names)
    if len(names) != len(inputs) and not together:
        raise ConfigError(
            f"{which}: expected a column for each input of the model "
            f"({', '.join(feed.name for feed in inputs)}), got {', '.join(names)}."
        )
    ordered = names if together else in_order(names, inputs, which, "Rename the columns.")
    kinds = {field.name: field.dataType for field in getattr(frame, "schema", ())}
    shapes = {
        name: shape
        for name, feed in zip(ordered, inputs, strict=False)
        if not together
        and (shape := _shape(kinds.get(name), feed))
        and not _are_encoded(frame, name, shape)
    }
    on_bad = "skip" if stage.getHandleInvalid() == "skip" else "raise"
    try:
        found = columns(frame, ordered, label, weight=weight, shapes=shapes, on_bad=on_bad)
        found = found.stacked(as_inputs(inputs)) if together else found
        given = dict(zip(values_of(found.features), (feed.dtype for feed in inputs), strict=True))
        for name, column in found.columns.items():
            if column.is_text and given.get(name) != STRING:
                raise DataError(
                    f"Column {name!r} is a string: expected numbers. Index it with a "
                    "StringIndexer in a stage before this one."
                )
        return replace(found, advice=ADVICE)
    except ShapeMismatch as error:
        raise ShapeMismatch(f"{which}={names}: {error}") from None
    except DataError as error:
        named = "".join(f", labelCol={name!r}" for name in label)
        named += "" if weight is None else f", weightCol={weight!r}"
        raise DataError(f"{which}={names}{named}: {error}") from None


def _shape(kind: Any, feed: Feed) -> tuple[int, ...]:
    """Return an input's shape where all of it is known, and a flat column is to take it."""
    known = tuple(n for n in feed.shape or () if n is not None)
    if len(known) != len(feed.shape or ()):
        return ()
    if isinstance(kind, types.NumericType | types.BooleanType):
        return known if math.prod(known) == 1 else ()
    if isinstance(kind, types.ArrayType) and isinstance(kind.elementType, types.ArrayType):
        return ()
    flat = types.ArrayType | types.BinaryType | types.UserDefinedType
    return known if isinstance(kind, flat) else ()


def _are_encoded(frame: Any, name: str, shape: tuple[int, ...]) -> bool:
    """Tell whether a column has encoded images: its first row does, where it is none of raw bytes.

    Rows of a streaming DataFrame have not come yet: its bytes count as raw.
    """
    if dict(frame.dtypes).get(name) != "binary" or len(shape) != 3 or frame.isStreaming:
        return False
    content = frame.where(frame[quoted(name)].isNotNull()).select(quoted(name)).first()
    return content is not None and len(content[0]) != math.prod(shape) and is_encoded(content[0])
