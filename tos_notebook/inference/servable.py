"""What can be packed into an archive that predicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ..blocks.block import ColumnSpec
from ..blocks.feeds import Feed


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
