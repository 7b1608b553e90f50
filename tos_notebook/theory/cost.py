"""`cost`: what each way of training costs, for a user's model and cluster."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from ..common.checks import at_least_one, at_least_zero, positive, with_known_options
from ..errors import ConfigError
from .exchanges import BANDWIDTH, LATENCY, Cluster, Costs


@with_known_options
def cost(
    program: Any,
    *,
    batch_seconds: float,
    workers: int | Sequence[int] = 4,
    batch_size: int = 100,
    sync_interval: int = 10,
    latency: float = LATENCY,
    bandwidth: float = BANDWIDTH,
    slowest: float = 1.0,
    shards: int | Sequence[int] = (2, 4),
) -> Costs:
    """Return what each way of training costs, by formulas; nothing is measured.

    The formulas are those of the module `tos_notebook.theory.exchanges`, and of
    `tos_notebook.reduction.costs` for reductions (ring: Patarasuk and Yuan 2009, JPDC 69(2)).
    They leave out what Spark, Python and the operating system take.

    Parameters
    ----------
    program : Program, keras.Model or int
        What `tos_notebook.capture` returns, a compiled Keras model, or the bytes of the
        parameters, from 1.
    batch_seconds : float
        Seconds that a worker computes for a batch, above 0.
    workers : int or sequence of int
        At least 1, each on a separate host. Or how many there are on each host: ``(4, 4)`` are
        8 workers on two hosts. Those of one host alone share it with the driver.
    batch_size : int
        Rows, at least 1.
    sync_interval : int
        Batches between two exchanges, at least 1. All-reduce of gradients and tree aggregation
        exchange after each batch in any case.
    latency : float
        Seconds that a short message takes, at least 0.
    bandwidth : float
        Bytes a second of each host's link in one direction, above 0. On one host alone it is that
        of its memory instead.
    slowest : float
        How many times as long the slowest worker takes for a batch, at least 1.
    shards : int or sequence of int
        How many shards of the parameters to compare with the driver alone, each at least 1; or
        several such numbers. Each shard has a separate host and link, and takes a slot of
        Spark that no worker has then. On one host alone, shards also share its memory.

    Returns
    -------
    Costs
        ``ps asp``; ``ps:shards=2`` and ``ps:shards=4``, also asynchronous; ``ps bsp``;
        ``allreduce:star``, ``allreduce:ring``, ``allreduce:direct``,
        ``allreduce:halving`` and ``allreduce:two_level``, of gradients;
        ``allreduce:parameters/10`` for a `sync_interval` of 10, by the fastest algorithm among
        workers; and ``treeaggregate``. All times are for one batch of each worker.

    Raises
    ------
    ConfigError
        A value out of range, or no model.
    CaptureError
        A model that cannot be captured, such as one that is not compiled.

    Examples
    --------
    >>> found = cost(800_000, batch_seconds=0.006, workers=8)
    >>> found["allreduce:ring"].sync_interval
    1
    """
    counts = _workers(workers)
    cluster = Cluster(
        nbytes_of(program),
        counts,
        positive("batch_seconds", batch_seconds),
        at_least_one("batch_size", batch_size),
        at_least_zero("latency", latency),
        positive("bandwidth", bandwidth),
        positive("slowest", slowest),
    )
    if slowest < 1:
        raise ConfigError(f"slowest: expected a number of at least 1, got {slowest!r}.")
    placed = "" if isinstance(counts, int) else f" on {len(counts)} hosts"
    return Costs(
        f"{cluster.nbytes / 1e6:,.3g} MB of parameters, {cluster.n} "
        f"worker{'s' * (cluster.n > 1)}{placed}, "
        f"{1e3 * batch_seconds:.3g} ms for a batch of {batch_size}; links of "
        f"{bandwidth / 1e6:,.4g} MB/s and {1e3 * latency:.3g} ms",
        cluster.ways(at_least_one("sync_interval", sync_interval), _shards(shards)),
    )


def nbytes_of(program: Any) -> int:
    """Return the bytes of a program's parameters; see `cost`."""
    # Figures load this package, and need no program.
    from ..program.capture import capture
    from ..program.kinds import is_keras

    if is_keras(program):
        program = capture(program)
    layout = getattr(program, "layout", None)
    if layout is None and not isinstance(program, Real):
        raise ConfigError(
            "program: expected a compiled Keras model, what tos.capture(model) returns, or the "
            f"bytes of its parameters; got {program!r} of type {type(program).__name__}."
        )
    return at_least_one("program", program if layout is None else layout.nbytes)


def _workers(value: Any) -> int | tuple[int, ...]:
    if not isinstance(value, list | tuple):
        return at_least_one("workers", value)
    if not value:
        raise ConfigError("workers: expected how many there are on each host, got none.")
    return tuple(at_least_one("workers", count) for count in value)


def _shards(value: Any) -> list[int]:
    counts = value if isinstance(value, list | tuple) else [value]
    return sorted({at_least_one("shards", count) for count in counts})
