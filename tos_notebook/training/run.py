"""`Run`: one training, from the caller's side."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..blocks.naming import Names
from ..blocks.skips import Skipped
from ..common.arrays import Array
from ..common.checks import did_you_mean, with_known_options
from ..errors import ConfigError
from ..events import Stalled
from ..inference.predictor import BATCH_SIZE
from ..steering.shards import ShardLoad
from ..steering.status import RunStatus
from ..telemetry.bus import Sink
from ..telemetry.steered import Commands
from . import predicted, status, waiting
from .observers.best import BestKeeper
from .options.elsewhere import evaluates
from .parts import RunParts
from .results import card, evaluate, parameters, report, save
from .results.best import BestParameters
from .results.settings import RunSettings
from .steered import SteeredRun

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


viewers: list[Callable[[Run, bool], None]] = []
"""What shows a run in the cell that is executed, and whether again; the last one counts."""


HINTS = {
    "cancel": " run.stop() ends it and keeps the weights.",
    "get_weights": " run.parameters() has them by name, run.model.get_weights() as a list.",
    "plot": " run.figure() returns loss and staleness as a figure of plotly.",
    "resume": " run.unpause() ends a pause; tos.resume(run.uri) continues from a checkpoint.",
    "set_weights": " model.set_weights(...) before a run sets what it begins with.",
    "summary": " run.status says where it stands, run.model.summary() what it trains.",
}
"""What to use for names that other libraries have."""


class Run(SteeredRun):
    """One run of a program, which `TrainingSession.start` makes.

    Every method may be called at any time.

    Attributes
    ----------
    run_id : str
    name : str or None
        What it is called: `name` of `TrainingSession.start`.
    number, slots : int
        Counts the runs of this process from 1; tasks that Spark runs at once, as of the start.
    master : str
    program : Program
    has_learning_rate : bool
        Whether the learning rate can be set while training.
    own_rate : float or None
        The learning rate of its program, if that is a known number.
    uri : str or None
        Where its checkpoints are, for `tos_notebook.resume`; None if it has none.
    chaos_log : tuple of Rule
        All faults that `chaos` has injected.
    """

    def __init__(self, parts: RunParts) -> None:
        super().__init__(parts)
        self.number, self.run_id, self.master = parts.number, parts.run_id, parts.master
        self.name, self.slots = parts.name, parts.plan.slots
        self.program, self.has_learning_rate = parts.program, parts.program.has_learning_rate
        self.own_rate = parts.program.learning_rate
        self.uri = None if parts.checkpointer is None else parts.checkpointer.folder.storage.uri

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = HINTS.get(name, "") or did_you_mean(name, dir(type(self)))
            raise AttributeError(f"A run has no {name!r}.{hint}")

    def __repr__(self) -> str:
        called = self.run_id if self.name is None else f"{self.name} ({self.run_id})"
        return f"<Run {called}: {self.state}>"

    def trains_on(self, sc: Any) -> bool:
        """Whether `sc` is the Spark context that runs its jobs."""
        return self.parts.sc is sc

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The receivers of its events."""
        return self.parts.bus.sinks

    def add_sink(self, sink: Sink) -> None:
        """Add a sink, which gets every event from the next one on.

        Parameters
        ----------
        sink : callable
            As in ``sinks`` of `TrainingSession.start`.
        """
        self.parts.bus.add(sink, apart=True)

    @property
    def state(self) -> str:
        """One of starting, running, paused, stopping, finished, stopped, failed.

        Or queued: it starts once Spark has free slots.
        """
        return status.state_of(self.lifecycle)

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.lifecycle.active

    @property
    def status(self) -> RunStatus:
        """State and totals, now."""
        return status.run_status(self.lifecycle)

    @property
    def stalls(self) -> tuple[Stalled, ...]:
        """What the run waits for, if for longer than `stall_timeout`; see `status`."""
        return self.lifecycle.watchdog.stalls

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The rows that ``on_bad="skip"`` has skipped, by partition and column."""
        return self.lifecycle.epochs.source.skipped

    @property
    def history(self) -> pd.DataFrame:
        """Every milestone so far; see `tos_notebook.telemetry.history.History.frame`."""
        return self.parts.history.frame()

    @property
    def epochs(self) -> pd.DataFrame:
        """A row for each epoch so far; see `tos_notebook.telemetry.by_epoch.by_epoch`."""
        return self.parts.history.epochs()

    @property
    def validates(self) -> bool:
        """Whether it evaluates validation data while it trains."""
        return self.lifecycle.validates

    @property
    def validation(self) -> pd.DataFrame:
        """Every evaluation so far; see `tos_notebook.telemetry.history.History.validation`."""
        return self.parts.history.validation()

    @property
    def events(self) -> Commands:
        """The commands of the run, and when each took effect; a table.

        A list of dicts, oldest first, of the latest 1,000 commands. ``seconds`` since the run's
        start, ``epoch`` (from 1) and ``milestones`` of all workers say when it was given.
        ``command`` and ``detail`` say what, and ``source`` by whom: ``"Python"``, a magic such as
        ``"%tos_set"``, ``"view"``, ``"callbacks="``, ``"learning_rate="`` (a schedule),
        ``"sync_interval="`` (chosen by measurement), ``"stop_when="``, or ``"the run"``.
        ``state`` is ``"asked"``, ``"in force"`` or ``"no effect"``, and ``since`` the seconds at
        which it took effect, or None. Of a schedule's learning rates the last one is there;
        ``times`` counts them. ``run.events.to_pandas()`` is a DataFrame.
        """
        return self.parts.history.steered()

    @property
    def best(self) -> BestParameters | None:
        """The best validation so far and its parameters, with ``keep_best``; None before one."""
        keepers = (each for each in self.lifecycle.observers if isinstance(each, BestKeeper))
        return next((keeper.best for keeper in keepers), None)

    @property
    def settings(self) -> RunSettings:
        """What is in force."""
        return status.settings_now(self.lifecycle)

    @property
    def workers(self) -> pd.DataFrame:
        """Every worker so far; see `tos_notebook.telemetry.history.History.workers`."""
        return self.parts.history.workers()

    @property
    def shards(self) -> tuple[ShardLoad, ...]:
        """The load of each shard of the parameters; none if the driver has them."""
        return tuple(self.parts.training.shards) if self.active else ()

    @property
    def theory(self) -> pd.DataFrame:
        """Predictions and recent measurements: staleness, times of a step, bytes, rows a second.

        For the stable curvature, set the learning rate while training: the program's is not known.
        """
        return predicted.theory(self.parts, self.lifecycle.strategy)

    @property
    def tensorboard(self) -> str | None:
        """Where its event files are; None if it writes none."""
        return self.lifecycle.event_folder

    @property
    def mlflow_run_id(self) -> str | None:
        """The MLflow run that it is logged in; None if there is none, or it has not begun."""
        return self.lifecycle.mlflow_run_id

    def show(self) -> None:
        """Show the live view in this cell; after the run's end, the picture.

        Raises
        ------
        ConfigError
            Nothing shows runs here: no notebook, or one without the extension.
        """
        if not viewers:
            raise ConfigError(
                "show: expected a notebook with the extension. Type %load_ext tos_notebook before "
                "you start a run; run.status and run.figure() say how far this one is."
            )
        viewers[-1](self, True)

    def _ipython_display_(self) -> None:
        if not viewers:
            # IPython then shows it as it shows all else.
            raise NotImplementedError
        viewers[-1](self, False)

    def figure(self) -> go.Figure:
        """Return loss and staleness over samples as a plotly figure."""
        from ..telemetry.figure import figure

        return figure(self.parts.history)

    def weights_figure(self, *names: str) -> go.Figure:
        """Return how the distribution of each parameter's values changes, as a plotly figure.

        Parameters
        ----------
        *names : str
            Parameters, as `parameters` names them; those with the widest range by default.

        Raises
        ------
        ConfigError
            The run does not record histograms, or does not have a parameter of a name.
        """
        from ..telemetry.weights import weights_figure

        return weights_figure(self.lifecycle.weights, names)

    def report(self, path: str | Path) -> Path:
        """Write figure, settings and workers to one HTML file, which needs no network.

        Parameters
        ----------
        path : str or path-like
        """
        return report.write(self, self.parts.history, self.parts.optimizer_state, path)

    def model_card(self, path: str | os.PathLike[str]) -> str:
        """Write what those who get the model should know, as Markdown; return the URI or path.

        Data, parameters, settings, versions, and the loss of each epoch.

        Parameters
        ----------
        path : str or path-like
            A local path or a Hadoop URI.
        """
        parts, source = self.parts, self.lifecycle.epochs.source
        return card.write_card(parts.sc, self, source, parts.optimizer_state, path)

    def wait(self, timeout: float | None = None) -> Run:
        """Wait for the end.

        It warns (`RuntimeWarning`) if the run's last checkpoint could not be written.

        Parameters
        ----------
        timeout : float, optional
            Seconds; without a limit by default.

        Raises
        ------
        WaitTimeout, TosError
            The run is still active, and continues; or what ended it, if it failed: a `WorkerError`
            where the program raised, a `DataError` where rows cannot be trained on.
        """
        self.lifecycle.wait(timeout)
        return self

    @with_known_options
    def wait_for(
        self,
        *,
        milestones: int | None = None,
        epochs: int | None = None,
        workers: int | None = None,
        each: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Wait until so much more is trained or so many workers have come, or the run has ended.

        Parameters
        ----------
        milestones, epochs, workers : int, optional
            One of the three, at least 1. Milestones and epochs count from now on, and an epoch
            once any worker is in the next one; workers are those that have begun their partition.
        each : bool
            Whether each partition is to have so many milestones, and not all together.
        timeout : float, optional
            Seconds; without a limit by default.

        Raises
        ------
        ConfigError, WaitTimeout
            Not exactly one was given, or out of range; or the time is over, and the run continues.
        TosError
            What ended the run, if it failed.
        """
        wanted = {"milestones": milestones, "epochs": epochs, "workers": workers}
        waiting.wait_for(self.lifecycle, wanted, each, timeout)

    def parameters(self) -> dict[str, Array]:
        """Return a copy of the center parameters, by name."""
        return parameters.parameters(self.parts.program, self.parts.training.parameters)

    @property
    def model(self) -> Any:
        """The user's Keras model with the current parameters; for a graph, `UnsupportedProgram`."""
        return parameters.keras_model(self.lifecycle.model, self.run_id)

    @evaluates
    def evaluate(
        self,
        *data: Any,
        batch_size: int = BATCH_SIZE,
        features: Any = None,
        label: Any = None,
    ) -> Mapping[str, float]:
        """Return loss and metrics over other rows, with the current parameters.

        They are written into the user's model or session first.

        Parameters
        ----------
        *data : array_like, one for each feed, shape (rows, ...); RDD, DataFrame, or columns of one
            One tuple or list of arrays is taken as its parts. A dictionary of arrays goes by the
            names of inputs or outputs. All else is evaluated on executors, once a slot is free.
        batch_size : int
        features, label : str, sequence of str, or mapping of str to str, optional
            Columns of a DataFrame, as for training.
        """
        model = self.lifecycle.model
        return evaluate.evaluate(model, evaluate.rows(data, features, label), batch_size)

    @with_known_options
    def predict(
        self,
        data: Any,
        features: str | Names = (),
        *,
        output: str | Names | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> Any:
        """Return what the model makes of each row, with the current parameters.

        They are written into the user's model or session first. Parameters and result are those
        of `tos_notebook.inference.predictor.Predictor.predict`.
        """
        model = self.lifecycle.model
        return model.predict(data, features, output=output, batch_size=batch_size)

    def save(self, target: str | os.PathLike[str], format: str | None = None) -> str:
        """Write the current parameters, or the model with them, to a file or folder.

        It warns (`RuntimeWarning`) if they lack a push that counts, or a part of one.

        Parameters
        ----------
        target : str or path-like
            A local path, or any Hadoop URI (``hdfs:``, ``s3a:``, ``file:``). What is there
            is replaced. What it returns is the URI, or the absolute path.
        format : {"keras", "savedmodel", "checkpoint", "numpy"}, optional
            ``.keras`` file, SavedModel folder, folder with a TensorFlow ``checkpoint``, or ``.npz``
            file with an array for each parameter, and with ids and rows of each served embedding.
            By default what the name's ending says.

        Raises
        ------
        ConfigError, CheckpointError
            The program cannot be written in that format, it is not clear which one is meant, or
            the file system refused.
        """
        parameters.warn_of_torn(self.run_id, self.parts.training.parameters)
        return save.save(self.parts.sc, self.lifecycle.model, self.parameters(), target, format)
