"""What a run shows of its parameters, and how they are taken away."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.arrays import Array
from ..coordination.coordinator import Coordinator
from ..data.described import Described
from ..data.rdd import is_rdd
from ..errors import ConfigError, UnsupportedProgram
from ..inference.predictor import BATCH_SIZE
from ..telemetry.history import History
from .observers.base import Observer
from .observers.histograms import WeightHistograms
from .observers.mlflow import MLflowLogger
from .observers.tensorboard import TensorBoardWriter
from .results.held_model import HeldModel
from .results.save import save

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..program.export.base import Program


def _array(column: Any) -> Any:
    """Return what users give of one feed, or of several by name, as arrays."""
    if isinstance(column, Mapping):
        return {name: np.asarray(value) for name, value in column.items()}
    return np.asarray(column)


class Outputs:
    """Figures, parameters and files of a run; its parameters are those of `Run`."""

    run_id: str
    _sc: Any
    _program: Program
    _training: Coordinator
    _history: History
    _model: HeldModel
    _observers: list[Observer]

    @property
    def tensorboard(self) -> str | None:
        """Where its event files are; None if it writes none."""
        return next((c.folder for c in self._observers if isinstance(c, TensorBoardWriter)), None)

    @property
    def mlflow_run_id(self) -> str | None:
        """The MLflow run that it is logged in; None if there is none, or it has not begun."""
        return next((c.run_id for c in self._observers if isinstance(c, MLflowLogger)), None)

    def figure(self) -> go.Figure:
        """Return loss and staleness over samples as a plotly figure."""
        from ..telemetry.figure import figure

        return figure(self._history)

    def weights_figure(self, *names: str) -> go.Figure:
        """Return how the distribution of each parameter's values changes, as a plotly figure.

        Parameters
        ----------
        *names : str
            Parameters, as `parameters` names them; those with the widest range by default.

        Raises
        ------
        ConfigError
            The run does not record histograms, or there is no parameter of a name.
        """
        from ..telemetry.weights import weights_figure

        found = [c.measured for c in self._observers if isinstance(c, WeightHistograms)]
        if not found or not found[0]:
            raise ConfigError(
                "This run has no histograms of its weights. Start it with histograms=True, or "
                "with tensorboard=URI."
            )
        return weights_figure(found[0], names)

    def _torn(self) -> tuple[str, ...]:
        """Say so if the parameters are not what a sequence of whole pushes makes of them."""
        why = self._training.parameters.torn
        if why is None:
            return ()
        advice = "If the run has checkpoints, tos.resume continues from the last good one."
        return (f"{why} The model and run.parameters() hold such parameters. {advice}",)

    def parameters(self) -> dict[str, Array]:
        """Return a copy of the center parameters, by name."""
        buffer, _ = self._training.parameters.read()
        tensors = self._program.layout.tensors(buffer)
        return {spec.name: tensors[spec.name] for spec in self._program.layout.of_model.specs}

    @property
    def model(self) -> Any:
        """The user's Keras model, with the present parameters in it.

        Raises
        ------
        UnsupportedProgram
            There is none: a graph's values are in its session.
        """
        with self._model.present() as program:
            if program.model is None:
                raise UnsupportedProgram(
                    f"Run {self.run_id} trains no Keras model that is at hand, but "
                    f"{program.summary}. run.parameters() returns the values by name; a graph's "
                    "are in its session, and tos.resume(uri, program=model) takes a model."
                )
            return program.model

    def evaluate(self, *data: Any, batch_size: int = BATCH_SIZE) -> Mapping[str, float]:
        """Return loss and metrics over other rows, with the present parameters.

        They are written into the user's model or session first.

        Parameters
        ----------
        *data : array_like, one for each feed, shape (rows, ...); or RDD, or columns of a DataFrame
            One tuple or list of arrays is taken as its parts. A dictionary of arrays goes by the
            names of inputs or outputs. What is no array is evaluated on the executors, once they
            have a slot free.
        batch_size : int

        Examples
        --------
        >>> run.evaluate(x_test, y_test)                                      # doctest: +SKIP
        >>> run.evaluate(tos.columns(test, "pixels", "digit"))                # doctest: +SKIP
        """
        if len(data) == 1 and isinstance(data[0], tuple | list):
            # A longer list for a program of one feed is its rows.
            several = len(self._program.feeds) > 1 or len(data[0]) == 1
            data = tuple(data[0]) if several else data
        arrays = len(data) != 1 or not (is_rdd(data[0]) or isinstance(data[0], Described))
        given = [_array(column) for column in data] if arrays else data[0]
        return self._model.evaluate(given, batch_size)

    def predict(self, data: Any, features: str | Sequence[str] = (), **options: Any) -> Any:
        """Return what the model makes of each row, with the present parameters.

        They are written into the user's model or session first. Parameters and result are those
        of `tos_notebook.inference.predictor.Predictor.predict`.
        """
        return self._model.predict(data, features, **options)

    def save(self, target: str | os.PathLike[str], format: str | None = None) -> str:
        """Write the present parameters, or the model with them, to a file or folder.

        Parameters
        ----------
        target : str or path-like
            A local path, or any Hadoop URI (``hdfs:``, ``s3a:``, ``file:``). What is there
            is replaced.
        format : {"keras", "savedmodel", "checkpoint", "numpy"}, optional
            ``.keras`` file, SavedModel folder, folder with a TensorFlow checkpoint called
            ``checkpoint``, or ``.npz`` file with an array for each parameter. By default what the
            name's ending says, ``.keras`` or ``.npz``.

        Returns
        -------
        str
            The URI, or the absolute path.

        Raises
        ------
        ConfigError
            The program cannot be written in that format, or it is not clear which one is meant.
        CheckpointError
            The file system refused.

        Warns
        -----
        RuntimeWarning
            The parameters lack a push that counts, or a part of one. They are saved all the same.
        """
        for torn in self._torn():
            warnings.warn(f"Run {self.run_id}: {torn}", RuntimeWarning, stacklevel=2)
        return save(self._sc, self._model, self.parameters(), target, format)
