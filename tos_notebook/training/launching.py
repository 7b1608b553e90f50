"""What a session does before a run is made: refuse what does not fit, and lay the data out."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..archive.spec import read_spec
from ..blocks.feeds import check_columns
from ..blocks.partitioners import AnyPartitioner
from ..blocks.source import DataSource
from ..cluster.environment import is_probed, warm_up
from ..cluster.executors import is_local, slots
from ..cluster.jobs import pool_of, spoken
from ..common.checks import at_least_one
from ..coordination.job_span import DataLayout
from ..coordination.settings import Settings, StrategySettings
from ..coordination.snapshots import RunPosition
from ..data.dealing import deal, undealt
from ..data.source import as_source, has_labels
from ..errors import ConfigError, InvalidTransition
from ..program.capture import capture
from ..program.export.base import Program
from .checkpoint.contents import require_known
from .checkpoint.writer import CheckpointWriter
from .factory import RunFactory, exported, new_run_id, runs_on, without_looks
from .fitting import (
    require_participants,
    require_samples,
    require_slots,
    require_whole_batches,
)
from .observers.build import Observers, build
from .observers.metric_names import names_metrics, require_metrics
from .options import CheckedOptions, ObserverOptions, RunOptions
from .options.call import EVERY
from .parts import Resumed
from .results.view import RunView
from .run import Run
from .run_plan import RunPlan
from .run_request import RunRequest
from .served import require_shards
from .turns import in_turns

logger = logging.getLogger(__name__)


def probe(sc: Any, host: str, port: int) -> Callable[[RunView], object]:
    """Look at the executors, unless that was done, or runs of this process keep them busy.

    Those of a local master have this package, and reach this process. They are looked at when a run
    begins, so that the user does not wait for them before there is something to see.

    Returns
    -------
    callable
        Takes a run, and looks at them if that is still to be done.
    """
    server = host, port

    def look(run: RunView | None = None) -> None:
        others = [other for other in runs_on(sc) if other is not run]
        if not is_probed(sc, server) and not others:
            warm_up(sc, server=server)

    if not is_local(sc):
        look()
    return look


def captured(program: Any, options: CheckedOptions) -> Program:
    """Return the program of what a session is given, as the strategy trains it."""
    made, by_gradients = capture(program), "gradients" in options.strategy.needs
    require_shards(made, options.strategy)
    if made.sessions and "graph" not in options.strategy.needs:
        raise ConfigError(
            f"program: expected the model, or what tos.capture returns, for strategy "
            f"{options.strategy.name!r}; got a program of a session with strategy 'tensorflow'."
        )
    if made.gradients and not by_gradients:
        raise ConfigError(
            f"program: expected the model, or what tos.capture returns, for strategy "
            f"{options.strategy.name!r}; got a program of a session that trains by gradients."
        )
    twin = made.for_gradients() if by_gradients else made
    if "graph" in options.strategy.needs:
        return twin.for_sessions()
    if "no optimizer" in options.strategy.needs and twin.scales_loss:
        raise ConfigError(
            f"program: expected gradients as they are for strategy {options.strategy.name!r}, "
            "which takes the optimizer's place; got an optimizer that scales the loss. Use a "
            'Keras policy other than "mixed_float16".'
        )
    return twin


def weighted(program: Program, class_weight: Mapping[int, float] | None) -> Program:
    """Return a program as its classes are to count; see `Program.weighted`."""
    return program if class_weight is None else program.for_steps().weighted(class_weight)


def refuse_if_active(run: Run) -> None:
    """Refuse to start another run while a session trains one."""
    if run.active:
        raise InvalidTransition(
            run.state,
            "start another run",
            f"this session trains {run.run_id}; wait() for it or stop() it first.",
        )


def require_directory(directory: str | None, options: RunOptions) -> None:
    """Say what cannot be saved before anything is trained."""
    if directory is None:
        raise ConfigError(
            "checkpoint_every: expected a directory for the checkpoints. Give the session one "
            'that outlives it, such as checkpoint_dir="hdfs:///runs", or any other Hadoop URI.'
        )
    if options.partitioner is not None:
        require_known(options.partitioner)


def refuse_without_checkpoints(options: RunOptions) -> None:
    """Refuse to say how many checkpoints to keep where none are written."""
    if options.max_checkpoints != RunOptions.max_checkpoints:
        raise ConfigError(
            "max_checkpoints: expected checkpoint_dir or checkpoint_every with it, since nothing "
            f"is saved without; got {options.max_checkpoints} alone. Say where checkpoints go, "
            'such as checkpoint_dir="hdfs:///runs".'
        )


def saved_often(options: RunOptions, directory: str | None) -> RunOptions:
    """Return options with how often a run is saved, if only the place for that is given."""
    if directory is None or options.checkpoint_every is not None:
        return options
    return replace(options, checkpoint_every=EVERY)


def refuse_without_state(program: Program, options: CheckedOptions) -> None:
    """Refuse to reset what the program's optimizer does not have."""
    if options.optimizer_state == "reset" and not program.optimizer_state:
        raise ConfigError(
            "optimizer_state: expected 'keep', since the program's optimizer has no state; got "
            "'reset'. Leave it out, or compile with an optimizer that has one, such as Adam."
        )


