"""Columns that users choose of a table, whatever library it is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..blocks.feeds import Feed
from ..blocks.naming import Field
from ..blocks.source import DataSource
from ..errors import ConfigError
from .by_names import by_names, has_labels
from .described import DataDescription, as_frame, is_frame
from .tables import TableColumns, table_of

NUMBERS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date"),
    *("decimal", "timestamp"),
)
"""Spark's types of one number, by how their names begin."""


@dataclass(frozen=True)
class FrameByNames(DataDescription):
    """A DataFrame of Spark whose columns go by the names that a program's feeds have.

    Parameters
    ----------
    frame : DataFrame
    label : str, sequence of str, or mapping of str to str, optional
    looks : bool
        See `tos_notebook.data.dataframe.frame.FrameColumns`.
    """

    frame: Any
    label: Any = None
    looks: bool = True

    def unlooked(self) -> FrameByNames:
        """See `DataDescription.unlooked`."""
        return replace(self, looks=False)

    def labelled_for(self, ports: Sequence[Field]) -> bool:
        """See `DataDescription.labelled_for`."""
        return has_labels(self.frame.columns, None, self.label, ports)

    def source(self, sc: Any, feeds: Sequence[Feed]) -> DataSource:
        """See `DataDescription.source`."""
        source: DataSource = self.columns(feeds).source(sc, feeds)
        return source

    def columns(self, ports: Sequence[Field]) -> Any:
        """Return what `tos_notebook.columns` does for the columns that have the ports' names.

        Raises
        ------
        DataError
            They have other names.
        """
        from .dataframe import columns

        types = dict(self.frame.dtypes)
        names = list(self.frame.columns)
        found = by_names(names, lambda n: types[n].startswith(NUMBERS), self.label, ports)
        made = columns(self.frame, found.features, () if found.label is None else found.label)
        return made if self.looks else made.unlooked()


def chosen(data: Any, features: Any = None, label: Any = None) -> Any:
    """Return the columns of a table, and other data as they are.

    Parameters
    ----------
    data : object
        Training data of any kind.
    features, label : str, sequence of str, or mapping of str to str, optional
        Names of columns. Without features they go by the names of the program's inputs.

    Raises
    ------
    ConfigError
        Names without a table.
    DataError
        There is no such column, or none can be taken of a table of this kind.
    """
    if is_frame(data):
        from .dataframe import columns

        if features is not None:
            return columns(data, features, () if label is None else label)
        return FrameByNames(as_frame(data), label)
    table = table_of(data)
    if table is not None:
        return TableColumns(table, features, label)
    if features is None and label is None:
        return data
    package = type(data).__module__.partition(".")[0]
    kind = f"{package}.{type(data).__name__}".removeprefix("builtins.")
    raise ConfigError(
        "features, label: expected a DataFrame of Spark or pandas, or a dataset of Hugging Face's, "
        f"with such columns; got {kind}. Leave them out, or give the table that has them."
    )


def like(data: Any, features: Any, label: Any) -> Any:
    """Return validation data as `chosen` does, if they are a table, and all else as it is."""
    return chosen(data, features, label) if is_frame(data) or table_of(data) else data
