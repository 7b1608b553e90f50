"""Columns of a Spark DataFrame as training data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import types

from ...blocks.block import ColumnSpec
from ...blocks.feeds import Feed, narrowed
from ...blocks.naming import Field, Names, in_order
from ...blocks.skips import ADVICE, Advice, SkipCounter
from ...blocks.sparse import WIDTH
from ...cluster.backend import spark_context
from ...common.arrays import STRING
from ...errors import DataError, ShapeMismatch
from ..arrow import ArrowDecoder
from ..arrow_rows import ArrowColumn
from ..counted import counted
from ..described import DataDescription
from ..images import image_spec
from ..rdd import RddSource, is_ordered
from . import kinds
from .batches import arrow_batches, estimated_bytes, is_persisted, nbytes
from .kinds import Column, Shape

_GROUPS = {"features": "inputs", "label": "labels", "weight": "weight"}
"""What the columns are called here, and what the feeds are called that take them."""

CAPTURE = " Capture the model with it: tos.capture(model, weights=True)."
"""What to do about a weight that the program does not take."""

OWN_INPUT = " Name them: label=... A model that learns to return its input takes that as label."
"""What to do about a label that is not there."""

COMBINE = (
    " Say which go into which input, such as with features={{{0!r}: [{1}]}}: columns of numbers in "
    "one list are fed as one array."
)
"""What to do about more features than inputs."""


@dataclass(frozen=True)
class FrameColumns(DataDescription):
    """What `columns` returns: columns of a DataFrame, one for each feed.

    Parameters
    ----------
    frame : DataFrame
    features, label : sequence of str, or mapping of str to str
        Names of columns, or for each name of an input or output that of its column.
    weight : tuple of str
    shapes : mapping of str to tuple of int
        Of one row, where given.
    pad : mapping of str to int
        The length to which arrays are brought.
    on_bad : {"raise", "skip"}
    advice : Advice
        What errors advise.
    columns : mapping of str to Column
        By their names.
    looks : bool
        Whether the first row is looked at, so that mistakes are found at once; else only if the
        program does not say what rows are to be.
    fill : mapping of str to number or str
        What stands for null and NaN, by column; also to be given to other data.
    """

    frame: Any
    features: Names
    label: Names = ()
    weight: tuple[str, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    pad: Mapping[str, int] = field(default_factory=dict)
    on_bad: str = "raise"
    advice: Advice = ADVICE
    columns: Mapping[str, Column] = field(default_factory=dict)
    looks: bool = True
    fill: Mapping[str, str | float | bool] = field(default_factory=dict)

    def unlooked(self) -> FrameColumns:
        """Return the same, which looks at rows only if it must; see `DataDescription.unlooked`."""
        return replace(self, looks=False)

    @property
    def labelled(self) -> bool:
        """See `DataDescription.labelled`."""
        return bool(self.label)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns: features, then labels, then the weight."""
        return tuple(name for part in self.parts for name in part)

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """The columns of features, of labels, and of the weight."""
        return values_of(self.features), values_of(self.label), self.weight

    def arranged(self, ports: Sequence[Field]) -> FrameColumns:
        """Return the same, each column at the place of the port that it is for.

        Raises
        ------
        ShapeMismatch
            Names do not fit; see `in_order`. Or there are more or fewer features, labels or
            weights than the program takes.
        """
        one = self.stacked(ports)
        if one is not self:
            return one.arranged(ports)
        features, label, _ = groups = self._groups(ports)
        found = replace(
            self,
            features=in_order(self.features, features, "features"),
            label=in_order(self.label, label, "label"),
        )
        if _say(ports):
            for what, names, wanted in zip(_GROUPS, found.parts, groups, strict=True):
                _check_count(what, names, wanted)
        return found

    def stacked(self, ports: Sequence[Field]) -> FrameColumns:
        """Return the same, with one column in place of the features, if one input takes them all.

        Raises
        ------
        DataError
            They are not all single numbers, or all single strings.
        ShapeMismatch
            There are more or fewer than the input takes.
        """
        inputs = [port for port in ports if port.part == "inputs"]
        if len(inputs) != 1 or len(self.features) < 2 or isinstance(self.features, Mapping):
            return self
        one = kinds.stacked([self.columns[name] for name in self.features])
        shape = getattr(inputs[0], "shape", None)
        if shape is not None and None not in shape and math.prod(shape) != len(self.features):
            raise ShapeMismatch(
                f"features: expected as many columns as {inputs[0].name!r} of shape {shape} takes, "
                f"{math.prod(shape)}; got {len(self.features)}: "
                f"{', '.join(map(repr, self.features))}."
            )
        return replace(self, columns={**self.columns, one.name: one}, features=(one.name,))

    def mapping(self, ports: Sequence[Field]) -> list[tuple[str, str]]:
        """Return each column's name, and that of the port that it is for."""
        names = self.arranged(ports).names
        return list(zip(names, (port.name for port in ports), strict=False))

    def _groups(self, ports: Sequence[Field]) -> Sequence[Sequence[Field]]:
        """Return the ports of features, labels and weight; by their number if they do not say."""
        if _say(ports):
            return [[p for p in ports if p.part == part] for part in _GROUPS.values()]
        first, second = len(self.features), len(self.features) + len(self.label)
        return ports[:first], ports[first:second], ports[second:]

    def of_inputs(self, inputs: Sequence[Field]) -> FrameColumns:
        """Return the features alone, arranged for a model that predicts."""
        return replace(self, label=(), weight=()).arranged(inputs)

    def source(self, sc: Any, feeds: Sequence[Feed]) -> RddSource:
        """Return the rows as a source for a program; see `DataDescription.source`.

        Looks at the first row without a null, for the lengths of arrays.

        Raises
        ------
        DataError
            The DataFrame has no such row, or is of another Spark context.
        ShapeMismatch
            Names of columns do not fit the program's.
        """
        return self.arranged(feeds)._source(sc, feeds)

    def _source(self, sc: Any, feeds: Sequence[Feed]) -> RddSource:
        from pyspark.sql.pandas.types import to_arrow_schema

        if self.frame.isStreaming:
            raise DataError(
                "Expected a DataFrame with an end, got a streaming one: only predict takes it."
            )
        spark = self.frame.sparkSession
        if spark_context(spark) is not sc:
            raise DataError("The DataFrame belongs to another Spark context than the session's.")
        frame = self.frame.select(*self.expressions(feeds))
        large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
        schema = to_arrow_schema(frame.schema, prefers_large_types=large)
        columns = (None if self.looks else self.known(feeds)) or self.looked_at(frame, feeds)
        batches = arrow_batches(frame, sc, sum(map(nbytes, frame.schema, columns)))
        skips = counted(sc, self.on_bad)
        decoder = ArrowDecoder(schema, columns, skips, is_ordered(batches), self.advice)
        blocks = batches.mapPartitionsWithIndex(decoder)
        return RddSource.from_decoded(
            blocks,
            tuple(c.spec for c in columns),
            skips or SkipCounter(),
            estimated_bytes(frame),
            is_persisted(self.frame),
        )

    def expressions(self, feeds: Sequence[Feed]) -> list[Any]:
        """Return the columns as Spark is to send them: vectors in parts, arrays filled up.

        They are called by their numbers: one may be both feature and label.
        """
        found = zip(self.names, self._fed(feeds), strict=True)
        return [
            kinds.expression(self.columns[name], feed).alias(f"c{i}")
            for i, (name, feed) in enumerate(found)
        ]

    def looked_at(self, frame: Any, feeds: Sequence[Feed]) -> tuple[ArrowColumn, ...]:
        """Return what the rows of `expressions` are to be, after a look at the first one.

        Raises
        ------
        DataError
            Every row has a null, or it does not have the length of its shape. Or the frame is a
            streaming one.
        """
        if self.frame.isStreaming:
            raise DataError(
                "The rows of a streaming DataFrame have not come yet: expected the lengths of its "
                f"arrays, such as shapes={{{self.names[0]!r}: (28,)}} or pad={{...}}, or a model "
                "whose inputs have known shapes."
            )
        lengths = kinds.first_lengths(frame)
        if lengths is None:
            raise DataError(
                "The DataFrame has nothing to look at: expected at least one row without a null "
                f"in {', '.join(self.names)}."
            )
        return self._columns(lengths, feeds)

    def known(self, feeds: Sequence[Feed]) -> tuple[ArrowColumn, ...] | None:
        """Return what the rows are to be by what the feeds say alone; None if they do not."""
        if len(feeds) != len(self.names):
            return None
        lengths = [self._known(name, feed) for name, feed in zip(self.names, feeds, strict=True)]
        whole = [length for length in lengths if length is not None]
        return self._columns(whole, feeds) if len(whole) == len(lengths) else None

    def _known(self, name: str, feed: Feed) -> Shape | None:
        depth = kinds.depth_of(self.columns[name].kind)
        padded = (self.pad[name],) if name in self.pad else feed.shape
        shape = self.shapes.get(name, padded)
        if depth == 0 or shape is None:
            return None if depth else ()
        whole = tuple(n for n in shape if n is not None)
        return whole if len(whole) == len(shape) == depth else None

    def _columns(self, lengths: Sequence[Shape], feeds: Sequence[Feed]) -> tuple[ArrowColumn, ...]:
        return tuple(map(self._column, self.names, lengths, self._fed(feeds)))

    def _fed(self, feeds: Sequence[Feed]) -> Sequence[Feed | None]:
        # Too many or too few are refused later, as for all sources.
        return feeds if len(feeds) == len(self.names) else [None] * len(self.names)

    def _column(self, name: str, lengths: Shape, feed: Feed | None) -> ArrowColumn:
        kind = self.columns[name].kind
        if kinds.is_bytes(kind):
            return self._of_bytes(name, kind, feed)
        # The first row does not tell: Spark's own stages make each vector what is smaller.
        sparse = kinds.is_vector(kind) and lengths[0] >= WIDTH
        # The first row may be longer, and bad.
        lengths = (self.pad[name],) if name in self.pad else lengths
        # One number fits nothing but an input of one number, whose shape Keras writes as (1,).
        one = lengths == () and feed is not None and feed.shape == (1,)
        shape = self.shapes.get(name, (1,) if one else _shaped(lengths, feed))
        if math.prod(shape) != math.prod(lengths):
            raise DataError(
                f"Column {name!r}: expected arrays of {math.prod(shape)} values for shape {shape}, "
                f"got one of shape {lengths}."
            )
        dtype = kinds.dtype_of(kind)
        if feed is not None and (dtype, feed.dtype) == ("float64", "float32"):
            # What the program would do with them anyway, at half the memory.
            dtype = "float32"
        spec = ColumnSpec(dtype, shape, name)
        if feed is None:
            return ArrowColumn(spec, lengths, sparse=sparse)
        varies = isinstance(kind, types.ArrayType) and (name in self.pad or feed.shape == (None,))
        return ArrowColumn(spec, lengths, feed.classes, narrowed(dtype, feed.dtype), varies, sparse)

    def _of_bytes(self, name: str, kind: Any, feed: Feed | None) -> ArrowColumn:
        shape, dtype = (None, None) if feed is None else (feed.shape, feed.dtype)
        is_binary = isinstance(kind, types.BinaryType)
        if is_binary and name in self.shapes:
            raw = ColumnSpec("uint8", self.shapes[name], name)
            classes = None if feed is None else feed.classes
            return ArrowColumn(raw, (math.prod(raw.shape),), classes, narrowed("uint8", dtype))
        if is_binary and dtype == STRING:
            one = (1,) if shape == (1,) else ()
            return ArrowColumn(ColumnSpec(STRING, one, name), ())
        spec = image_spec(name, self.shapes.get(name, shape), dtype)
        return ArrowColumn(spec, (), image=True)


