"""The driver's side of a captured program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ..params import Array, Layout
from .spec import FeedSpec

ColumnType = tuple[str, tuple[int, ...]]
"""dtype and shape, without the row dimension, of one column of data."""


SAVED = ("keras", "savedmodel", "checkpoint")
"""The formats of TensorFlow that some programs can be saved in."""


class Program(ABC):
    """A captured model: it knows its parameters, and exports itself for given data.

    Attributes
    ----------
    kind : str
    feeds : tuple of FeedSpec
    layout : Layout
    slots : Layout or None
        The optimizer's state for the parameters, which stays with each worker.
    """

    kind: str
    feeds: tuple[FeedSpec, ...]
    layout: Layout
    slots: Layout | None = None

    def __init__(self) -> None:
        self._exported: dict[tuple[ColumnType, ...], Path] = {}
        self._folder = TemporaryDirectory(prefix="tos-program-")

    def export(self, columns: Sequence[ColumnType]) -> Path:
        """Return the portable program for data of these columns; traced once for each.

        Parameters
        ----------
        columns : sequence of (dtype, shape)
            One for each feed, the row dimension left out.

        Returns
        -------
        Path
            An archive (see `tos_notebook.program.export.export`) that lasts as long as this object.

        Raises
        ------
        UnsupportedProgram
            Something in the program cannot run on an executor.
        """
        key = tuple(columns)
        if key not in self._exported:
            target = Path(self._folder.name, f"{len(self._exported)}.zip")
            self._export(key, target)
            self._exported[key] = target
        return self._exported[key]

    @abstractmethod
    def _export(self, columns: tuple[ColumnType, ...], target: Path) -> None: ...

    @property
    @abstractmethod
    def has_learning_rate(self) -> bool:
        """Whether the learning rate is a variable, which can be set while training."""

    @abstractmethod
    def read(self) -> npt.NDArray[np.uint8]:
        """Return the parameters' present values, packed by `layout`."""

    @abstractmethod
    def write(self, buffer: npt.NDArray[np.uint8]) -> None:
        """Set the parameters of the user's own model or session."""

    @abstractmethod
    def evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        """Return loss and metrics over rows, with the user's model as it is, without training.

        Parameters
        ----------
        columns : sequence of ndarray, one per feed, shape (rows, ...)
        batch_size : int
        """

    @property
    def model(self) -> Any:
        """The user's Keras model; None if there is none."""
        return None

    @property
    def drawing(self) -> tuple[str, bytes] | None:
        """The graph, to be drawn: ``keras`` and JSON, or ``graph`` and a GraphDef."""
        return None

    @property
    def formats(self) -> tuple[str, ...]:
        """Those of `SAVED` that `save` knows."""
        return ()

    def save(self, chosen: str, target: Path) -> None:
        """Write the user's model as it is.

        Parameters
        ----------
        chosen : str
            One of `formats`.
        target : Path
            Becomes a file for ``keras``, else a folder.
        """
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """Kind, size and feeds in a few words."""
        layout = self.layout
        tensors = "tensor" if len(layout) == 1 else "tensors"
        feeds = ", ".join(feed.name for feed in self.feeds)
        slots = "" if self.slots is None else f", {len(self.slots)} optimizer slots"
        return (
            f"{self.kind}, {layout.size:,} parameters in {len(layout)} {tensors}{slots}, "
            f"fed {feeds}"
        )

    def __repr__(self) -> str:
        feeds = ", ".join(f.name for f in self.feeds)
        return f"<{self.kind} program: feeds {feeds}; {self.layout!r}>"
