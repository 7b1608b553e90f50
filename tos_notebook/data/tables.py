"""Columns of a table that the driver holds, such as one of pandas or Hugging Face's datasets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..blocks.block import ColumnSpec
from ..blocks.feeds import Feed
from ..blocks.naming import Field, Named, by_key, in_order
from ..blocks.source import DataSource
from ..common.arrays import Array, is_text
from ..common.checks import did_you_mean
from ..errors import DataError, ShapeMismatch
from ..runtime.eager import eagerly
from .by_names import as_inputs, by_names, has_labels, names_of
from .described import DataDescription
from .held import held
from .images import bad_images, image_spec, pixels_of
from .parts import as_column, fitted
from .series import is_pandas_frame, names_in, stacked, values_of

GROUPS = {"inputs": "features", "labels": "label"}
"""What the columns for the feeds of each part are called."""

PLAIN = "Value", "ClassLabel", "List", "LargeList", "Sequence"
"""Kinds of Hugging Face's columns that Arrow holds as they are."""


class Table:
    """A table, whatever library it is of.

    Parameters
    ----------
    columns : sequence of str
        Names of its columns.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)

    @abstractmethod
    def values(self, name: str, port: Field | None = None) -> Array:
        """Return a column's values, also as those of images that are scaled to a port.

        Raises
        ------
        DataError, ShapeMismatch
            See `tos_notebook.data.series.values_of`.
        """

    def checked(self, name: Any) -> str:
        """Return a column's name.

        Raises
        ------
        DataError
            There is no such column.
        """
        if str(name) not in self.columns:
            hint = did_you_mean(str(name), self.columns)
            raise DataError(
                f"The data have no column {name!r}.{hint} They have {', '.join(self.columns)}."
            )
        return str(name)


class PandasTable(Table):
    """A DataFrame of pandas."""

    def __init__(self, frame: Any) -> None:
        self._names = names_in(frame)
        super().__init__(list(self._names))
        self._frame = frame

    def values(self, name: str, port: Field | None = None) -> Array:
        """See `Table.values`."""
        return values_of(self._frame[self._names[name]], f"Column {name!r}")


class HuggingFaceTable(Table):
    """A dataset of Hugging Face's that is held in memory or mapped into it."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset.column_names)
        self._dataset = dataset

    def values(self, name: str, port: Field | None = None) -> Array:
        """See `Table.values`."""
        shape = getattr(port, "shape", None) or ()
        kind = type(self._dataset.features[name])
        if kind.__name__ == "Image" and len(shape) == 3 and None not in shape:
            return self._scaled(name, kind, image_spec(name, shape, getattr(port, "dtype", None)))
        what, one = f"Column {name!r}", self._dataset.select_columns([name])
        if kind.__name__ in PLAIN:
            # Its own arrays of numpy have fewer digits, or take more memory.
            return values_of(one.with_format("arrow")[:][name].to_pandas(), what)
        values: Array = as_column(one.with_format("numpy")[:][name], what)
        return values

    def _scaled(self, name: str, kind: Any, spec: ColumnSpec) -> Array:
        """Return images, each of its own size, as those that an input takes."""
        import pyarrow as pa

        encoded = self._dataset.select_columns([name]).cast_column(name, kind(decode=False))
        rows = encoded.with_format("arrow")[:][name].to_pylist()
        content = pa.array([row and (row["bytes"] or _read(row["path"])) for row in rows])
        with eagerly():
            pixels = pixels_of(content, spec)
            if pixels is None:
                row, reason = next(iter(bad_images(content, spec).items()))
                raise DataError(f"Column {name!r}, row {row}: expected an image, got {reason}.")
        return pixels


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def table_of(data: Any) -> Table | None:
    """Return data as a table; None if they are none.

    Raises
    ------
    DataError
        It has to be opened or split first.
    """
    where, name = type(data).__module__.partition(".")[0], type(data).__name__
    if is_pandas_frame(data):
        return PandasTable(data)
    if where == "datasets" and name == "Dataset":
        return HuggingFaceTable(data)
    if where == "datasets" and name in ("DatasetDict", "IterableDatasetDict"):
        first = next(iter(data), "train")
        raise DataError(
            f"Expected one dataset, got {name} of {', '.join(data)}. Give one: data[{first!r}]."
        )
    if where == "datasets" and name == "IterableDataset":
        raise DataError(
            "Expected a dataset that can be counted, got an IterableDataset, which is streamed. "
            "Load it without streaming=True, or give a function of ctx that returns a "
            "tf.data.Dataset."
        )
    if (where, name) in (("polars", "DataFrame"), ("pyarrow", "Table")):
        return PandasTable(data.to_pandas())
    return None


