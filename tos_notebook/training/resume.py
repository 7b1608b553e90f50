"""Continue a run from its checkpoints: compare what is given with them, and let it train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..blocks.feeds import Feed
from ..blocks.source import DataSource
from ..cluster.asking import Asking
from ..cluster.backend import spark_context
from ..cluster.calls import announced
from ..cluster.environment import why_deployed
from ..cluster.executors import contact_host, contact_port
from ..cluster.given import given_spark
from ..cluster.jobs import spoken
from ..cluster.remote.context import RemoteContext
from ..common.checks import at_least_one
from ..data.chosen import chosen, like
from ..data.source import as_source
from ..errors import ConfigError, InvalidTransition
from ..program.capture import capture
from ..steering.trigger import as_trigger
from . import factory
from .changed import (
    COMMANDED,
    as_commands,
    change_resumed,
    other_settings,
    require_measurable,
)
from .checkpoint.contents import SESSION, Checkpoint, Origin
from .checkpoint.data import check_same, first_layout, read_data
from .checkpoint.folder import Claim, Folder
from .checkpoint.writer import CheckpointWriter
from .deployed.launch import deploy
from .deployed.request import Request, options_for_task, packed_model
from .fitting import require_apart, require_dealt
from .found import Found, find
from .launching import observers_of, probe, refuse_without_state, split_off
from .left_out import held_out_rows, left_out
from .options import (
    AUTO,
    RESUMABLE,
    CallOptions,
    ObserverOptions,
    RunOptions,
    SessionOptions,
    for_resume,
    names_as_typed,
    offers,
    pick,
    subset,
)
from .parts import Resumed
from .resharded import with_shards
from .run import Run
from .session import TrainingSession
from .shown import has_view, wait_or_stop, with_line


@names_as_typed
@offers(RESUMABLE.values(), aliases=True)
def resume(
    uri: Any,
    data: Any = None,
    *,
    spark: Any = None,
    program: Any = None,
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
    run keeps its id and its folder, where further checkpoints go; its history also continues. What
    workers keep for themselves (their own optimizer state, and the remainders of codecs with error
    feedback) starts over, as for any worker that is replaced.

    From `strategy` on, these are options of `TrainingSession.start`, and None leaves one as it was.
    Settings are in force from the first milestone on, and another combiner begins with empty state.
    Another strategy and other partitions come when the epoch is done in which the run continues.
    What would count other batches than the checkpoint does is refused, such as `batch_size`.

    A run that has ended needs more `epochs`. A combiner of your own has to be given. Callbacks,
    validation data and `keep_best` need the model, and callbacks start over. Event files continue
    in another file of the same folder. No schedule or condition is saved. A schedule continues at
    the global step that the run has reached. A time counts from the run's first start, without that
    in between. MLflow begins another run, unless the one to continue is active:
    ``mlflow.start_run(run_id)``.

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
    shards : int, optional
        How many shards have the parameters from now on, of a run that has some; as
        ``strategy="ps:shards=2"`` says it.
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
    uri = _folder_of(uri)
    given = for_resume(options)
    require_model(program, given)
    call, wanted = pick(CallOptions, given), as_commands(given)
    if shards is not None:
        at_least_one("shards", shards)
    spark = given_spark(spark)
    sc = spark_context(spark)
    place = server_host or contact_host(sc), server_port or contact_port(sc)
    if isinstance(sc, RemoteContext):
        probe(sc, *place)
    if why := why_deployed(sc, place):
        return _deployed(sc, why, uri, data, program, {**given, "shards": shards})
    ask, files = factory.asking(sc), f"the files in {uri}"
    # Keras keeps what it makes a model with for each thread.
    captured = None if program is None else capture(program)
    look = partial(find, sc, uri, wanted.get("combiner"), captured)
    with announced(files):
        found = with_shards(ask(files, look), shards, wanted)
    require_measurable(found.chosen.saved.strategy, given)
    other_settings(found.chosen.saved.strategy, found.chosen.settings, wanted)
    origin = _origin(found.chosen.saved, given)
    session = _session(spark, found, origin, given, (server_host, server_port))
    try:
        refuse_without_state(session.program, session._options)
        rows = factory.without_looks(sc, chosen(data, call.features, call.label))
        run = _continued(session, found, origin, rows, given)
    except BaseException:
        session.close()
        raise
    if call.verbose and has_view():
        run.show()
    return wait_or_stop(run) if call.wait else run


def _deployed(
    sc: Any, why: str, uri: str, data: Any, program: Any, given: Mapping[str, Any]
) -> Run:
    """Continue with the server in a Spark task."""
    active = [run for run in factory.runs() if run.active and run.uri == uri.rstrip("/")]
    if active:
        raise InvalidTransition(
            active[0].state,
            "resume it",
            f"this process trains {active[0].run_id}; wait() for it or stop() it first.",
        )
    if program is None:
        raise ConfigError(
            "program: expected the run's Keras model, since the server is in a Spark task and the "
            "parameters are to come back; got none. Give it: tos.resume(uri, program=model)."
        )
    call = pick(CallOptions, given)
    captured = capture(program)
    options = options_for_task(given)
    request = Request(packed_model(captured), data, {}, options, uri)
    run = deploy(sc, captured, request, _beside(given).sinks, why)
    if call.verbose and has_view():
        run.show()
    return wait_or_stop(run) if call.wait else run


def _folder_of(run: Any) -> str:
    """Return the folder of a run, which may be given as text."""
    uri = run if isinstance(run, str) else getattr(run, "uri", run)
    if uri is None and run is not None:
        raise ConfigError(
            f"uri: expected a run with checkpoints; got {run!r:.80}, which has none. Give "
            "checkpoint_dir=... to the next one when it starts."
        )
    if not isinstance(uri, str):
        raise ConfigError(
            f"uri: expected the folder of a run as text, such as run.uri, got {uri!r}."
        )
    return uri


def require_model(program: Any, given: Mapping[str, Any]) -> None:
    """Refuse what is evaluated without the model that evaluates it.

    Parameters
    ----------
    program : Program, keras.Model or None
    given : mapping of str
        What the run is to do otherwise; see `for_resume`.

    Raises
    ------
    ConfigError
        There is no model. The message begins with the option.
    """
    for name in ("validation_data", "keep_best"):
        if program is None and name in given:
            raise ConfigError(
                f"{name}: expected the run's model with it, since no checkpoint holds what "
                "evaluates; got none. Make the model again, and give program=..., too."
            )


def _continued(
    session: TrainingSession, found: Found, origin: Origin, data: Any, given: Mapping[str, Any]
) -> Run:
    """Look at what a run is given, and let it continue; parameters as in `resume`."""
    folder, (number, saved, settings, _) = found.folder, found.chosen
    sc, ask = session._sc, session._ask
    with announced(f"Spark, the data, or the files in {folder.storage.uri}"):
        source, held_out = ask(
            "the first rows of the data",
            partial(_data, folder, saved, data, sc, session.program.feeds),
        )
    observer_options, unsaved = held_out_rows(_beside(given), origin, held_out)
    observer_options = observer_options.checked()
    notes = (
        *found.notes,
        *unsaved,
        *left_out(observer_options, origin, found.past, found.kept_best),
    )
    resumed = Resumed(number, replace(saved, origin=origin), found.past, notes)
    observers = observers_of(session._factory, observer_options, source)
    if observer_options.learning_rate is not None:
        settings = replace(settings, learning_rate=observers.learning_rate)
    with _claimed(folder, ask) as claim:
        every = as_trigger("checkpoint_every", origin.options.every)
        checkpointer = CheckpointWriter(
            folder, origin, every, origin.options.max_checkpoints, claim, saved.history, number
        )
        change = partial(change_resumed, wanted=as_commands(given))
        return session._resume(source, settings, resumed, checkpointer, observers, change)


def _beside(given: Mapping[str, Any]) -> ObserverOptions:
    """Return what a user has beside a run that continues."""
    call, options = pick(CallOptions, given), ObserverOptions(**subset(ObserverOptions, given))
    sinks = with_line(tuple(options.sinks), call.verbose and not has_view())
    rows = like(options.validation_data, call.features, call.label)
    return replace(options, validation_data=rows, sinks=sinks)


def _session(
    spark: Any,
    found: Found,
    origin: Origin,
    given: Mapping[str, Any],
    address: tuple[str | None, int | None],
) -> TrainingSession:
    """Return the session of a run that continues."""
    settings = found.chosen.settings
    own = settings.strategy.shown()
    measured = given.get("sync_interval") == AUTO
    host, port = address
    return TrainingSession(
        spark,
        found.chosen.program,
        strategy=found.chosen.saved.strategy,
        combiner=own.get("combiner"),
        sync_interval=AUTO if measured else settings.sync_interval,
        sync=settings.sync,
        codec=own.get("codec", SessionOptions.codec),
        server_host=host,
        server_port=port,
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


def _origin(saved: Checkpoint, given: Mapping[str, Any]) -> Origin:
    """Return what the run is asked to do from now on: None leaves an option as it was."""
    of_run = {n: v for n, v in subset(RunOptions, given).items() if n not in COMMANDED}
    of_session = {n: v for n, v in subset(SessionOptions, given).items() if n not in COMMANDED}
    options = replace(saved.origin.options, **of_run).checked()
    require_apart(saved.strategy, options)
    # Whether rows were dealt was seen to at the start, and is not saved.
    require_dealt(saved.strategy.sampling, replace(options, shuffle=False))
    if saved.progress.reached.epoch >= options.epochs:
        raise InvalidTransition(
            "finished",
            "resume it",
            f"{saved.progress.reached.epoch} epochs are done, of {options.epochs}. To continue, "
            "give more: epochs=...",
        )
    session = replace(saved.origin.session, **of_session)
    return replace(saved.origin, options=options, session=session)


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
