"""Continue a run from its checkpoints: compare what is given with them, and restore their state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..blocks.feeds import Feed
from ..blocks.source import DataSource
from ..cluster.asking import Asking
from ..cluster.calls import announced
from ..cluster.connect import connect
from ..cluster.files import digest_of
from ..cluster.jobs import spoken
from ..cluster.storage import Storage
from ..combiners import Combiner, as_combiner
from ..common import temporary
from ..common.checks import at_least_one
from ..coordination.coordinator import Coordinator
from ..coordination.settings import Settings
from ..data.source import as_source
from ..errors import CheckpointError, ConfigError, InvalidTransition, TosError
from ..events import Event
from ..program.archived import SavedProgram
from ..program.capture import capture
from ..program.export.base import Program
from ..steering.trigger import as_trigger
from ..strategies.base import TrainerSetup
from . import factory
from .checkpoint.contents import SESSION, Checkpoint, Origin
from .checkpoint.data import check_same, first_layout, read_data
from .checkpoint.folder import BEST, PROGRAM, Claim, Folder
from .checkpoint.folder import program as program_name
from .checkpoint.reading import Tell, last, one_before, past
from .checkpoint.writer import CheckpointWriter
from .launching import observers_of, split_off
from .left_out import held_out_rows, left_out
from .options import (
    RESUMABLE,
    ObserverOptions,
    RunOptions,
    SessionOptions,
    offers,
    require_resumable,
    subset,
)
from .parts import Resumed
from .resharded import with_shards
from .run import Run
from .session import TrainingSession
from .summaries import active_run, summaries

logger = logging.getLogger(__name__)


@offers(RESUMABLE.values())
def resume(
    uri: Any,
    data: Any = None,
    *,
    spark: Any = None,
    program: Any = None,
    combiner: Any = None,
    shards: int | None = None,
    server_host: str | None = None,
    server_port: int | None = None,
    **options: Any,
) -> Run:
    """Continue a run from its last good checkpoint, where it was.

    First all rows that the run has loaded before are compared with the checkpoint; other ones are
    refused, and the run stays as it was. Of a function of datasets, those of the first push of each
    partition in the latest epoch are compared. Then the run continues in the background. Workers
    compare what else a function returns, in epochs that were trained in part.

    Every batch counts once: those in the checkpoint are not trained again, all others are. The
    run keeps its id and its folder, where further checkpoints go; its history continues, too. What
    workers keep for themselves (their own optimizer state, and the remainders of codecs with error
    feedback) starts over, as for any worker that is replaced.

    From `epochs` on, these are options of `TrainingSession.start`. None leaves one as it was. A run
    that has ended needs more `epochs`. Callbacks need the model, and start over. Event files
    continue in another file of the same folder. No schedule or condition is saved. A schedule
    continues at the global step that the run has reached. A time counts from the run's first
    start, without that in between. MLflow begins another run, unless the one to continue is
    active: ``mlflow.start_run(run_id)``.

    Parameters
    ----------
    uri : str, Run or SavedRun
        The run's folder: `Run.uri`; or the run, or one of ``runs(directory)``.
    data : RDD of tuple, tuple of ndarray, or columns of a DataFrame, optional
        What the run was trained on. Arrays are saved with it, and need not be given. With
        `validation_split` all rows; of saved arrays only those that it trains on are there.
    spark : SparkSession or SparkContext, optional
        `connect`'s by default.
    program : Program or keras.Model, optional
        The run's model, made again: it gets the parameters and evaluates them. Without it the run
        trains all the same, by the program that was saved; `Run.parameters` returns the values.
    combiner : Combiner, class or function, optional
        The run's own combiner, if it is none of the built-in ones.
    shards : int, optional
        How many shards have the parameters from now on, of a run that has some.
    server_host : str, optional
    server_port : int, optional
        As for `TrainingSession`.

    Raises
    ------
    CheckpointError
        The run has no good checkpoint, or a file that it needs is missing or damaged.
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
    uri = uri if isinstance(uri, str) else getattr(uri, "uri", uri)
    if not isinstance(uri, str):
        raise ConfigError(
            f"uri: expected the folder of a run as text, such as run.uri, got {uri!r}."
        )
    require_resumable(options)
    observer_options = ObserverOptions(**subset(ObserverOptions, options))
    combiner = None if combiner is None else as_combiner(combiner)
    if shards is not None:
        at_least_one("shards", shards)
    spark = connect(spark, warm_up=False)
    sc = spark.sparkContext
    ask, files = factory.asking(sc), f"the files in {uri}"
    # Keras keeps what it makes a model with for each thread.
    captured = None if program is None else capture(program)
    with announced(files):
        found = ask(files, partial(_found, sc, uri, combiner, captured))
    saved, settings = with_shards(found.chosen.saved, found.chosen.settings, shards)
    found = found._replace(chosen=found.chosen._replace(saved=saved, settings=settings))
    origin = _origin(found.chosen.saved, options)
    session = _session(spark, found, origin, server_host, server_port)
    try:
        return _continued(session, found, origin, factory.without_looks(sc, data), observer_options)
    except BaseException:
        session.close()
        raise


