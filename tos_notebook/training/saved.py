"""Runs as their checkpoints have them: list them, and look at one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..cluster.backend import spark_context
from ..cluster.given import given_spark
from ..cluster.opening import open_store
from ..cluster.stores import FileStore
from ..codecs.pair import PLAIN
from ..errors import CheckpointError
from ..events import RunFinished
from ..steering.conditions import VALIDATION
from ..telemetry.history import History
from ..telemetry.steered import Commands
from . import factory
from .checkpoint.folder import BEST, Folder
from .checkpoint.reading import last, past
from .options import RESUMABLE, offers
from .results.best import BestParameters, best_of
from .results.settings import SavedSettings
from .resume import resume
from .run import Run
from .summaries import RunSummary, summaries

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

COLUMNS = (
    "name", "run", "state", "epoch", "epochs", "milestones", "samples", "loss", "when", "size",
)  # fmt: skip
"""Of a list of runs."""

ENDED = ("finished", "stopped", "failed")
"""States of a run of which no more will come."""


class SavedRun(RunSummary):
    """A run, as its last good checkpoint has it.

    Parameters
    ----------
    run : str
        Its id.
    name : str or None
        What it is called.
    state : str
        How it ended; ``running`` if it is trained by this process, and ``unfinished`` if not: its
        process has died, or is another one. ``unreadable`` if none of its checkpoints can be read:
        then nothing else is known of it but its folder.
    epoch, epochs : int
        The current one, counted from 1, and how many.
    milestones, samples : int
        What is done.
    loss : float
    when : datetime or None
        When the checkpoint was written.
    size : int
        Bytes of all its files.
    uri : str
    """

    __slots__ = ()

    @property
    def settings(self) -> SavedSettings:
        """What was in force, and what the run was asked to do."""
        _, saved = last(self._folder)
        settings = saved.gone_by or saved.settings
        asked, own = saved.origin.asked, dict(settings.shown)
        return SavedSettings(
            strategy=saved.strategy.name,
            combiner=own.pop("combiner", None),
            codec=own.pop("codec", str(PLAIN)),
            own=own,
            sync=settings.sync,
            sync_interval=settings.sync_interval,
            learning_rate=settings.learning_rate,
            **{f.name: asked[f.name] for f in fields(SavedSettings) if f.name in asked},
        )

    @property
    def own_rate(self) -> float | None:
        """The learning rate of its program, if that is a known number."""
        return last(self._folder)[1].origin.rate

    @property
    def samples_per_second(self) -> float:
        """Without pauses, until the checkpoint."""
        return self._told().totals().samples_per_second

    @property
    def history(self) -> pd.DataFrame:
        """Every milestone until the checkpoint; see `tos_notebook.Run.history`."""
        return self._told().frame()

    @property
    def validation(self) -> pd.DataFrame:
        """Every evaluation until the checkpoint; see `tos_notebook.Run.validation`."""
        return self._told().validation()

    @property
    def events(self) -> Commands:
        """What the run was told until the checkpoint; see `tos_notebook.Run.events`."""
        return self._told().steered()

    @property
    def best(self) -> BestParameters | None:
        """The best validation and its parameters, if the run has kept them; see `Run.best`.

        Raises
        ------
        CheckpointError
            The file is damaged.
        """
        if BEST not in self._folder.storage.list():
            return None
        uri = f"{self.uri}/{BEST}"
        try:
            return best_of(self._folder.read(BEST), uri)
        except (TypeError, ValueError, LookupError) as error:
            raise CheckpointError(f"{uri} is sealed, but no parameters: {error}") from None

    def figure(self) -> go.Figure:
        """Return loss and staleness over samples as a plotly figure."""
        from ..telemetry.figure import figure

        return figure(self._told())

    @offers(RESUMABLE.values(), aliases=True)
    def resume(
        self,
        data: Any = None,
        *,
        spark: Any = None,
        program: Any = None,
        shards: int | None = None,
        **options: Any,
    ) -> Run:
        """Continue the run. Parameters are those of `tos_notebook.resume`."""
        return resume(self.uri, data, spark=spark, program=program, shards=shards, **options)

    def _told(self) -> History:
        history = History()
        for event in past(self._folder, last(self._folder)[1].history):
            history(event)
        if self.when is not None and self.state in ENDED:
            # It came after the checkpoint.
            history(RunFinished(self.when.timestamp(), self.state))
        return history


class SavedRuns(list[SavedRun]):
    """Runs, which show as a table."""

    def frame(self) -> pd.DataFrame:
        """Return one row per run, oldest first, with the attributes of `SavedRun` as columns.

        Each value of the validation has a separate column, with ``val_`` before its name.
        """
        import pandas as pd

        rows = [{column: getattr(run, column) for column in COLUMNS} for run in self]
        for row, run in zip(rows, self, strict=True):
            row |= {"name": run.name or ""}
            row |= {f"{VALIDATION}{name}": value for name, value in run._validated.items()}
        return pd.DataFrame(rows, columns=None if rows else list(COLUMNS))

    def __repr__(self) -> str:
        return self.frame().to_string(index=False, float_format=_short) if self else "no runs"

    def _repr_html_(self) -> str | None:
        return self.frame().to_html(index=False, float_format=_short) if self else None


def _short(value: float) -> str:
    return f"{value:.4g}"


def runs(uri: str | None = None, *, spark: Any = None) -> Sequence[Run] | SavedRuns:
    """Return the runs of this process that are still referred to, or those saved in a directory.

    Parameters
    ----------
    uri : str, optional
        The `checkpoint_dir` of sessions whose runs had checkpoints, or the folder of one run.
    spark : SparkSession or SparkContext, optional
        Reads the files; `connect`'s by default.

    Returns
    -------
    list of Run, or SavedRuns
        Oldest first. Of a saved one the last good checkpoint counts. One whose checkpoints all
        cannot be read comes first, with the state ``unreadable``; the log says why.

    Examples
    --------
    >>> tos.runs("hdfs:///runs")                                              # doctest: +SKIP
    >>> tos.runs("hdfs:///runs")[-1].resume()                                 # doctest: +SKIP
    """
    if uri is None:
        return factory.runs()
    storage = open_store(spark_context(given_spark(spark)), uri)
    if Folder(storage).numbers():
        return saved_runs([storage])
    return saved_runs(storage.inside(name) for name in storage.folders())


def saved_runs(storages: Iterable[FileStore]) -> SavedRuns:
    """Return what folders say of their runs; see `summaries`."""
    found = summaries(storages)
    return SavedRuns(SavedRun(*(getattr(run, f.name) for f in fields(run))) for run in found)