def _shaped(lengths: Shape, feed: Feed | None) -> Shape:
    """Return the shape of an input that takes as many values as an array has, if one is flat."""
    shape = () if feed is None or feed.shape is None else feed.shape
    whole = tuple(n for n in shape if n is not None)
    fits = len(whole) == len(shape) > 0 < len(lengths) and 1 in (len(shape), len(lengths))
    return whole if fits and math.prod(whole) == math.prod(lengths) else lengths


def _say(ports: Sequence[Field]) -> bool:
    """Tell whether all ports say what they are of a record."""
    return bool(ports) and all(port.part for port in ports)


def _check_count(what: str, names: Sequence[str], ports: Sequence[Field]) -> None:
    """Refuse what would go to a port of another kind."""
    if len(names) == len(ports):
        return
    wanted = f"columns for {', '.join(repr(port.name) for port in ports)}" if ports else "no column"
    raise ShapeMismatch(
        f"{what}: expected {wanted}, got {', '.join(map(repr, names)) or 'none'}."
        + (CAPTURE if what == "weight" and names else "")
        + (OWN_INPUT if what == "label" and not names else "")
        + (_combine(names, ports) if what == "features" and len(names) > len(ports) > 0 else "")
    )


def _combine(names: Sequence[str], ports: Sequence[Field]) -> str:
    return COMBINE.format(ports[0].name, ", ".join(map(repr, names[:2])))


def values_of(names: Names) -> tuple[str, ...]:
    """Return the names of columns alone, in order."""
    return tuple(names.values() if isinstance(names, Mapping) else names)
