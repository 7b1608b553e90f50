"""Runs as their checkpoints have them: list, look at, and resume."""

from __future__ import annotations

import logging
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..blocks.feeds import Feed
from ..blocks.source import DataSource
from ..cluster.asking import Asking
from ..cluster.calls import announced
from ..cluster.connect import connect
from ..cluster.jobs import spoken
from ..cluster.storage import Storage, digest_of
from ..combiners import Combiner, as_combiner
from ..common import temporary
from ..coordination.coordinator import Coordinator
from ..coordination.settings import Settings
from ..data.source import as_source
from ..errors import CheckpointError, ConfigError, InvalidTransition, TosError
from ..events import Event
from ..persist.sealed import HEAD, read_summary
from ..program.archived import SavedProgram
from ..program.capture import capture
from ..program.export.base import Program
from ..readable import all_readable, readable
from ..steering.machine import ACTIVE
from ..steering.trigger import as_trigger
from ..strategies.ps.settings import settings_in
from ..strategies.ps.strategy import ParameterServer
from ..telemetry.history import History
from . import factory
from .checkpoint import event_log
from .checkpoint.contents import Checkpoint, Origin, from_sealed
from .checkpoint.data import check_same, first_layout, read_data
from .checkpoint.folder import PROGRAM, Claim, Folder, checkpoint
from .checkpoint.writer import CheckpointWriter
from .lifecycle import Resumed
from .options import ObserverOptions, RunOptions, pick, require_resumable, subset
from .run import Run
from .session import TrainingSession

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

logger = logging.getLogger(__name__)

COLUMNS = ("run", "state", "epoch", "epochs", "milestones", "samples", "loss", "when", "size")
"""Of a list of runs."""

UNREADABLE = "unreadable"

