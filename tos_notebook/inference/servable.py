"""What can be packed into an archive that predicts, which brings it to the executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..archive.spec import read_signature
from ..blocks.block import ColumnSpec
from ..blocks.feeds import Feed, check_columns
from ..cluster.files import archive_name, fetch, temporary_directory
from ..cluster.opening import open_published
from ..common.arrays import Array
from ..common.served_files import RowsFile, find_in


class HeldRows(Protocol):
    """Has rows of served tables, or knows who has."""

    @property
    def rows(self) -> Any:
        """All of them, as of the last copy; see `HandedOver.rows`."""

    def files(self) -> Sequence[RowsFile]:
        """Return all of them as they are now, in files that last as long as this is referred to."""

    def find_rows(self, table: int, ids: Array) -> Array:
        """Return rows as they are now.

        Parameters
        ----------
        table : int
        ids : ndarray, shape (k,), int64
            Each once.

        Returns
        -------
        ndarray, shape (k, columns), float32
            What the model sees of each, and then what an optimizer keeps of it.
        """


class Servable(ABC):
    """A model that can be packed with its present parameters."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Feed, ...]:
        """What it takes, in order.

        Raises
        ------
        UnsupportedProgram
            It predicts nothing.
        """

    @property
    def fields(self) -> tuple[int, ...]:
        """Where the inputs are among the fields of a record that is made for training."""
        return tuple(range(len(self.inputs)))

    @property
    def served(self) -> HeldRows | None:
        """What has rows of served tables; None if they are as they begin, or there are none."""
        return None

    @abstractmethod
    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """Pack the model, with its present parameters, for data of these columns.

        Parameters
        ----------
        columns : sequence of ColumnSpec
            One for each input.
        target : Path
            Becomes an archive; see `tos_notebook.program.export.serving`.
        """


def checked(model: Servable, columns: Sequence[ColumnSpec]) -> list[tuple[int, ColumnSpec]]:
    """Return which of the data's columns are fed, in the order of the inputs, and what they are.

    Raises
    ------
    ShapeMismatch
        They do not fit the inputs.
    """
    inputs, fields = model.inputs, model.fields
    if len(columns) <= max(fields, default=-1) or len(columns) == len(inputs):
        fields = tuple(range(len(columns)))
    chosen = [columns[field] for field in fields]
    check_columns(chosen, inputs)
    return list(zip(fields, chosen, strict=True))


Rows = tuple[tuple[str, int, int, int], ...]
"""Names of published files of rows, and what else `RowsFile` says of them."""


class Published(NamedTuple):
    """A model as tasks find it."""

    name: str
    """Of its archive; see `publish`."""
    rows: Rows = ()


def published(sc: Any, model: Servable, archive: Path) -> Published:
    """Publish an archive, and the rows of served tables that belong to it."""
    return Published(publish(sc, archive), publish_rows(sc, model.served))


def publish_rows(sc: Any, held: HeldRows | None) -> Rows:
    """Publish the rows of served tables as they are now."""
    files = [] if held is None else held.files()
    for file in files:
        if (sc.applicationId, file.path) not in _published:
            open_published(sc, temporary_directory(sc)).publish(file.path.name, file.path)
            _published.add((sc.applicationId, file.path))
    return tuple((file.path.name, file.table, file.count, file.columns) for file in files)


def finder(rows: Rows, archive: Path) -> Callable[[int, Array], Array] | None:
    """Return what finds rows for an archive, inside a task; None if they are as they begin."""
    if not rows:
        return None
    files = [RowsFile(fetch(name), *told) for name, *told in rows]
    tables = read_signature(archive).served
    return lambda number, ids: find_in(files, number, tables[number], ids)


_published: set[tuple[str, Path]] = set()


def publish(sc: Any, archive: Path) -> str:
    """Publish an archive under a name of its own, for as long as this process lasts.

    Returns
    -------
    str
        The name, for `tos_notebook.cluster.files.fetch_archive`.
    """
    name = archive_name("tos", archive)
    open_published(sc, temporary_directory(sc)).publish(name, archive)
    return name
