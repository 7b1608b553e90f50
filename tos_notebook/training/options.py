"""The options of sessions and runs: names, defaults, checks, and a line of help for each.

`TrainingSession`, its `start`, `tos_notebook.resume`, `TensorEstimator` and the magics offer these
fields. A new option is a field here, and a parameter, trait or flag of those that offer it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, cast

from ..blocks.partitioners import AnyPartitioner
from ..codecs.pair import as_codecs
from ..combiners import as_combiner
from ..common.checks import at_least_one, did_you_mean, not_negative, one_of, positive
from ..errors import ConfigError
from ..steering.sync import as_sync
from ..steering.trigger import PLACES, Trigger, as_trigger
from ..strategies.registry import as_strategy
from ..telemetry.bus import Sink
from ..worker.optimizer_state import POLICIES

Value = TypeVar("Value")

NON_FINITE = ("raise", "skip")
"""What an update with NaN or infinity can do."""

CALLBACK_ERRORS = ("disable", "raise")
"""What a callback that raises can do."""


def option(default: Value, text: str, *, lasts: bool = False) -> Value:
    """Return the field of an option: typed as its default, which is its value in the class.

    Parameters
    ----------
    default : object
    text : str
        One line for help.
    lasts : bool
        Whether a run keeps its value when it is resumed.
    """
    made: Any = field(default=default, metadata={"help": text, "lasts": lasts})
    return cast(Value, made)


@dataclass(frozen=True)
class SessionOptions:
    """How a session trains; see `TrainingSession`."""

    strategy: Any = option("ps", "what workers exchange, and with whom; see tos.strategies")
    combiner: Any = option(None, "how the server merges; by default dynsgd, with bsp fedavg")
    sync_interval: Any = option(
        None, "batches between two exchanges; by default 10, with allreduce 1"
    )
    sync: Any = option(
        None, "who waits for whom: asp, ssp:3 or bsp; by default asp, with allreduce bsp"
    )
    codec: Any = option("fp32", "how updates and replies travel, such as int8")
    batch_size: int = option(100, "rows of one batch of each worker")
    non_finite: str = option(
        "raise", "what an update with NaN or infinity does: end the run, or be left out"
    )
    optimizer_state: str = option(
        "keep",
        "what becomes of optimizer state (Adam's m and v) when a worker adopts parameters",
    )

    def checked(self) -> SessionOptions:
        """Return them with strategy, combiner, sync mode and codec as objects.

        Raises
        ------
        ConfigError, CombinerError, CodecError
            One is out of range.
        """
        strategy = as_strategy(self.strategy)
        sync = strategy.sync if self.sync is None else as_sync(self.sync)
        interval = strategy.sync_interval if self.sync_interval is None else self.sync_interval
        interval = at_least_one("sync_interval", interval)
        given = None if self.combiner is None else as_combiner(self.combiner)
        combiner = strategy.default_combiner(sync) if given is None else given
        codec = as_codecs(self.codec)
        strategy.settings(combiner, codec).check(sync, interval)
        if "gradients" in strategy.needs and self.optimizer_state == "reset":
            raise ConfigError(
                "optimizer_state: expected 'keep', since one optimizer makes the steps of all "
                "workers; got 'reset'. Leave it out."
            )
        return replace(
            self,
            strategy=strategy,
            sync=sync,
            combiner=combiner,
            sync_interval=interval,
            codec=codec,
            batch_size=at_least_one("batch_size", self.batch_size),
            non_finite=one_of("non_finite", self.non_finite, NON_FINITE),
            optimizer_state=one_of("optimizer_state", self.optimizer_state, POLICIES),
        )


@dataclass(frozen=True)
class RunOptions:
    """What a run does; see `TrainingSession.start`."""

    epochs: int = option(1, "passes over the data")
    shuffle: bool | str = option(
        True,
        "deal the rows at random, with a new order in each epoch; partitions: the new order only",
        lasts=True,
    )
    repartition_every: int | None = option(
        None, "epochs between two random repartitions of the data", lasts=True
    )
    partitions: int | None = option(
        None,
        "partitions; by default those of the data, for arrays as many as Spark runs tasks at once",
        lasts=True,
    )
    partitioner: AnyPartitioner | None = option(
        None, "lays the rows out before the first epoch, instead of dealing them", lasts=True
    )
    seed: int = option(0, "of the order of rows and of repartitions", lasts=True)
    patience: float = option(
        60.0, "seconds without news after which the run says what it waits for"
    )
    # Ten times as long. A mistake costs one milestone, which is trained again, but a worker that
    # computes needs the time more than the others do; see `coordination.standstill`.
    stall_timeout: float | None = option(
        600.0, "seconds without news after which a worker that stands still loses its place"
    )
    checkpoint_every: str | int | Trigger | None = option(
        None, "how often the run is saved: 30s, 5min, 2h, or a number of milestones"
    )
    keep: int = option(3, "checkpoints to keep")

    def checked(self) -> RunOptions:
        """Return them with `checkpoint_every` as an object.

        Raises
        ------
        ConfigError
            One is out of range.
        """
        at_least_one("epochs", self.epochs)
        if self.repartition_every is not None:
            at_least_one("repartition_every", self.repartition_every)
        if isinstance(self.shuffle, str):
            one_of("shuffle", self.shuffle, ("partitions",))
        positive("patience", self.patience)
        if self.stall_timeout is not None:
            positive("stall_timeout", self.stall_timeout)
        at_least_one("keep", self.keep)
        return replace(self, seed=not_negative("seed", self.seed), checkpoint_every=self.every)

    @property
    def every(self) -> Trigger | None:
        """How often the run is saved; None for never."""
        every = self.checkpoint_every
        return None if every is None else as_trigger("checkpoint_every", every)

    @property
    def deals(self) -> bool:
        """Whether the rows are dealt to the partitions at random."""
        return bool(self.shuffle) and self.shuffle != "partitions"


# Not comparable: arrays, which validation may be, do not say whether they are equal.
@dataclass(frozen=True, eq=False)
class ObserverOptions:
    """What a user has beside a run; see `TrainingSession.start`."""

    validation: Any = option(None, "data that are evaluated after each epoch")
    validation_every: str | int | Trigger | None = option(
        None, "how often the validation data are evaluated, instead: 30s, or 50 (milestones)"
    )
    validation_on: str = option(
        "driver",
        "where to evaluate: on the driver, which gets the rows once, or in free slots of executors",
    )
    callbacks: Any = option(
        (), "Keras callbacks, or a list of them; they run on the driver, a milestone being a batch"
    )
    on_callback_error: str = option(
        "disable", "what a callback that raises does: it is called no more, or ends the run"
    )
    learning_rate: Any = option(None, "a number to begin with, or a schedule of the global step")
    stop_when: Any = option(
        None, 'end the run early: "val_accuracy > 0.98 or minutes >= 10", or conditions of tos.stop'
    )
    tensorboard: str | None = option(None, "where event files go, a Hadoop URI or a local path")
    histograms: bool | None = option(None, "whether the distribution of each weight is recorded")
    mlflow: Any = option(None, "log the run in MLflow, in an experiment of this name")
    sinks: Sequence[Sink] = option((), "further consumers of the run's events")

    def checked(self) -> ObserverOptions:
        """Return them with `validation_every` as an object.

        Raises
        ------
        ConfigError
            One is out of range, or needs validation data.
        """
        place = self.validation_on
        if self.validation is None and place != ObserverOptions.validation_on:
            raise ConfigError(
                f"validation_on: expected validation data to evaluate on {place!r}; give "
                "validation=..., too."
            )
        if self.validation is None and self.validation_every is not None:
            raise ConfigError(
                f"validation_every: expected validation data to evaluate every "
                f"{self.validation_every}; give validation=..., too."
            )
        one_of("validation_on", place, PLACES)
        one_of("on_callback_error", self.on_callback_error, CALLBACK_ERRORS)
        return replace(self, validation_every=self.every, sinks=tuple(self.sinks))

    @property
    def every(self) -> Trigger | None:
        """How often the validation data are evaluated; None for after each epoch."""
        every = self.validation_every
        return None if every is None else as_trigger("validation_every", every)


Options = TypeVar("Options", SessionOptions, RunOptions, ObserverOptions)

KINDS = (SessionOptions, RunOptions, ObserverOptions)

DEFAULTS: Mapping[str, Any] = {f.name: f.default for kind in KINDS for f in fields(kind)}

HELP: Mapping[str, str] = {f.name: f.metadata["help"] for kind in KINDS for f in fields(kind)}
"""A line on each option, by its name."""

RESUMABLE = tuple(
    f.name for f in (*fields(RunOptions), *fields(ObserverOptions)) if not f.metadata["lasts"]
)
"""What a run may be given when it is resumed."""


def pick(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Return the options of one kind, of all that are given by name."""
    return kind(**{f.name: given[f.name] for f in fields(kind) if f.name in given})


def subset(kind: type[Options], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of one kind that are given and not None, by name."""
    return {f.name: given[f.name] for f in fields(kind) if given.get(f.name) is not None}


def require_resumable(given: Iterable[str]) -> None:
    """Refuse what a resumed run cannot be given.

    Raises
    ------
    ConfigError
        A run keeps the option when it is resumed, or its name is unknown.
    """
    for name in given:
        if name in RESUMABLE:
            continue
        if name in HELP:
            raise ConfigError(f"{name}: a resumed run keeps the one that it has; leave it out.")
        hint = did_you_mean(name, RESUMABLE) or f" It takes {', '.join(RESUMABLE)}."
        raise ConfigError(f"resume: unknown option {name!r}.{hint}")