def first_request(
    factory: RunFactory,
    own: StrategySettings,
    data: Any,
    options: RunOptions,
    observer_options: ObserverOptions,
) -> tuple[RunRequest, Observers]:
    """Look at what a new run is given; return the run that is about to be made.

    Parameters
    ----------
    factory : RunFactory
    own : StrategySettings
        The strategy's settings.
    data : RDD, columns of a DataFrame, arrays, files or callable
        As `TrainingSession.start` takes them.
    options : RunOptions
        Checked.
    observer_options : ObserverOptions
        Checked.

    Returns
    -------
    tuple of RunRequest and Observers
        The latter work beside the run.
    """
    count = _slots(factory)
    came, held_out, first, layout = factory.ask(
        "the first rows of the data", partial(_laid_out, factory, data, options, count)
    )
    if held_out is not None:
        observer_options = replace(observer_options, validation_data=held_out)
    observers = observers_of(factory, observer_options, first)
    request = RunRequest(
        new_run_id(),
        RunPlan(options, count, pool_of(factory.sc)),
        Settings(
            own,
            factory.options.sync_interval,
            factory.options.sync,
            _learning_rate(factory, observers, observer_options),
        ),
        first,
        RunPosition(0, False, layout),
        observers.sinks,
        came_in=None if first is came else came.partitions,
    )
    _require_slots(request, factory.options.strategy.tasks)
    if options.every is not None:
        make = partial(factory.checkpointer, request, options.every)
        request = replace(
            request, checkpointer=factory.ask(f"the files in {factory.storage.uri}", make)
        )
    return request, observers


def _learning_rate(
    factory: RunFactory, observers: Observers, options: ObserverOptions
) -> float | None:
    """Return the rate that the run begins with; None for the strategy's, or the program's own."""
    if options.learning_rate is None and "no optimizer" in factory.options.strategy.needs:
        # Callbacks begin with that of the model's optimizer, which makes no step here.
        return None
    return observers.learning_rate


def resumed_request(
    factory: RunFactory,
    source: DataSource,
    settings: Settings,
    resumed: Resumed,
    checkpointer: CheckpointWriter,
    observers: Observers,
) -> RunRequest:
    """Return a run that continues, as it is about to be made."""
    saved = resumed.checkpoint
    origin = saved.origin
    check_columns(source.columns, factory.program.feeds)
    request = RunRequest(
        f"{origin.run_id}-resumed-{secrets.token_hex(3)}",
        RunPlan(origin.options, _slots(factory), pool_of(factory.sc), saved.asked),
        settings,
        source,
        saved.progress.reached,
        observers.sinks,
        checkpointer,
        resumed,
        origin.came_in,
    )
    _require_slots(request, factory.options.strategy.tasks)
    return request


def _require_slots(request: RunRequest, beside: int) -> None:
    """Refuse partitions that would have to wait, before anything is written, or name them."""
    try:
        require_slots(request.settings, request.partitions, request.plan.slots)
    except ConfigError:
        request.first.close()
        raise
    for note in in_turns(beside, request.partitions, request.plan.slots + beside):
        logger.warning("Run %s: %s", request.run_id, note)


def observers_of(factory: RunFactory, options: ObserverOptions, source: DataSource) -> Observers:
    """Return what is to work beside the run; see `training.observers.build.build`.

    Parameters
    ----------
    factory : RunFactory
    options : ObserverOptions
        Checked.
    source : DataSource
        What is trained on.
    """
    options = replace(options, validation_data=without_looks(factory.sc, options.validation_data))
    with spoken():
        found = build(factory.sc, factory.program, factory.ask, options)
    if names_metrics(options):
        outputs = read_spec(exported(factory.program, source)).outputs
        require_metrics(options, outputs, factory.program.measured_names(outputs))
    return found


def _slots(factory: RunFactory) -> int:
    """Return how many workers can train at once, beside what else the strategy needs."""
    count: int = factory.ask("Spark's list of executors", partial(slots, factory.sc))
    tasks = factory.options.strategy.tasks
    if tasks >= count:
        raise ConfigError(
            f"shards: expected fewer than Spark runs tasks at once, which is {count}, so that "
            f"workers have some; got {tasks}. Take fewer, or give Spark more slots."
        )
    return count - tasks


def _laid_out(
    factory: RunFactory, data: Any, options: RunOptions, slots: int
) -> tuple[DataSource, DataSource | None, DataSource, DataLayout | None]:
    """Return the data as they come, what is only evaluated, and the data dealt, or their layout."""
    partitions = options.partitions
    whole, layout = _as_they_come(factory, data, partitions, options.partitioner, slots)
    came, held_out = split_off(whole, options)
    check_columns(came.columns, factory.program.feeds)
    require_samples(factory.options.strategy.sampling, came, options)
    require_participants(factory.options.strategy, came, options)
    if layout is not None:
        return came, held_out, came, layout
    if options.deals:
        first = deal(factory.sc, came, partitions, options.seed)
    else:
        first = undealt(came, partitions)
    size = factory.options.batch_size
    require_whole_batches(factory.program.rows_of_batch, size, first)
    first.notes = whole.notes
    return came, held_out, first, None


def split_off(source: DataSource, options: RunOptions) -> tuple[DataSource, DataSource | None]:
    """Return the rows that are trained on, and those that are only evaluated."""
    if options.validation_split is None:
        return source, None
    return source.split(options.validation_split, options.seed)


def _as_they_come(
    factory: RunFactory,
    data: Any,
    partitions: int | None,
    partitioner: AnyPartitioner | None,
    slots: int,
) -> tuple[DataSource, DataLayout | None]:
    """Return the data as they come, and how they are to be laid out first."""
    data = without_looks(factory.sc, data)
    wanted = getattr(partitioner, "num_partitions", None) if partitions is None else partitions
    count = slots if wanted is None else at_least_one("partitions", wanted)
    program = factory.program
    program.with_labels(has_labels(data, program.feeds))
    source = as_source(factory.sc, data, count, program.feeds)
    program.with_labels(has_labels(source, program.feeds))
    if partitioner is None:
        return source, None
    return source, DataLayout(wanted or source.partitions, partitioner, 0)