class _Found(NamedTuple):
    """What a run's folder holds of it."""

    folder: Folder
    chosen: _Restorable
    past: Sequence[Event]
    notes: tuple[str, ...]
    kept_best: bool


def _found(sc: Any, uri: str, combiner: Any, captured: Program | None) -> _Found:
    """Read what a run continues from.

    Raises
    ------
    CheckpointError, ConfigError, InvalidTransition
        As in `resume`.
    """
    storage = Storage(sc, uri)
    folder = Folder(storage)
    if not folder.numbers() and (inside := summaries(map(storage.inside, storage.folders()))):
        raise ConfigError(
            f"{uri} holds runs: expected the folder of one, such as {inside[-1].uri}."
        )
    notes: dict[str, None] = {}
    _, newest = last(folder, tell=notes.setdefault)
    _refuse_if_active(newest.origin.run_id)
    own = _combiner(newest, combiner)
    chosen = _restorable(folder, partial(_program, folder, own=captured), own, notes.setdefault)
    for note in notes:
        logger.warning("%s", note)
    kept_best = BEST in folder.storage.list()
    return _Found(folder, chosen, past(folder, chosen.saved.history), tuple(notes), kept_best)


def _continued(
    session: TrainingSession,
    found: _Found,
    origin: Origin,
    data: Any,
    observer_options: ObserverOptions,
) -> Run:
    """Look at what a run is given, and let it continue; parameters as in `resume`."""
    folder, (number, saved, chosen, _) = found.folder, found.chosen
    sc, ask = session._sc, session._ask
    with announced(f"Spark, the data, or the files in {folder.storage.uri}"):
        source, held_out = ask(
            "the first rows of the data",
            partial(_data, folder, saved, data, sc, session.program.feeds),
        )
    observer_options, unsaved = held_out_rows(observer_options, origin, held_out)
    observer_options = observer_options.checked()
    notes = (
        *found.notes,
        *unsaved,
        *left_out(observer_options, origin, found.past, found.kept_best),
    )
    resumed = Resumed(number, replace(saved, origin=origin), found.past, notes)
    observers = observers_of(session._factory, observer_options, source)
    if observer_options.learning_rate is not None:
        chosen = replace(chosen, learning_rate=observers.learning_rate)
    with _claimed(folder, ask) as claim:
        every = as_trigger("checkpoint_every", origin.options.every)
        checkpointer = CheckpointWriter(
            folder, origin, every, origin.options.max_checkpoints, claim, saved.history, number
        )
        return session._resume(source, chosen, resumed, checkpointer, observers)


class _Restorable(NamedTuple):
    """A checkpoint whose state goes back into a run."""

    number: int
    saved: Checkpoint
    settings: Settings
    program: SavedProgram


def _restorable(
    folder: Folder,
    program: Callable[[Checkpoint], SavedProgram],
    combiner: Combiner | None,
    tell: Tell = logger.warning,
) -> _Restorable:
    """Return the newest checkpoint that can be restored.

    Parameters
    ----------
    folder : Folder
    program : callable
        Returns the program of a checkpoint.
    combiner : Combiner or None
        The user's own, for checkpoints that need one.
    tell : callable
        Takes a sentence on each that is passed over.

    Raises
    ------
    TosError
        None can; why the newest one cannot.
    """
    number, saved = last(folder, tell=tell)
    while True:
        try:
            settings = saved.settings_with(combiner if saved.own_combiner is not None else None)
            found = program(saved)
            _try_out(found, saved, settings)
            return _Restorable(number, saved, settings, found)
        except TosError as error:
            number, saved = one_before(folder, number, error, tell)


