"""What can be packed into an archive that predicts, which brings it to the executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..blocks.block import ColumnSpec
from ..blocks.feeds import Feed, check_columns
from ..cluster.files import archive_name, temporary_directory
from ..cluster.storage import Storage


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


def publish(sc: Any, archive: Path) -> str:
    """Publish an archive under a name of its own, for as long as this process lasts.

    Returns
    -------
    str
        The name, for `tos_notebook.cluster.files.fetch_archive`.
    """
    name = archive_name("tos", archive)
    Storage(sc, temporary_directory(sc)).publish(name, archive)
    return name
