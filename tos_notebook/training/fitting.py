"""Refuse data, or their partitions, that do not fit how they are to be trained."""

from __future__ import annotations

from ..blocks.sampling import Sampler
from ..blocks.source import DataSource
from ..coordination.settings import Settings
from ..data.stream import StreamSource
from ..errors import ConfigError, ShapeMismatch
from ..strategies.base import Strategy
from .options import RunOptions


def require_slots(settings: Settings, partitions: int, slots: int) -> None:
    """Refuse partitions that must wait for others, where all make each step together.

    Raises
    ------
    ConfigError
        Spark does not run a task for each of them at once.
    """
    # Where each epoch is a Spark job, no task waits for another.
    together = settings.strategy.lockstep and settings.strategy.tree_depth is None
    if together and partitions > slots:
        raise ConfigError(
            f"partitions: all workers make each step together, so that Spark must run a task for "
            f"each of the {partitions} partitions at once. It runs {slots}. "
            f"Lay the rows out in at most {slots}, give Spark more slots, or train with "
            "strategy='ps'."
        )


def require_whole_batches(rows: int | None, batch_size: int, source: DataSource) -> None:
    """Refuse batches of another size than a program takes, as far as that is known before.

    Parameters
    ----------
    rows : int or None
        Of each batch; None for any number.
    batch_size : int
    source : DataSource
        In the layout that is trained first.

    Raises
    ------
    ConfigError
        `batch_size` is another one.
    ShapeMismatch
        The last batch of a partition would be smaller.
    """
    if rows is None:
        return
    if batch_size != rows:
        raise ConfigError(
            f"batch_size: expected {rows}, the batch that the model's input is made for; got "
            f"{batch_size}. Give batch_size={rows}, or make the input by its shape, without "
            "batch_shape."
        )
    count, each = source.samples, rows * source.partitions
    if count is not None and count % each:
        raise ShapeMismatch(
            f"The model's input takes batches of {rows} rows: expected a multiple of {each} rows "
            f"in {source.partitions} partitions, got {count}. Leave {count % each} out, or make "
            "the input by its shape, without batch_shape."
        )


def require_participants(strategy: Strategy, source: DataSource, options: RunOptions) -> None:
    """Refuse what cannot be trained by some of its partitions in each epoch.

    Raises
    ------
    ConfigError
        All workers are needed, or rows move between partitions, or are not held by workers.
    """
    require_apart(strategy, options)
    if options.participation is not None and isinstance(source, StreamSource):
        raise ConfigError(
            "participation: expected rows that partitions keep, got a function of datasets. Give "
            "an RDD, columns of a DataFrame or arrays."
        )


def require_apart(strategy: Strategy, options: RunOptions) -> None:
    """Refuse options with which some partitions cannot train without the others.

    Raises
    ------
    ConfigError
        All workers are needed, or rows move between partitions.
    """
    part = options.participation
    if part is None:
        return
    if strategy.name != "ps":
        raise ConfigError(
            f"participation: expected strategy='ps' with it, whose server waits for no worker; got "
            f"strategy={strategy.name!r} and participation={part:g}. Leave one of them out."
        )
    if options.repartition_every is not None:
        raise ConfigError(
            "repartition_every: expected none with participation, by which each partition keeps "
            f"its rows; got {options.repartition_every}. Leave one of them out."
        )


def require_samples(sampler: Sampler | None, source: DataSource, options: RunOptions) -> None:
    """Refuse data of which no samples can be drawn, or not the ones that were asked for.

    Raises
    ------
    ConfigError
        They are a stream; or rows that are dealt, of which the samples of a JVM are to be drawn.
    """
    if sampler is not None and isinstance(source, StreamSource):
        raise ConfigError(
            "data: expected rows of which a sample can be drawn, got a stream. Give an RDD, "
            "columns of a DataFrame or arrays, or train with strategy='allreduce'."
        )
    require_dealt(sampler, options)


def require_dealt(sampler: Sampler | None, options: RunOptions) -> None:
    """Refuse options by which rows move of which the samples of a JVM are to be drawn.

    Raises
    ------
    ConfigError
        They are dealt, or laid out again.
    """
    if sampler is None:
        return
    if sampler.kind == "mllib" and options.deals:
        raise ConfigError(
            "shuffle: expected False with sampler='mllib', which draws what MLlib draws of the "
            f"same partitions; got {options.shuffle}. Give shuffle=False, or take sampler='own'."
        )
    if sampler.kind == "mllib" and options.repartition_every is not None:
        raise ConfigError(
            "repartition_every: expected none with sampler='mllib', which draws what MLlib draws "
            f"of the same partitions; got {options.repartition_every}. Leave it out, or take "
            "sampler='own'."
        )