def _try_out(program: SavedProgram, saved: Checkpoint, settings: Settings) -> None:
    """Restore all of a checkpoint's state into a run that is not trained."""
    origin = saved.origin
    setup = TrainerSetup(
        program.layout,
        program.read(),
        settings,
        updater=lambda: factory.load_updater(program.export(origin.columns)),
        archive=lambda: program.export(origin.columns),
    )
    trial = Coordinator(
        origin.run_id,
        saved.strategy.trainer(setup),
        settings,
        publish=lambda event: None,
        locate=lambda task: ("", ""),
        on_failure=lambda: None,
    )
    trial.restore(saved.progress)


def _session(
    spark: Any, found: _Found, origin: Origin, server_host: str | None, server_port: int | None
) -> TrainingSession:
    """Return the session of a run that continues."""
    chosen = found.chosen.settings
    own = chosen.strategy.shown()
    return TrainingSession(
        spark,
        found.chosen.program,
        strategy=found.chosen.saved.strategy,
        combiner=own.get("combiner"),
        sync_interval=chosen.sync_interval,
        sync=chosen.sync,
        codec=own.get("codec", SessionOptions.codec),
        server_host=server_host,
        server_port=server_port,
        checkpoint_dir=found.folder.storage.uri,
        **{name: getattr(origin.session, name) for name in SESSION},
    )


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
    active = active_run(run_id)
    if active is not None:
        raise InvalidTransition(
            active.state, "resume it from a checkpoint", f"{run_id} trains in this process."
        )


def _origin(saved: Checkpoint, given: Mapping[str, Any]) -> Origin:
    """Return what the run is asked to do from now on: None leaves an option as it was."""
    options = replace(saved.origin.options, **subset(RunOptions, given)).checked()
    if saved.progress.reached.epoch >= options.epochs:
        raise InvalidTransition(
            "finished",
            "resume it",
            f"{saved.progress.reached.epoch} epochs are done, of {options.epochs}. To continue, "
            "give more: epochs=...",
        )
    return replace(saved.origin, options=options)


def _combiner(saved: Checkpoint, given: Any) -> Combiner | None:
    if given is None:
        if saved.own_combiner is not None:
            # It says which one to give: no older checkpoint stands in for that.
            saved.settings_with()
        return None
    combiner = as_combiner(given)
    if saved.settings.shown.get("combiner") is None:
        raise ConfigError(
            f"combiner: expected none, since the run's strategy has none; got {combiner!r}. Leave "
            "it out."
        )
    if combiner.name != saved.own_combiner:
        raise ConfigError(
            f"combiner: the run continues with the one that it has, "
            f"{saved.settings.shown.get('combiner')}; got "
            f"{combiner!r}. Change it afterwards, by run.swap_combiner(...), or with 'allreduce' "
            "by run.swap_strategy('allreduce:parameters/10', combiner=...)."
        )
    return combiner


def _program(folder: Folder, saved: Checkpoint, own: Program | None) -> SavedProgram:
    own_name = program_name(saved.origin.program)
    name = own_name if own_name in folder.storage.list() else PROGRAM
    content = folder.storage.read(name)
    if digest_of(content) != saved.origin.program:
        raise CheckpointError(
            f"{folder.storage.uri}/{name} is damaged: expected the program that the run was "
            "started with. Put a copy of it there."
        )
    with temporary.directory("tos-resume-") as directory:
        archive = Path(directory, PROGRAM)
        archive.write_bytes(content)
        return SavedProgram(archive, saved.origin.columns, own, saved.origin.rate)


def _data(
    folder: Folder, saved: Checkpoint, data: Any, sc: Any, feeds: Sequence[Feed]
) -> tuple[DataSource, DataSource | None]:
    """Return the rows that are trained on, and those that are only evaluated, if they are given."""
    origin = saved.origin
    if data is None:
        return first_layout(read_data(folder, origin), origin), None
    with spoken():
        whole = as_source(sc, data, origin.came_in or origin.partitions, feeds)
        source, held_out = split_off(whole, origin.options)
    check_same(source, origin)
    return first_layout(source, origin), held_out