def is_table(data: Any) -> bool:
    """Whether data are a table that the driver holds."""
    return table_of(data) is not None


@dataclass(frozen=True)
class TableColumns(DataDescription):
    """Columns of a table that the driver holds.

    Parameters
    ----------
    table : Table
    features, label : sequence of str, or mapping of str to str or sequence of str; None
        Names of columns; without, columns go by the names of inputs and labels.
    """

    table: Table
    features: Any = None
    label: Any = None

    def __post_init__(self) -> None:
        for group in (self.features, self.label):
            for name in names_of(group):
                self.table.checked(name)

    def labelled_for(self, ports: Sequence[Field]) -> bool:
        """See `DataDescription.labelled_for`."""
        return has_labels(self.table.columns, self.features, self.label, ports)

    def source(self, sc: Any, feeds: Sequence[Feed]) -> DataSource:
        """See `DataDescription.source`."""
        return held(sc, self.arrays(feeds), sc.defaultParallelism, feeds)

    def arrays(self, ports: Sequence[Field]) -> tuple[Array, ...]:
        """Return the rows, one array for each port.

        Raises
        ------
        DataError, ShapeMismatch
            Columns do not fit what they are for.
        """
        chosen = self if self.features is not None else self._by_names(ports)
        groups = chosen._groups(ports)
        made = [column for part, here in groups for column in chosen._arrays(part, here)]
        if len(made) != len(ports):
            return tuple(made)
        return tuple(fitted(array, port) for array, port in zip(made, ports, strict=True))

    def of_inputs(self, inputs: Sequence[Field]) -> tuple[Array, ...]:
        """Return the features alone, for a model that predicts."""
        return replace(self, label=None).arrays(as_inputs(inputs))

    def example(self) -> Any:
        """Return one row of zeros for each feature, by the names that these go by."""
        if self.features is None:
            raise DataError(
                "Say which columns the model takes, features=[...]: it has no inputs yet whose "
                f"names they could have. The data have {', '.join(self.table.columns)}."
            )
        if isinstance(self.features, Mapping):
            return {port: self._zeros([*names_of(given)]) for port, given in self.features.items()}
        return [self._zeros([name]) for name in names_of(self.features)]

    def _zeros(self, names: Sequence[Any]) -> Array:
        values = stacked({str(name): self.table.values(str(name)) for name in names})
        values = values[:, 0] if len(names) == 1 and values.shape[1:] == (1,) else values
        zeros = np.zeros((1, *values.shape[1:]), values.dtype)
        if is_text(values):
            zeros.fill(b"")
        return zeros

    def _by_names(self, ports: Sequence[Field]) -> TableColumns:
        found = by_names(self.table.columns, self._is_number, self.label, ports)
        return replace(self, features=found.features, label=found.label)

    def _is_number(self, name: str) -> bool:
        values = self.table.values(name)
        return values.ndim == 1 and not is_text(values)

    def _groups(self, ports: Sequence[Field]) -> list[tuple[str, Sequence[Field]]]:
        """Return the ports of features and labels; by their number if they do not say."""
        if ports and all(port.part for port in ports):
            return [(part, [p for p in ports if p.part == part]) for part in GROUPS]
        first = len(ports) - len(names_of(self.label))
        return [("inputs", ports[:first]), ("labels", ports[first:])]

    def _arrays(self, part: str, ports: Sequence[Named]) -> list[Array]:
        what = GROUPS[part]
        given = self.features if part == "inputs" else self.label
        if given is None:
            return []
        if isinstance(given, Mapping):
            places = [list(names_of(one)) for one in by_key(given, ports, what)]
        else:
            names = [str(name) for name in names_of(given)]
            if len(ports) == 1 < len(names):
                places = [names]
            else:
                places = [[name] for name in in_order(names, ports, what)]
        if ports and len(places) != len(ports):
            raise ShapeMismatch(
                f"{what}: expected columns for {', '.join(repr(port.name) for port in ports)}, got "
                f"{', '.join(str(name) for one in places for name in one)}. Say which go into "
                f"which input, such as with {what}={{{ports[0].name!r}: [...]}}."
            )
        taken: Sequence[Any] = ports or [None] * len(places)
        return [
            self._one([str(name) for name in names], port)
            for names, port in zip(places, taken, strict=True)
        ]

    def _one(self, names: Sequence[str], port: Any) -> Array:
        if len(names) == 1:
            return self.table.values(names[0], port)
        return stacked({name: self.table.values(name) for name in names})