_FIELDS: dict[str, tuple[type, ...]] = {
    "run": (str,),
    "state": (str,),
    "epoch": (int,),
    "epochs": (int,),
    "milestones": (int,),
    "samples": (int,),
    "loss": (float, int),
    "when": (float, int),
    "created": (float, int),
}
"""What a summary says of a run."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run, as its last good checkpoint has it.

    Parameters
    ----------
    run : str
        Its id.
    state : str
        How it ended; ``running`` if it is trained by this process, and ``unfinished`` if not: its
        process has died, or is another one. ``unreadable`` if none of its checkpoints can be read:
        then nothing else is known of it but its folder.
    epoch, epochs : int
        The present one, counted from 1, and how many.
    milestones, samples : int
        What is done.
    loss : float
    when : datetime or None
        When the checkpoint was written.
    size : int
        Bytes of all its files.
    uri : str
    """

    run: str
    state: str
    epoch: int
    epochs: int
    milestones: int
    samples: int
    loss: float
    when: datetime | None
    size: int
    uri: str
    _folder: Folder = field(repr=False, compare=False)
    _created: float = field(repr=False, compare=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What was in force, and what the run was asked to do."""
        _, saved = _last(self._folder)
        origin = saved.origin
        return {
            **saved.settings,
            "combiner": saved.combiner,
            "epochs": origin.epochs,
            "batch_size": origin.batch_size,
            "shuffle": origin.shuffle,
            "seed": origin.seed,
            "repartition_every": origin.repartition_every,
            "optimizer_state": origin.optimizer_state,
            "checkpoint_every": origin.every,
            "keep": origin.keep,
        }

    @property
    def history(self) -> pd.DataFrame:
        """Every milestone until the checkpoint; see `tos_notebook.Run.history`."""
        return self._told().frame()

    def figure(self) -> go.Figure:
        """Return loss and staleness over samples as a plotly figure."""
        from ..telemetry.figure import figure

        return figure(self._told())

    def resume(self, data: Any = None, **options: Any) -> Run:
        """Go on; see `tos_notebook.resume`."""
        return resume(self.uri, data, **options)

    def _told(self) -> History:
        history = History()
        for event in _past(self._folder, _last(self._folder)[1].history):
            history(event)
        return history


class SavedRuns(list[SavedRun]):
    """Runs, which show as a table."""

    def frame(self) -> pd.DataFrame:
        """Return one row per run, oldest first, with the attributes of `SavedRun` as columns."""
        import pandas as pd

        rows = [[getattr(run, column) for column in COLUMNS] for run in self]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def __repr__(self) -> str:
        return self.frame().to_string(index=False) if self else "no runs"

    def _repr_html_(self) -> str | None:
        return self.frame().to_html(index=False) if self else None


def runs(uri: str | None = None, *, spark: Any = None) -> Sequence[Run] | SavedRuns:
    """Return the runs of this process that somebody still holds, or those saved in a directory.

    Parameters
    ----------
    uri : str, optional
        The `directory` of sessions whose runs had checkpoints, or the folder of one run.
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
    storage = Storage(connect(spark, warm_up=False).sparkContext, uri)
    if Folder(storage).numbers():
        return SavedRuns(_saved([storage]))
    return SavedRuns(_saved(storage.inside(name) for name in storage.folders()))


def _saved(storages: Iterable[Storage]) -> list[SavedRun]:
    found = [run for run in map(_saved_run, storages) if run is not None]
    return sorted(found, key=lambda run: (run._created, run.run))


def _saved_run(storage: Storage) -> SavedRun | None:
    """Return what a folder says of its run; None if it holds no checkpoint."""
    folder = Folder(storage)
    try:
        numbers = folder.numbers()
        if not numbers:
            return None
    except CheckpointError as error:
        numbers = []
        logger.warning("%s: %s", storage.uri, error)
    for number in reversed(numbers):
        try:
            return _described(storage, folder, checkpoint(number))
        except CheckpointError as error:
            logger.warning("%s: %s", storage.uri, error)
    name = readable(storage.uri.rstrip("/").rpartition("/")[2])
    return SavedRun(name, UNREADABLE, 0, 0, 0, 0, math.nan, None, 0, storage.uri,
                    _folder=folder, _created=-math.inf)  # fmt: skip


def _described(storage: Storage, folder: Folder, name: str) -> SavedRun:
    """Return the run of which a checkpoint's summary tells.

    Raises
    ------
    CheckpointError
        The checkpoint was cut off or damaged, or a field is not what a run has.
    """
    summary = _summary(storage, name)
    for field_name, kinds in _FIELDS.items():
        if type(summary.get(field_name)) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise CheckpointError(
                f"{name} is sealed, but not as this release writes it: expected {field_name} of "
                f"type {expected}, got {reprlib.repr(summary.get(field_name))}."
            )
    try:
        when = datetime.fromtimestamp(summary["when"]).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise CheckpointError(f"{name} is sealed, but its time is none: {error}.") from None
    fields = {n: summary[n] for n in COLUMNS[2:7]}
    run, state = summary["run"], _state(summary["run"], summary["state"])
    return SavedRun(run, state, **fields, when=when, size=storage.size(), uri=storage.uri,
                    _folder=folder, _created=summary["created"])  # fmt: skip


def _summary(storage: Storage, name: str) -> dict[str, Any]:
    """Return a checkpoint's summary; raise CheckpointError if it was cut off or damaged."""
    summary = read_summary(storage.head(name, HEAD), name)
    if isinstance(summary, int):
        summary = read_summary(storage.head(name, summary), name)
    if isinstance(summary, int):
        raise CheckpointError(f"{name} was cut off: expected {summary} bytes and more.")
    readable_summary: dict[str, Any] = all_readable(summary)
    return readable_summary


def _state(run_id: str, saved: str) -> str:
    if _active(run_id) is not None:
        return "running"
    return "unfinished" if saved in ACTIVE else saved


def _active(run_id: str) -> Run | None:
    found = (run for run in factory.runs() if run.run_id == run_id and run.active)
    return next(found, None)


Tell = Callable[[str], object]
"""Takes a sentence on a checkpoint that was passed over."""


def _last(
    folder: Folder, before: int | None = None, tell: Tell = logger.warning
) -> tuple[int, Checkpoint]:
    """Return the newest checkpoint that can be read, below a number if that is given."""
    found = folder.last(before, tell)
    try:
        return found.number, from_sealed(found.sealed, found.name)
    except CheckpointError as error:
        return _one_before(folder, found.number, error, tell)


def _one_before(folder: Folder, number: int, error: TosError, tell: Tell) -> tuple[int, Checkpoint]:
    """Return the one before a checkpoint that cannot be used; raise why if there is none."""
    try:
        found = _last(folder, number, tell)
    except CheckpointError:
        raise error from None
    tell(
        f"{folder.storage.uri}/{checkpoint(number)} cannot be restored, so "
        f"{checkpoint(found[0])} is: {error}"
    )
    return found


class _Restorable(NamedTuple):
    """A checkpoint whose state goes back into a run."""

    number: int
    saved: Checkpoint
    settings: Settings


def _restorable(
    folder: Folder,
    program: SavedProgram,
    combiner: Combiner | None,
    tell: Tell = logger.warning,
) -> _Restorable:
    """Return the newest checkpoint that can be restored.

    Parameters
    ----------
    folder : Folder
    program : SavedProgram
    combiner : Combiner or None
        The user's own, for checkpoints that need one.
    tell : callable
        Takes a sentence on each that is passed over.

    Raises
    ------
    TosError
        None can; why the newest one cannot.
    """
    number, saved = _last(folder, tell=tell)
    while True:
        try:
            settings = saved.settings_with(combiner if saved.own_combiner else None)
            _try_out(program, saved, settings)
            return _Restorable(number, saved, settings)
        except TosError as error:
            number, saved = _one_before(folder, number, error, tell)


def _try_out(program: SavedProgram, saved: Checkpoint, settings: Settings) -> None:
    """Restore all of a checkpoint's state into a run that is not trained."""
    origin = saved.origin
    strategy = ParameterServer(stripe_bytes=origin.stripe_bytes)
    trial = Coordinator(
        origin.run_id,
        strategy.trainer(program.layout, program.read(), settings),
        settings,
        publish=lambda event: None,
        locate=lambda task: ("", ""),
        on_failure=lambda: None,
    )
    trial.restore(saved.progress)


def _past(folder: Folder, names: Iterable[str]) -> list[Event]:
    """Return the events of some files; of one that cannot be read, none, and a warning."""
    events: list[Event] = []
    for name in names:
        try:
            events += event_log.events(folder.read(name), name)
        except CheckpointError as error:
            logger.warning("A part of the history is missing: %s", error)
    return events


def resume(
    uri: str,
    data: Any = None,
    *,
    spark: Any = None,
    program: Any = None,
    combiner: Any = None,
    server_host: str | None = None,
    server_port: int | None = None,
    **options: Any,
) -> Run:
    """Go on with a run from its last good checkpoint, where it was.

    First all rows that the run has loaded before are compared with the checkpoint; other ones are
    refused, and the run stays as it was. Of a function of datasets, those of the first push of each
    partition in the latest epoch are compared. Then the run continues in the background. Workers
    compare what else a function returns, in epochs that were trained in part.

    Every batch counts once: those in the checkpoint are not trained again, all others are. The
    run keeps its id and its folder, where further checkpoints go; its history goes on, too. What
    workers keep for themselves (optimizer state, and what a codec with error
    feedback has left out) begins anew, as for any worker that is replaced.

    Parameters
    ----------
    uri : str
        The run's folder: `Run.uri`, or one of ``runs(directory)``.
    data : RDD of tuple, tuple of ndarray, or columns of a DataFrame, optional
        What the run was trained on. Arrays are saved with it, and need not be given.
    spark : SparkSession or SparkContext, optional
        `connect`'s by default.
    program : Program or keras.Model, optional
        The run's model, made anew: it gets the parameters and evaluates them. Without it the run
        trains all the same, by the program that was saved; `Run.parameters` returns the values.
    combiner : Combiner, class or function, optional
        The run's own combiner, if it is none of the built-in ones.
    server_host, server_port
        As for `TrainingSession`.
    **options
        Those of `TrainingSession.start` that a resumed run can be given:

        ``epochs``: another number of epochs, such as more, for a run that has ended.

        ``validation``, ``validation_every``, ``validation_on``, ``callbacks``,
        ``on_callback_error``, ``tensorboard``, ``histograms``, ``sinks``: callbacks need the model,
        and start over; event files go on in another file of the same folder.

        ``learning_rate``, ``stop_when``, ``mlflow``: none is saved. MLflow begins another run,
        unless the one to go on with is active: ``mlflow.start_run(run_id)``. A schedule goes on at
        the global step that the run has reached; a time counts from the run's first start, without
        that in between.

        ``checkpoint_every``, ``keep``, ``patience``, ``stall_timeout``: as they were by default.

    Raises
    ------
    CheckpointError
        There is no good checkpoint, or a file that it needs is missing or damaged.
    ConfigError
        A setting is out of range, or does not go with the run; or there is none of its name.
    DataError, ShapeMismatch
        Data or model are not the run's: other partitions, rows, values or order.
    InvalidTransition
        The run is active in this process, or all its epochs are done.

    Examples
    --------
    >>> run = tos.resume("hdfs:///runs/run-20261122-010203-3f9a1c")           # doctest: +SKIP
    """
    require_resumable(options)
    observers = pick(ObserverOptions, options).checked()
    spark = connect(spark, warm_up=False)
    sc = spark.sparkContext
    ask, files = factory.asking(sc), f"the files in {uri}"
    # Keras keeps what it makes a model with for each thread.
    captured = None if program is None else capture(program)
    with announced(files):
        found = ask(files, partial(_found, sc, uri, combiner, captured))
    folder, model, (number, saved, chosen) = found.folder, found.model, found.chosen
    storage = folder.storage
    origin = _origin(saved, options)
    session = TrainingSession(
        spark,
        model,
        combiner=settings_in(chosen).combiner,
        sync_interval=chosen.sync_interval,
        sync=chosen.sync,
        codec=settings_in(chosen).codec,
        batch_size=origin.batch_size,
        server_host=server_host,
        server_port=server_port,
        directory=storage.uri,
        non_finite=origin.non_finite,
        optimizer_state=origin.optimizer_state,
    )
    try:
        given = factory.without_looks(sc, data)
        with announced(f"Spark, the data, or {files}"):
            source = ask(
                "the first rows of the data",
                partial(_data, folder, saved, given, sc, session.program.feeds),
            )
        resumed = Resumed(number, replace(saved, origin=origin), found.past, found.notes)
        beside = session.beside(observers)
        if observers.learning_rate is not None:
            chosen = replace(chosen, learning_rate=beside.learning_rate)
        with _claimed(folder, ask) as claim:
            every = as_trigger("checkpoint_every", origin.every)
            keeper = CheckpointWriter(
                folder, origin, every, origin.keep, claim, saved.history, number
            )
            return session.resume(source, chosen, resumed, keeper, beside)
    except BaseException:
        session.close()
        raise


class _Found(NamedTuple):
    """What a run's folder holds of it."""

    folder: Folder
    model: SavedProgram
    chosen: _Restorable
    past: Sequence[Event]
    notes: tuple[str, ...]


def _found(sc: Any, uri: str, combiner: Any, captured: Program | None) -> _Found:
    """Read what a run continues from.

    Raises
    ------
    CheckpointError, ConfigError, InvalidTransition
        As in `resume`.
    """
    storage = Storage(sc, uri)
    folder = Folder(storage)
    if not folder.numbers() and (inside := _saved(map(storage.inside, storage.folders()))):
        raise ConfigError(
            f"{uri} holds runs: expected the folder of one, such as {inside[-1].uri}."
        )
    notes: dict[str, None] = {}
    _, newest = _last(folder, tell=notes.setdefault)
    _refuse_if_active(newest.origin.run_id)
    own, model = _combiner(newest, combiner), _program(folder, newest, captured)
    chosen = _restorable(folder, model, own, notes.setdefault)
    for note in notes:
        logger.warning("%s", note)
    return _Found(folder, model, chosen, _past(folder, chosen.saved.history), tuple(notes))


@contextmanager
def _claimed(folder: Folder, ask: Asking) -> Iterator[Claim]:
    """Claim a run's folder; give it back if the run cannot continue here."""
    files = f"the files in {folder.storage.uri}"
    claim = ask(files, folder.claim)
    try:
        yield claim
    except BaseException:
        ask(files, partial(folder.storage.delete, claim.name))
        raise


def _refuse_if_active(run_id: str) -> None:
    active = _active(run_id)
    if active is not None:
        raise InvalidTransition(
            active.state, "resume it from a checkpoint", f"{run_id} trains in this process."
        )


def _origin(saved: Checkpoint, given: Mapping[str, Any]) -> Origin:
    """Return what the run is asked to do from now on: None leaves an option as it was."""
    options = replace(saved.origin.options, **subset(RunOptions, given)).checked()
    origin = replace(
        saved.origin,
        epochs=options.epochs,
        every=str(options.checkpoint_every),
        keep=options.keep,
        patience=options.patience,
        stall_timeout=options.stall_timeout,
    )
    if saved.progress.reached.epoch >= origin.epochs:
        raise InvalidTransition(
            "finished",
            "resume it",
            f"{saved.progress.reached.epoch} epochs are done, of {origin.epochs}. To continue, "
            "give more: epochs=...",
        )
    return origin


def _combiner(saved: Checkpoint, given: Any) -> Combiner | None:
    if given is None:
        if saved.own_combiner:
            # It says which one to give: no older checkpoint stands in for that.
            saved.settings_with()
        return None
    combiner = as_combiner(given)
    if not saved.own_combiner or combiner.name != saved.combiner:
        raise ConfigError(
            f"combiner: the run continues with the one that it has, {saved.combiner}; got "
            f"{combiner!r}. Change it afterwards, by run.swap_combiner(...)."
        )
    return combiner


def _program(folder: Folder, saved: Checkpoint, own: Program | None) -> SavedProgram:
    content = folder.storage.read(PROGRAM)
    if digest_of(content) != saved.origin.program:
        raise CheckpointError(
            f"{folder.storage.uri}/{PROGRAM} is damaged: expected the program that the run was "
            "started with. Put a copy of it there."
        )
    with temporary.directory("tos-resume-") as directory:
        archive = Path(directory, PROGRAM)
        archive.write_bytes(content)
        return SavedProgram(archive, saved.origin.columns, own)


def _data(
    folder: Folder, saved: Checkpoint, data: Any, sc: Any, feeds: Sequence[Feed]
) -> DataSource:
    origin = saved.origin
    if data is None:
        return first_layout(read_data(folder, origin), origin)
    with spoken():
        source = as_source(sc, data, origin.came_in or origin.partitions, feeds)
    check_same(source, origin)
    return first_layout(source, origin)
