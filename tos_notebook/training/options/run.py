"""What a run does."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

from ...blocks.partitioners import AnyPartitioner, LabelPartitioner, Partitioner
from ...blocks.sampling import Participants
from ...common.checks import at_least_one, boolean, fraction, not_negative, positive, share
from ...errors import ConfigError
from ...steering.trigger import Trigger, as_trigger
from .option import in_range, option

MOST_NAME = 60
"""Characters of a run's name at most: it stands in headers and legends."""


def _name(name: str, value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    fits = 0 < len(text) <= MOST_NAME and text.isprintable()
    # A number chooses a run, and a dash begins an option of a magic.
    if not fits or text.isdecimal() or text.startswith("-"):
        raise ConfigError(
            f"{name}: expected 1 to {MOST_NAME} characters of one line, such as 'wide', not a "
            f"number and without a dash at the start; got {value!r:.80}."
        )
    return text


def _shuffle(name: str, value: Any) -> Any:
    if isinstance(value, str) and value == "partitions":
        return value
    try:
        return boolean(name, value)
    except ConfigError:
        raise ConfigError(
            f"{name}: expected True, False or 'partitions', got {value!r:.60}."
        ) from None


def _partitioner(name: str, value: Any) -> AnyPartitioner:
    # A class has the methods, too.
    if isinstance(value, type) or not isinstance(value, Partitioner | LabelPartitioner):
        raise ConfigError(
            f"{name}: expected one of tos.partitioners, such as tos.partitioners."
            f"RandomPartitioner(4), or an object with its method assign; got {value!r:.80} of type "
            f"{type(value).__name__}."
        )
    return value


@dataclass(frozen=True)
class RunOptions:
    """What a run does; see `TrainingSession.start`."""

    epochs: int = option(1, "passes over the data", check=at_least_one, estimator=True)
    _: KW_ONLY
    shuffle: bool | str = option(
        True,
        "deal the rows at random, with a new order in each epoch; partitions: the new order only",
        """
        True deals the rows to the partitions at random before the first epoch, and each epoch
        takes a partition's rows in a new random order. ``"partitions"`` does the latter only:
        each partition keeps the rows that it comes with. False also keeps their order. See
        docs/how-to/data.md.
        """,
        takes='bool or "partitions"',
        check=_shuffle,
        kept="by which its rows have their order",
    )
    repartition_every: int | None = option(
        None,
        "epochs between two random repartitions of the data",
        "Epochs between two random repartitions of all rows; never by default.",
        check=at_least_one,
    )
    partitions: int | None = option(
        None,
        "partitions; by default those of the data, for arrays as many as Spark runs tasks at once",
        """
        Number of partitions. By default the partitioner's own; else those of the RDD or
        DataFrame; for arrays and functions as many as Spark runs tasks at once. An RDD or
        a DataFrame that is not dealt keeps its own number: another one is an error.
        """,
        check=at_least_one,
        estimator=True,
        alias="num_workers",
    )
    partitioner: AnyPartitioner | None = option(
        None,
        "lays the rows out before the first epoch, instead of dealing them",
        """
        Lays the rows out before the first epoch, such as one of `tos_notebook.partitioners`,
        instead of dealing them.
        """,
        takes="Partitioner or LabelPartitioner, optional",
        check=_partitioner,
    )
    participation: float | None = option(
        None,
        "part of the partitions that train in an epoch, which is a round of federated averaging",
        """
        The part of the partitions that train in each epoch, above 0, at most 1; at least one of
        them, drawn again at random by `seed`. Each epoch is a Spark job then, a round of federated
        averaging: all begin with the parameters that the round before has left. By default all
        train, and do not wait for each other between epochs. `tos_notebook.federated` gives what
        belongs to it.
        """,
        check=fraction,
        kept="which has drawn the partitions of the current epoch",
    )
    seed: int = option(
        0,
        "of the order of rows and of repartitions",
        "Order and repartitioning are pure functions of it.",
        check=not_negative,
        kept="by which its rows have their order",
        estimator=True,
    )
    validation_split: float | None = option(
        None,
        "which share of the rows is evaluated after each epoch, and not trained on",
        """
        Above 0 and below 1: so large a share of the rows is drawn at random by `seed`, evaluated
        as `validation_data` are, and not trained on. Of arrays so many rows exactly, and the
        others are copied; of other data each row by itself. Not for functions of datasets.
        """,
        check=share,
        kept="which has drawn the rows that it trains on",
    )
    stall_timeout: float = option(
        60.0,
        "seconds without news after which the run says what it waits for",
        """
        Seconds without news after which the run says what it waits for: in `Run.status`, in
        the live view, and as event `Stalled`. A milestone that takes longer is also news.
        """,
        check=positive,
    )
    # Ten times as long. A mistake costs one milestone, which is trained again, but a worker that
    # computes needs the time more than the others do; see `coordination.standstill`.
    worker_timeout: float | None = option(
        600.0,
        "seconds without news after which a worker that hangs is replaced",
        """
        Seconds without news after which a live worker that hangs is replaced. The server refuses it
        from then on, and the others no longer wait for it. Spark kills its task and starts another
        attempt after the last committed batch. None turns this off. To load the data and for its
        first milestone a worker has five times as long,
        and always three times as long as the longest milestone so far. A worker that waits
        for others, or for a paused run, does not stand still. Where all workers make each step
        together, the run fails once a partition that was lost has had no worker for that long;
        see ``on_loss`` of `AllReduce`.
        """,
        check=positive,
    )
    checkpoint_every: str | int | Trigger | None = option(
        None,
        "how often the run is saved: 30s, 5min, 2h, a number of milestones, or 2epochs",
        """
        Interval of checkpoints, with everything that a run needs to continue, in `checkpoint_dir`,
        which must be given. A time: ``"30s"``, ``"5min"``, ``"2h"``. Milestones: ``"500
        milestones"`` or 500; or
        ``"2 epochs"``, with or without the space; and when it ends. `tos_notebook.resume` continues
        there. Never by default.
        """,
        takes="str or int, optional",
        check=as_trigger,
    )
    max_checkpoints: int = option(
        3,
        "checkpoints to keep",
        """
        Checkpoints to keep; with more than one, a damaged one does no harm. Those of the last
        minute are also kept.
        """,
        check=at_least_one,
    )
    name: str | None = option(
        None,
        "what the run is called in views, lists, legends and reports",
        """
        What the run is called in views, lists, legends, reports and checkpoints, and by which
        magics know it; only its number by default.
        """,
        check=_name,
    )

    def checked(self) -> Self:
        """Return them as a run uses them, `checkpoint_every` as an object.

        Raises
        ------
        ConfigError
            One is out of range, or the partitioner is for another number of partitions.
        """
        checked = replace(self, **in_range(RunOptions, self))
        own = getattr(self.partitioner, "num_partitions", self.partitions)
        if self.partitions is not None and own != self.partitions:
            raise ConfigError(
                f"partitions: expected {own}, as many as partitioner={self.partitioner!r} is for; "
                f"got {self.partitions}. Give both the same number, or leave it out."
            )
        return checked

    @property
    def every(self) -> Trigger | None:
        """How often the run is saved; None for never."""
        every = self.checkpoint_every
        return None if every is None else as_trigger("checkpoint_every", every)

    @property
    def deals(self) -> bool:
        """Whether the rows are dealt to the partitions at random."""
        return bool(self.shuffle) and self.shuffle != "partitions"

    def participants(self, partitions: int) -> Participants | None:
        """Return what chooses among so many partitions; None where all train in each epoch."""
        if self.participation is None:
            return None
        return Participants(self.participation, partitions, self.seed)
