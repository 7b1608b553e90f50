"""A program of which only the archive is left: that of a run that continues from a checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..archive.spec import FeedSpec, read_spec
from ..blocks.block import ColumnSpec
from ..common.arrays import Array, Buffer
from ..errors import CaptureError, ShapeMismatch, UnsupportedProgram
from ..inference.servable import HeldRows
from .export.base import ColumnType, Program


class SavedProgram(Program):
    """Trains as it was captured; the trained values go to a model, if there is one.

    Parameters
    ----------
    archive : Path
        As `Program.export` returned it.
    columns : sequence of (dtype, shape)
        The data's that it was exported for.
    model : Program, optional
        The same model, made again: where parameters are written to, and what evaluates them.
    learning_rate : float, optional
        That it was saved with, where it is known.

    Raises
    ------
    RemoteProtocolError
        The file is not a program's archive.
    ShapeMismatch
        The model has other parameters.
    CaptureError
        The model's frozen weights have other values.
    """

    def __init__(
        self,
        archive: Path,
        columns: Sequence[ColumnType],
        model: Program | None = None,
        learning_rate: float | None = None,
    ) -> None:
        super().__init__()
        spec = read_spec(archive)
        self.kind, self.feeds = spec.kind, spec.feeds
        self.layout, self.optimizer_state = spec.layout, spec.optimizer_state
        self._has_rate, self._rate, self._frozen = spec.learning_rate, learning_rate, spec.frozen
        self.gradients, self._scales_loss = spec.gradients, spec.scales_loss
        self.sessions = spec.sessions
        model = model.for_gradients() if model is not None and spec.gradients else model
        self._model = model
        if model is not None:
            model.with_labels(any(feed.part == "labels" for feed in self.feeds))
        kept = Path(self._folder.name, "saved.zip")
        shutil.copyfile(archive, kept)
        self._exported[tuple(columns), self.frozen, self._adapted] = kept
        # Names may differ: Keras counts layers on for as long as the process lives.
        if model is not None and _shapes(model) != _shapes(self):
            raise ShapeMismatch(
                f"Expected a model with the saved run's parameters, {_text(self)}; got "
                f"{_text(model)}. Make it as it was made then."
            )
        if model is not None and model.frozen != self.frozen:
            raise CaptureError(
                "The model's frozen weights have other values than those the saved run trains "
                "with, so that what it learned would not fit. Load the weights (or set the seed) "
                "that they were made with, before you give it to resume."
            )

    def for_gradients(self) -> Program:
        """See `Program.for_gradients`: as it was saved, else the model's."""
        if self.gradients:
            return self
        if self._model is None:
            raise UnsupportedProgram(
                "The saved program trains its parameters on the workers, and cannot be cut into "
                "gradients and update. Resume the run with its model: tos.resume(uri, "
                "program=model)."
            )
        return self._model.for_gradients()

    def for_sessions(self) -> Program:
        """See `Program.for_sessions`: as it was saved, else the model's."""
        if self.sessions:
            return self
        return super().for_sessions() if self._model is None else self._model.for_sessions()

    def for_steps(self) -> Program:
        """See `Program.for_steps`: as it was saved, else the model's."""
        if not self.gradients:
            return self
        if self._model is None:
            raise UnsupportedProgram(
                "The saved program computes gradients on the workers, and makes no steps there. "
                "Resume the run with its model: tos.resume(uri, program=model)."
            )
        return self._model.for_steps()

    def _export(self, columns: tuple[ColumnType, ...], target: Path) -> None:
        ((expected, *_),) = self._exported
        raise ShapeMismatch(f"The saved program takes columns {expected}; got {columns}.")

    @property
    def frozen(self) -> str:
        """See `Program.frozen`."""
        return self._frozen

    @property
    def has_learning_rate(self) -> bool:
        """See `Program.has_learning_rate`."""
        return self._has_rate

    @property
    def learning_rate(self) -> float | None:
        """See `Program.learning_rate`: as it was saved."""
        return self._rate

    @property
    def scales_loss(self) -> bool:
        """See `Program.scales_loss`."""
        return self._scales_loss

    @property
    def model(self) -> Any:
        """See `Program.model`."""
        return None if self._model is None else self._model.model

    @property
    def drawing(self) -> tuple[str, bytes] | None:
        """See `Program.drawing`."""
        return None if self._model is None else self._model.drawing

    @property
    def _writers(self) -> Mapping[str, Callable[[Path], None]]:
        return {} if self._model is None else self._model._writers

    @property
    def inputs(self) -> tuple[FeedSpec, ...]:
        """See `Program.inputs`."""
        return super().inputs if self._model is None else self._model.inputs

    @property
    def fields(self) -> tuple[int, ...]:
        """See `Predictor.fields`."""
        return super().fields if self._model is None else self._model.fields

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Predictor.serve`."""
        if self._model is not None:
            self._model.serve(columns, target)

    def read(self) -> Buffer:
        """Return the model's; without one, zeros: the parameters are in the checkpoint."""
        if self._model is None:
            return self.layout.allocate()
        buffer = self._model.read()
        if self._model.layout == self.layout:
            return buffer
        return self.layout.pack(list(self._model.layout.tensors(buffer).values()))

    def write(self, buffer: Buffer) -> None:
        """Set the model's parameters, if there is one."""
        if self._model is None:
            return
        if self._model.layout != self.layout:
            # Saved when statistics had no segments of their own.
            buffer = self._model.layout.pack(list(self.layout.tensors(buffer).values()))
        self._model.write(buffer)

    @property
    def rows(self) -> Any:
        """See `Program.rows`."""
        return None if self._model is None else self._model.rows

    def find_rows(self, held: HeldRows) -> None:
        """See `Program.find_rows`."""
        if self._model is not None:
            self._model.find_rows(held)

    def finish(self) -> bool:
        """See `Program.finish`."""
        return self._model is not None and self._model.finish()

    def _evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        return self._evaluated.evaluate(columns, batch_size)

    def pack_measure(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Program.pack_measure`."""
        self._evaluated.pack_measure(columns, target)

    def measured_names(self, trained: tuple[str, ...]) -> tuple[str, ...] | None:
        """See `Program.measured_names`."""
        return None if self._model is None else self._model.measured_names(trained)

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """See `Program.measured`."""
        return self._evaluated.measured(sums)

    @property
    def _evaluated(self) -> Program:
        if self._model is None:
            raise UnsupportedProgram(
                "This run was resumed without its model, so that nothing can be evaluated here. "
                "Make the model as before and give it: tos.resume(uri, program=model). "
                "run.parameters() returns the values by name."
            )
        return self._model


def _shapes(program: Program) -> list[tuple[tuple[int, ...], str]]:
    return [(spec.shape, spec.dtype) for spec in program.layout.specs]


def _text(program: Program) -> str:
    return ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in program.layout.specs)
